"""JoinGroup: enter a classic group; answered when the group has gathered."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import JoinGroup, JoinGroupResult, MemberProtocol
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.join_group.v9.request import JoinGroupRequest

_MILLISECOND: Final = timedelta(milliseconds=1)
# Version 0 has no rebalance time-out of its own.
_FIRST_VERSION_WITH_REBALANCE_TIMEOUT: Final = 1
_FIRST_VERSION_WITH_NULL_PROTOCOL: Final = 7


async def handle(context: RequestContext, request: "JoinGroupRequest") -> Message:
    session_timeout_ms = request.session_timeout // _MILLISECOND
    rebalance_timeout_ms = session_timeout_ms
    if context.version >= _FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
        rebalance_timeout_ms = request.rebalance_timeout // _MILLISECOND
    join = JoinGroup(
        group_id=request.group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols=tuple(
            MemberProtocol(name=protocol.name, metadata=bytes(protocol.metadata))
            for protocol in request.protocols
        ),
        reason=request.reason,
        client=context.client,
        requires_known_member_id=context.version >= 4,
        supports_skipping_assignment=context.version >= 9,
    )
    try:
        result = await context.service.groups.join(context.caller, join)
    except GoQueueError as error:
        refused = JoinGroupResult(member_id=request.member_id)
        return {**_answer(context, refused), "error_code": failure_code(error)}
    return _answer(context, result)


def _answer(context: RequestContext, result: JoinGroupResult) -> Message:
    protocol_name = result.protocol_name
    if protocol_name is None and context.version < _FIRST_VERSION_WITH_NULL_PROTOCOL:
        protocol_name = ""
    return {
        "error_code": group_code(result.error),
        "generation_id": result.generation_id,
        "protocol_type": result.protocol_type,
        "protocol_name": protocol_name,
        "leader": result.leader,
        "skip_assignment": result.skip_assignment,
        "member_id": result.member_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "metadata": member.metadata,
            }
            for member in result.members
        ],
    }


OPERATION = Operation(
    api_key=11,
    name="JoinGroup",
    min_version=0,
    max_version=9,
    handle=handle,
    waits=True,
    needs=(Need(Resource.GROUP, Verb.READ, names="group_id"),),
)
