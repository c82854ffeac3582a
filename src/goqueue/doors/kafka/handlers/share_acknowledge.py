"""ShareAcknowledge: say what became of acquired records (KIP-932, KIP-1222)."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.handlers.share_fetch import leader_of, lock_timeout_ms
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.share_acknowledgements import FINE, acknowledge, requested
from goqueue.doors.kafka.share_sessions import FINAL_EPOCH, SessionKey, ShareSessionError
from goqueue.doors.kafka.wire.writing import Message

if TYPE_CHECKING:
    from kio.schema.share_acknowledge.v2.request import ShareAcknowledgeRequest


async def handle(context: RequestContext, request: "ShareAcknowledgeRequest") -> Message:
    key = SessionKey(request.group_id or "", request.member_id or "")
    epoch = request.share_session_epoch
    answer: dict[str, Any] = {
        "error_code": ErrorCode.none,
        "error_message": None,
        "acquisition_lock_timeout": lock_timeout_ms(context, key),
        "responses": (),
        "node_endpoints": (),
    }
    try:
        context.services.share_sessions.acknowledge(key, epoch)
    except ShareSessionError as error:
        return {**answer, "error_code": error.code, "error_message": error.message}
    batches_of = requested(request.topics)
    is_renew_ack = getattr(request, "is_renew_ack", False)
    acknowledged = await acknowledge(context, key, batches_of, is_renew_ack=is_renew_ack)
    if epoch == FINAL_EPOCH:
        context.services.share_sessions.close(key)
        await context.broker.share_groups.release(*key)
    topics: dict[UUID, list[Message]] = {}
    for part in batches_of:
        code, message = acknowledged.get(part, FINE)
        topics.setdefault(part.topic_id, []).append(
            {
                "partition_index": part.partition,
                "error_code": code,
                "error_message": message,
                "current_leader": leader_of(context, part),
            }
        )
    answer["responses"] = [
        {"topic_id": topic_id, "partitions": found} for topic_id, found in topics.items()
    ]
    return answer


OPERATION = Operation(
    api_key=79, name="ShareAcknowledge", min_version=1, max_version=2, handle=handle
)
