"""Answers that describe groups one by one: of consumer, share and streams groups."""

from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Protocol, TypeVar
from uuid import UUID

from goqueue.doors.kafka.authorized_operations import NOT_ASKED_FOR, operations_on
from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.operation import RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.caller import Caller
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.errors import GroupError
from goqueue.model.rights import Resource
from goqueue.pace import in_slices


class DescribeRequest(Protocol):
    @property
    def group_ids(self) -> tuple[str, ...]: ...

    @property
    def include_authorized_operations(self) -> bool: ...


class DescribedGroup(Protocol):
    """What groups of all kinds have."""

    @property
    def error(self) -> GroupError: ...

    @property
    def error_message(self) -> str: ...

    @property
    def state(self) -> str: ...

    @property
    def group_epoch(self) -> int: ...

    @property
    def assignment_epoch(self) -> int: ...


GroupT = TypeVar("GroupT", bound=DescribedGroup)


async def described_groups(
    context: RequestContext,
    request: DescribeRequest,
    *,
    describe: Callable[[Caller, str], Awaitable[GroupT]],
    unknown: Callable[[str], GroupT],
    of_its_kind: Callable[[GroupT], Message],
) -> Message:
    """`unknown` stands for a group that cannot be asked; `of_its_kind` adds what others do not
    have."""

    async def described(group_id: str) -> Message:
        try:
            group = await describe(context.caller, group_id)
            code, message = group_code(group.error), group.error_message
        except GoQueueError as error:
            group = unknown(group_id)
            code, message = failure_code(error), error.message
        return {
            "error_code": code,
            "error_message": message or None,
            "group_id": group_id,
            "group_state": group.state,
            "group_epoch": group.group_epoch,
            "assignment_epoch": group.assignment_epoch,
            **of_its_kind(group),
        }

    return {
        "groups": [
            {
                **await described(group_id),
                "authorized_operations": (
                    operations_on(context, Resource.GROUP, group_id)
                    if request.include_authorized_operations
                    else NOT_ASKED_FOR
                ),
            }
            async for group_id in in_slices(dict.fromkeys(request.group_ids))
        ]
    }


def assignment_of(partitions: Mapping[UUID, Set[int]], names: Mapping[UUID, str]) -> Message:
    """Of topics that have a name: one that was deleted has none any more."""
    return {
        "topic_partitions": [
            {
                "topic_id": topic_id,
                "topic_name": names[topic_id],
                "partitions": sorted(indexes),
            }
            for topic_id, indexes in partitions.items()
            if topic_id in names
        ]
    }
