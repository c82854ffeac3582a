"""ShareFetch: acquire records and get them, acknowledging earlier ones on the way (KIP-932)."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.share_acknowledgements import (
    FINE,
    Acknowledged,
    acknowledge,
    requested,
)
from goqueue.doors.kafka.share_answers import current_leader
from goqueue.doors.kafka.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    ShareSession,
    ShareSessionError,
)
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import (
    AccessDenied,
    GoQueueError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
)
from goqueue.model.fairness.parties import party_of
from goqueue.model.groups.errors import GroupError
from goqueue.model.queues.share import ShareFetch, ShareFetched, ShareMember, SharePart
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.share_fetch.v2.request import ShareFetchRequest

_MILLISECOND: Final = timedelta(milliseconds=1)
# ShareAcquireMode 1: never more records than asked for (KIP-1206).
_RECORD_LIMIT: Final = 1


async def handle(context: RequestContext, request: "ShareFetchRequest") -> Message:
    member = ShareMember(request.group_id or "", request.member_id or "")
    shares = context.service.share_groups
    try:
        terms = shares.terms(context.caller, member.group_id)
    except AccessDenied as error:
        return _answer(error_code(error), error.message, 0, ())
    is_renew_ack = getattr(request, "is_renew_ack", False)
    epoch = request.share_session_epoch
    batches_of = requested(request.topics)
    try:
        _check_renewal(request, is_renew_ack)
        if epoch == INITIAL_EPOCH:
            await _check_group(context, member.group_id)
        session = context.services.share_sessions.fetch(
            member,
            epoch,
            batches_of,
            _forgotten(request),
            context.connection,
            has_acknowledgements=any(batches_of.values()),
            party=party_of(context.caller.principal),
        )
    except ShareSessionError as error:
        return _answer(error.code, error.message, terms.lock_duration_ms, ())
    may_renew = is_renew_ack and terms.may_renew
    fetched: dict[SharePart, ShareFetched] = {}
    try:
        acknowledged = await acknowledge(context, member, batches_of, may_renew=may_renew)
        if epoch == FINAL_EPOCH:
            context.services.share_sessions.close(member)
            await shares.release(context.caller, member)
        elif not is_renew_ack and (context.quota is None or context.quota.may_fetch()):
            fetched = await _fetch(context, request, member, session)
    except AccessDenied as error:
        # Its right to the group ended meanwhile.
        return _answer(error_code(error), error.message, 0, ())
    parts = [
        part
        for part in dict.fromkeys((*fetched, *acknowledged))
        if part in acknowledged
        or epoch == INITIAL_EPOCH
        or fetched[part].error is not None
        or fetched[part].acquired
    ]
    responses = _by_topic(context, parts, fetched, acknowledged)
    return _answer(ErrorCode.none, None, terms.lock_duration_ms, responses)


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
        group = await context.service.share_groups.check(context.caller, group_id)
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
    context: RequestContext,
    request: "ShareFetchRequest",
    member: ShareMember,
    session: ShareSession,
) -> dict[SharePart, ShareFetched]:
    max_bytes = min(request.max_bytes, context.services.config.fetch_max_bytes)
    quota = context.quota
    if quota is not None:
        max_bytes = quota.fetch_max_bytes(max_bytes)
    fetch = ShareFetch(
        wanted=list(session.parts),
        max_wait_ms=min(
            max(0, request.max_wait // _MILLISECOND), context.services.config.fetch_max_wait_ms
        ),
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        max_records=request.max_records,
        batch_size=request.batch_size,
        is_strict=getattr(request, "share_acquire_mode", 0) == _RECORD_LIMIT,
        known_refused=session.refused,
    )
    found: dict[SharePart, ShareFetched] = {}
    for answer in await context.service.share_groups.fetch(context.caller, member, fetch):
        found[answer.part] = answer
        if answer.acquired:
            session.serve_last(answer.part)
    session.refused = frozenset(
        part for part, answer in found.items() if isinstance(answer.error, AccessDenied)
    )
    if quota is not None:
        quota.fetched(sum(len(answer.data) for answer in found.values() if answer.data))
    return found


def _by_topic(
    context: RequestContext,
    parts: Sequence[SharePart],
    fetched: Mapping[SharePart, ShareFetched],
    acknowledged: Mapping[SharePart, Acknowledged],
) -> list[Message]:
    leaders = context.service.share_groups.leaders(context.caller, parts)
    topics: dict[UUID, list[Message]] = {}
    for part in parts:
        answer = _partition(fetched.get(part) or ShareFetched(part), acknowledged.get(part, FINE))
        answer["current_leader"] = current_leader(leaders.get(part))
        topics.setdefault(part.topic_id, []).append(answer)
    return [{"topic_id": topic_id, "partitions": found} for topic_id, found in topics.items()]


def _code(error: GoQueueError) -> ErrorCode:
    """Too few replicas are in sync for a lock: consumers do not know that of a fetch, and end. So
    they are made to look for the leader again, and ask once more."""
    if isinstance(error, NotEnoughReplicas | NotEnoughReplicasAfterAppend):
        return ErrorCode.not_leader_or_follower
    return error_code(error)


def _partition(fetched: ShareFetched, acknowledged: Acknowledged) -> Any:
    error = fetched.error
    return {
        "partition_index": fetched.part.partition,
        "error_code": ErrorCode.none if error is None else _code(error),
        "error_message": None if error is None else error.message,
        "acknowledge_error_code": acknowledged[0].value,
        "acknowledge_error_message": acknowledged[1],
        "records": fetched.data,
        "acquired_records": [
            {
                "first_offset": start,
                "last_offset": end - 1,
                "delivery_count": min(count, 2**15 - 1),
            }
            for (start, end), count, _ in fetched.acquired
        ],
    }


def _answer(
    code: ErrorCode, message: str | None, lock_timeout_ms: int, responses: Sequence[Message]
) -> Message:
    return {
        "error_code": code,
        "error_message": message,
        "acquisition_lock_timeout": lock_timeout_ms,
        "responses": responses,
        "node_endpoints": (),
    }


OPERATION = Operation(
    api_key=78,
    name="ShareFetch",
    min_version=1,
    max_version=2,
    handle=handle,
    needs=(
        Need(Resource.GROUP, Verb.READ, names="group_id"),
        Need(Resource.TOPIC, Verb.READ, names="topics.topic_id", refused=Refused.EACH),
    ),
    waits=True,
)
