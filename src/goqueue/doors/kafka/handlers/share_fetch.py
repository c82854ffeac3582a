"""ShareFetch: acquire records and get them, acknowledging earlier ones on the way (KIP-932)."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.broker.queues.share.fetching import ShareFetch, ShareFetched
from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.share_acknowledgements import (
    FINE,
    Acknowledged,
    acknowledge,
    requested,
)
from goqueue.doors.kafka.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionKey,
    SharePart,
    ShareSession,
    ShareSessionError,
)
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError, UnknownTopicId
from goqueue.model.groups.errors import GroupError

if TYPE_CHECKING:
    from kio.schema.share_fetch.v2.request import ShareFetchRequest

_MILLISECOND: Final = timedelta(milliseconds=1)
# ShareAcquireMode 1: never more records than asked for (KIP-1206).
_RECORD_LIMIT: Final = 1
_NOT_FETCHED: Final = ShareFetched("", -1)


async def handle(context: RequestContext, request: "ShareFetchRequest") -> Message:
    key = SessionKey(request.group_id or "", request.member_id or "")
    is_renew_ack = getattr(request, "is_renew_ack", False)
    epoch = request.share_session_epoch
    batches_of = requested(request.topics)
    try:
        _check_renewal(request, is_renew_ack)
        if epoch == INITIAL_EPOCH:
            await _check_group(context, key.group_id)
        session = context.services.share_sessions.fetch(
            key,
            epoch,
            batches_of,
            _forgotten(request),
            context.connection,
            has_acknowledgements=any(batches_of.values()),
        )
    except ShareSessionError as error:
        return _answer(context, key, error.code, error.message, ())
    acknowledged = await acknowledge(context, key, batches_of, is_renew_ack=is_renew_ack)
    fetched: dict[SharePart, ShareFetched] = {}
    if epoch == FINAL_EPOCH:
        context.services.share_sessions.close(key)
        await context.broker.share_groups.release(*key)
    elif not is_renew_ack:
        fetched = await _fetch(context, request, key, session)
    parts = [
        part
        for part in dict.fromkeys((*fetched, *acknowledged))
        if part in acknowledged
        or epoch == INITIAL_EPOCH
        or fetched[part].error is not None
        or fetched[part].acquired
    ]
    responses = _by_topic(context, parts, fetched, acknowledged)
    return _answer(context, key, ErrorCode.none, None, responses)


def _check_renewal(request: "ShareFetchRequest", is_renew_ack: bool) -> None:
    """KIP-1222: records that are renewed are not given back first, so there is no fetch."""
    if is_renew_ack and (
        request.max_bytes or request.min_bytes or request.max_records or request.max_wait
    ):
        raise ShareSessionError(
            ErrorCode.invalid_request,
            "a request that renews fetches nothing: its limits and its wait must be 0",
        )


async def _check_group(context: RequestContext, group_id: str) -> None:
    try:
        group = await context.broker.share_groups.describe(group_id)
    except GoQueueError as error:
        raise ShareSessionError(failure_code(error), error.message) from error
    if group.error is not GroupError.NONE:
        raise ShareSessionError(group_code(group.error), group.error_message)


def _forgotten(request: "ShareFetchRequest") -> list[SharePart]:
    return [
        SharePart(topic.topic_id, index)
        for topic in request.forgotten_topics_data
        if topic.topic_id is not None
        for index in topic.partitions
    ]


async def _fetch(
    context: RequestContext, request: "ShareFetchRequest", key: SessionKey, session: ShareSession
) -> dict[SharePart, ShareFetched]:
    topics = context.broker.image.topics_by_id
    found: dict[SharePart, ShareFetched] = {}
    wanted: dict[tuple[str, int], SharePart] = {}
    for part in session.parts:
        topic = topics.get(part.topic_id)
        if topic is None:
            error = UnknownTopicId(f"there is no topic with id {part.topic_id}")
            found[part] = ShareFetched("", part.partition, error)
        else:
            wanted[topic.name, part.partition] = part
    if not wanted or request.max_records <= 0 or request.max_bytes <= 0:
        return found
    max_bytes = min(request.max_bytes, context.services.config.fetch_max_bytes)
    fetch = ShareFetch(
        group_id=key.group_id,
        member_id=key.member_id,
        wanted=list(wanted),
        max_wait_ms=0 if found else max(0, request.max_wait // _MILLISECOND),
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        max_records=request.max_records,
        batch_size=request.batch_size,
        is_strict=getattr(request, "share_acquire_mode", 0) == _RECORD_LIMIT,
    )
    for answer in await context.broker.share_groups.fetch(fetch):
        part = wanted[answer.topic, answer.index]
        found[part] = answer
        if answer.acquired:
            session.serve_last(part)
    return found


def _by_topic(
    context: RequestContext,
    parts: Sequence[SharePart],
    fetched: Mapping[SharePart, ShareFetched],
    acknowledged: Mapping[SharePart, Acknowledged],
) -> list[Message]:
    topics: dict[UUID, list[Message]] = {}
    for part in parts:
        answer = _partition(part, fetched.get(part, _NOT_FETCHED), acknowledged.get(part, FINE))
        answer["current_leader"] = leader_of(context, part)
        topics.setdefault(part.topic_id, []).append(answer)
    return [{"topic_id": topic_id, "partitions": found} for topic_id, found in topics.items()]


def _partition(part: SharePart, fetched: ShareFetched, acknowledged: Acknowledged) -> Any:
    error = fetched.error
    return {
        "partition_index": part.partition,
        "error_code": ErrorCode.none if error is None else error_code(error),
        "error_message": None if error is None else error.message,
        "acknowledge_error_code": acknowledged[0].value,
        "acknowledge_error_message": acknowledged[1],
        "records": fetched.data,
        "acquired_records": [
            {"first_offset": first, "last_offset": last, "delivery_count": min(count, 2**15 - 1)}
            for first, last, count in fetched.acquired
        ],
    }


def leader_of(context: RequestContext, part: SharePart) -> Message:
    topic = context.broker.image.topics_by_id.get(part.topic_id)
    if topic is None or not 0 <= part.partition < len(topic.partitions):
        return {"leader_id": -1, "leader_epoch": -1}
    view = topic.partitions[part.partition]
    return {"leader_id": view.leader, "leader_epoch": view.leader_epoch}


def _answer(
    context: RequestContext,
    key: SessionKey,
    code: ErrorCode,
    message: str | None,
    responses: Sequence[Message],
) -> Message:
    return {
        "error_code": code,
        "error_message": message,
        "acquisition_lock_timeout": lock_timeout_ms(context, key),
        "responses": responses,
        "node_endpoints": (),
    }


def lock_timeout_ms(context: RequestContext, key: SessionKey) -> int:
    return context.broker.share_groups.config_of(key.group_id).share_record_lock_duration_ms


OPERATION = Operation(
    api_key=78, name="ShareFetch", min_version=1, max_version=2, handle=handle, waits=True
)
