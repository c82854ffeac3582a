"""/rebalance/stats: how often groups rebalance, why, and for how long."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from msgspec import Meta

from goqueue.broker.groups.rebalance_stats import RebalanceReason, RebalanceTally
from goqueue.broker.node import Node
from goqueue.doors.http.groups.fields import GroupInPath
from goqueue.doors.http.groups.groups import find_group
from goqueue.doors.http.openapi import errors
from goqueue.model.groups.messages import ListGroups

_TAGS: Final = ["Groups"]
# States in which members are on their way to a new assignment, of both protocols.
_REBALANCING: Final = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
)


class RebalanceFigures(msgspec.Struct, frozen=True, rename="camel"):
    """Since the broker started. Times are in milliseconds."""

    completed: int
    by_reason: Annotated[
        dict[str, int],
        Meta(
            description="member_joined, member_left, member_expired, subscription_changed, "
            "topics_changed."
        ),
    ]
    partitions_moved: Annotated[int, Meta(description="Partitions that got a new reader.")]
    last_duration_ms: int | None
    mean_duration_ms: float | None
    longest_duration_ms: int | None
    last_ended_at: int | None


class GroupRebalances(msgspec.Struct, frozen=True, rename="camel"):
    group: str
    state: str
    in_progress: bool
    rebalances: RebalanceFigures


class AllRebalances(msgspec.Struct, frozen=True, rename="camel"):
    in_progress: Annotated[int, Meta(description="Groups in a rebalance right now.")]
    rebalances: RebalanceFigures


@get("/groups/{group:str}/rebalance/stats", tags=_TAGS, responses=errors(400, 404))
async def group_rebalances(broker: NamedDependency[Node], group: GroupInPath) -> GroupRebalances:
    """The rebalances of one group."""
    found = await find_group(broker, group)
    tally = broker.groups.rebalances.group(group)
    return GroupRebalances(group, found.state, found.state in _REBALANCING, _show(tally))


@get("/rebalance/stats", tags=_TAGS, responses=errors(400))
async def all_rebalances(broker: NamedDependency[Node]) -> AllRebalances:
    """The rebalances of all groups of this broker."""
    found = await broker.groups.list(ListGroups(states=_REBALANCING))
    return AllRebalances(len(found), _show(broker.groups.rebalances.total))


ROUTES: Final[Sequence[HTTPRouteHandler]] = (group_rebalances, all_rebalances)


def _show(tally: RebalanceTally) -> RebalanceFigures:
    some = tally.completed > 0
    return RebalanceFigures(
        completed=tally.completed,
        by_reason={reason.value: tally.by_reason[reason] for reason in RebalanceReason},
        partitions_moved=tally.partitions_moved,
        last_duration_ms=tally.last_ms,
        mean_duration_ms=tally.total_ms / tally.completed if some else None,
        longest_duration_ms=tally.longest_ms if some else None,
        last_ended_at=tally.last_ended_ms,
    )
