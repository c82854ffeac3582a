"""/rebalance/stats: how often groups rebalance, why, and for how long."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from msgspec import Meta

from goqueue.doors.http.groups.fields import GroupInPath
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.unanswered import UnansweredBrokers, show_unanswered
from goqueue.model.caller import Caller
from goqueue.model.groups.rebalances import REBALANCING, RebalanceReason, RebalanceTally
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

_TAGS: Final = ["Groups"]


class RebalanceFigures(msgspec.Struct, frozen=True, rename="camel"):
    """Since the brokers started that coordinate the groups. Times are in milliseconds."""

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


class AllRebalances(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    in_progress: Annotated[int, Meta(description="Groups in a rebalance right now.")]
    rebalances: RebalanceFigures
    unanswered: UnansweredBrokers = []


@get(
    "/groups/{group:str}/rebalance/stats",
    tags=_TAGS,
    responses=errors(400, 403, 404),
    opt={"needs": (Need(Resource.GROUP, Verb.DESCRIBE, names="group"),)},
)
async def group_rebalances(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller], group: GroupInPath
) -> GroupRebalances:
    """The rebalances of one group."""
    state, tally = await service.groups.rebalances(caller, group)
    return GroupRebalances(group, state, state in REBALANCING, _show(tally))


@get(
    "/rebalance/stats",
    tags=_TAGS,
    responses=errors(400, 403),
    opt={"needs": (Need(Resource.CLUSTER, Verb.DESCRIBE),)},
)
async def all_rebalances(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> AllRebalances:
    """The rebalances of all groups."""
    in_progress, tally, unanswered = await service.groups.all_rebalances(caller)
    return AllRebalances(in_progress, _show(tally), show_unanswered(unanswered))


ROUTES: Final[Sequence[HTTPRouteHandler]] = (group_rebalances, all_rebalances)


def _show(tally: RebalanceTally) -> RebalanceFigures:
    some = tally.completed > 0
    return RebalanceFigures(
        completed=tally.completed,
        by_reason={reason.value: tally.by_reason.get(reason, 0) for reason in RebalanceReason},
        partitions_moved=tally.partitions_moved,
        last_duration_ms=tally.last_ms,
        mean_duration_ms=tally.total_ms / tally.completed if some else None,
        longest_duration_ms=tally.longest_ms if some else None,
        last_ended_at=tally.last_ended_ms,
    )
