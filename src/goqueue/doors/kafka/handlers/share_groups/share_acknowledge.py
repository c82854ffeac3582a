"""ShareAcknowledge: say what became of acquired records (KIP-932, KIP-1222)."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.share_acknowledgements import FINE, acknowledge, requested
from goqueue.doors.kafka.share_answers import current_leader
from goqueue.doors.kafka.share_sessions import FINAL_EPOCH, ShareSessionError
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import AccessDenied
from goqueue.model.queues.share import ShareMember
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.share_acknowledge.v2.request import ShareAcknowledgeRequest


async def handle(context: RequestContext, request: "ShareAcknowledgeRequest") -> Message:
    member = ShareMember(request.group_id or "", request.member_id or "")
    epoch = request.share_session_epoch
    shares = context.service.share_groups
    answer: dict[str, Any] = {
        "error_code": ErrorCode.none,
        "error_message": None,
        "acquisition_lock_timeout": 0,
        "responses": (),
        "node_endpoints": (),
    }
    try:
        terms = shares.terms(context.caller, member.group_id)
        answer["acquisition_lock_timeout"] = terms.lock_duration_ms
        context.services.share_sessions.acknowledge(member, epoch)
        batches_of = requested(request.topics)
        may_renew = getattr(request, "is_renew_ack", False) and terms.may_renew
        acknowledged = await acknowledge(context, member, batches_of, may_renew=may_renew)
        if epoch == FINAL_EPOCH:
            context.services.share_sessions.close(member)
            await shares.release(context.caller, member)
    except AccessDenied as error:
        return {**answer, "error_code": error_code(error), "error_message": error.message}
    except ShareSessionError as error:
        return {**answer, "error_code": error.code, "error_message": error.message}
    leaders = shares.leaders(context.caller, batches_of)
    topics: dict[UUID, list[Message]] = {}
    for part in batches_of:
        code, message = acknowledged.get(part, FINE)
        topics.setdefault(part.topic_id, []).append(
            {
                "partition_index": part.partition,
                "error_code": code,
                "error_message": message,
                "current_leader": current_leader(leaders.get(part)),
            }
        )
    answer["responses"] = [
        {"topic_id": topic_id, "partitions": found} for topic_id, found in topics.items()
    ]
    return answer


OPERATION = Operation(
    api_key=79,
    name="ShareAcknowledge",
    min_version=1,
    max_version=2,
    handle=handle,
    needs=(
        Need(Resource.GROUP, Verb.READ, names="group_id"),
        Need(Resource.TOPIC, Verb.READ, names="topics.topic_id", refused=Refused.EACH),
    ),
)
