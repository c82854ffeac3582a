"""Groups are looked at, and deleted, at their coordinators; those of all brokers are listed."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

import msgspec

from goqueue.broker.calls.calls import (
    LEADER_PATIENCE_S,
    Calls,
    Gathered,
    before_anything_is_done,
)
from goqueue.broker.groups.groups import Groups
from goqueue.broker.groups.overview import overview
from goqueue.broker.own_grants import OwnWork, own_groups
from goqueue.model.calls import Method
from goqueue.model.groups.messages import (
    DeleteGroupResult,
    ListedGroup,
    ListGroups,
    NamedConsumerGroup,
    OffsetFetch,
    OffsetFetchResult,
)
from goqueue.model.groups.overview import GroupOverview
from goqueue.model.groups.rebalances import REBALANCING, GroupRebalances, RebalanceTally
from goqueue.model.rights import DeletableGroup, DescribableGroup


class Look(msgspec.Struct, frozen=True):
    group: DescribableGroup


class Delete(msgspec.Struct, frozen=True):
    group: DeletableGroup


class FetchOffsets(msgspec.Struct, frozen=True):
    group: DescribableGroup
    wanted: OffsetFetch


class AskTallies(msgspec.Struct, frozen=True):
    """Of all groups."""


class Rebalances(NamedTuple):
    """Groups that rebalance, and what was counted at a broker."""

    in_progress: list[str]
    tally: RebalanceTally


OVERVIEW: Final = Method("groups.overview", Look, GroupOverview, is_repeatable=True)
CONSUMER: Final = Method("groups.consumer", Look, NamedConsumerGroup, is_repeatable=True)
DELETE: Final = Method("groups.delete", Delete, DeleteGroupResult)
OFFSETS: Final = Method("groups.offsets", FetchOffsets, OffsetFetchResult, is_repeatable=True)
REBALANCES: Final = Method("groups.rebalances", Look, GroupRebalances, is_repeatable=True)
LIST: Final = Method("groups.list", ListGroups, list[ListedGroup], is_repeatable=True)
TALLIES: Final = Method("groups.tallies", AskTallies, Rebalances, is_repeatable=True)

Q = TypeVar("Q", bound=Look | Delete | FetchOffsets)
R = TypeVar("R")


class GroupsAnywhere:
    def __init__(self, groups: Groups, calls: Calls) -> None:
        self._groups = groups
        self._calls = calls
        self._serve(OVERVIEW, lambda asked: overview(groups, asked.group))
        self._serve(CONSUMER, lambda asked: groups.describe_consumer(asked.group))
        self._serve(DELETE, lambda asked: groups.delete(asked.group))
        self._serve(OFFSETS, lambda asked: groups.fetch_offsets(asked.group, asked.wanted))
        self._serve(REBALANCES, self._rebalances_here)
        calls.serve(LIST, self._list_here)
        calls.serve(TALLIES, self._tallies_here)

    def _serve(self, method: Method[Q, R], run: Callable[[Q], Awaitable[R]]) -> None:
        async def at_coordinator(request: Q) -> R:
            with before_anything_is_done():
                await self._groups.state.shard_for(request.group)
            return await run(request)

        self._calls.serve(method, at_coordinator)

    async def _ask(
        self, method: Method[Q, R], request: Q, *, patience_s: float = LEADER_PATIENCE_S
    ) -> R:
        self._groups.check_used()
        place = await self._groups.coordinator(request.group)
        return await self._calls.ask(method, place, request, patience_s=patience_s)

    # --- one group ------------------------------------------------------------------------

    async def overview(self, group: DescribableGroup) -> GroupOverview:
        """Of either protocol; raises `GroupRefused` if there is no such group."""
        return await self._ask(OVERVIEW, Look(group))

    async def describe_consumer(self, group: DescribableGroup) -> NamedConsumerGroup:
        return await self._ask(CONSUMER, Look(group))

    async def delete(self, group: DeletableGroup) -> DeleteGroupResult:
        if not self._groups.state.exists:
            # There are no coordinators, but there may be queues of this name.
            return await self._groups.delete(group)
        return await self._ask(DELETE, Delete(group))

    async def fetch_offsets(
        self,
        group: DescribableGroup,
        request: OffsetFetch,
        *,
        patience_s: float = LEADER_PATIENCE_S,
    ) -> OffsetFetchResult:
        """Waits so long for a coordinator."""
        return await self._ask(OFFSETS, FetchOffsets(group, request), patience_s=patience_s)

    async def rebalances(self, group: DescribableGroup) -> GroupRebalances:
        return await self._ask(REBALANCES, Look(group))

    async def _rebalances_here(self, asked: Look) -> GroupRebalances:
        found = await self._groups.find(asked.group)
        return GroupRebalances(found.state, self._groups.rebalances.group(asked.group))

    # --- all groups -----------------------------------------------------------------------

    async def list_all(self, request: ListGroups) -> Gathered[list[ListedGroup]]:
        """Of all brokers, whoever may see them."""
        return await self._calls.gather(LIST, request)

    async def _list_here(self, request: ListGroups) -> list[ListedGroup]:
        return await self._groups.list(own_groups(OwnWork.LISTS), request)

    async def all_rebalances(self) -> Gathered[Rebalances]:
        return await self._calls.gather(TALLIES, AskTallies())

    async def _tallies_here(self, _: AskTallies) -> Rebalances:
        found = await self._list_here(ListGroups(states=REBALANCING))
        return Rebalances([each.group_id for each in found], self._groups.rebalances.total)
