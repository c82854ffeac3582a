"""Answers that describe groups one by one: of consumer, share and streams groups."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from goqueue.doors.kafka.authorized_operations import NOT_ASKED_FOR, operations_on
from goqueue.doors.kafka.operation import RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.rights import Resource
from goqueue.pace import in_slices


class DescribeRequest(Protocol):
    @property
    def group_ids(self) -> tuple[str, ...]: ...

    @property
    def include_authorized_operations(self) -> bool: ...


async def described_groups(
    context: RequestContext,
    request: DescribeRequest,
    describe: Callable[[RequestContext, str], Awaitable[Message]],
) -> Message:
    return {
        "groups": [
            {
                **await describe(context, group_id),
                "authorized_operations": (
                    operations_on(context, Resource.GROUP, group_id)
                    if request.include_authorized_operations
                    else NOT_ASKED_FOR
                ),
            }
            async for group_id in in_slices(dict.fromkeys(request.group_ids))
        ]
    }
