"""Fetch: record batches as they are stored, with sessions (KIP-227) and topic ids (KIP-516)."""

import asyncio
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchPlan,
    FetchSession,
    PartitionKey,
    SentState,
    SessionError,
)
from goqueue.doors.kafka.large_requests import LARGE_ELEMENTS
from goqueue.doors.kafka.leader_hints import LeaderHints
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.reading import Malformed
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import AccessDenied, ClusterAccessDenied, GoQueueError, UnknownTopicId
from goqueue.model.log import FetchedPart, FetchPart, Isolation
from goqueue.model.names import NodeId
from goqueue.model.replication import Member
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.fetch.v18.request import FetchRequest

FIRST_VERSION_WITH_RACK: Final = 11
FIRST_VERSION_WITH_TOPIC_ID: Final = 13
# From then on a follower tells its broker epoch (KIP-903).
FIRST_VERSION_OF_FOLLOWERS: Final = 15
_MILLISECOND: Final = timedelta(milliseconds=1)

_Answered = tuple[PartitionKey, FetchedPart]


class _Limits(TypedDict):
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: Isolation
    rack: str


async def handle(context: RequestContext, request: "FetchRequest") -> Message:
    by_id = context.version >= FIRST_VERSION_WITH_TOPIC_ID
    follower = _follower(context, request)
    quota = context.quota
    try:
        if follower is not None:
            context.service.replication.check(context.caller)
            context.quota = quota = None
        is_held = quota is not None and not quota.may_fetch()
        if is_held and request.session_epoch == INITIAL_EPOCH:
            # Without a session, which it comes again to begin (KIP-219).
            return _nothing(0)
        plan = context.services.fetch_sessions.plan(
            request.session_id,
            request.session_epoch,
            dict(_wanted(context, request, follower)),
            _forgotten(request),
            uses_topic_ids=by_id,
            is_replica=follower is not None,
            reader=context.caller.principal,
        )
    except SessionError as error:
        return {"error_code": error.code, "session_id": 0, "responses": ()}
    except ClusterAccessDenied as error:
        return {"error_code": error_code(error), "session_id": 0, "responses": ()}
    session = plan.session
    if is_held:
        return _nothing(plan.session_id)
    is_large = len(plan.parts if session is None else session.ready) > LARGE_ELEMENTS
    if is_large:
        await asyncio.sleep(0)
    limits = _limits(context, request)
    if session is None:
        answered = await _fetch(context, plan.parts, limits)
    elif follower is None:
        answered = await _fetch_ready(
            context, session, limits, looks_at_all=not plan.is_incremental
        )
    else:
        answered = await _fetch_as_follower(
            context, follower, session, limits, looks_at_all=not plan.is_incremental
        )
    if is_large:
        # The broker has let others run, too; each step by itself is short enough.
        await asyncio.sleep(0)
    if quota is not None:
        quota.fetched(sum([len(part.data) for _, part in answered if part.data]))
    hints = LeaderHints(context)
    return {
        "error_code": ErrorCode.none,
        "session_id": plan.session_id,
        "responses": _by_topic(_with_news(plan, answered), hints, by_id=by_id),
        "node_endpoints": hints.endpoints(),
    }


def _nothing(session_id: int) -> Message:
    return {"error_code": ErrorCode.none, "session_id": session_id, "responses": ()}


def _follower(context: RequestContext, request: "FetchRequest") -> Member | None:
    """Who asks, if it is a broker that copies; always in a session."""
    if context.version < FIRST_VERSION_OF_FOLLOWERS or request.session_epoch == FINAL_EPOCH:
        return None
    state = request.replica_state
    if state.replica_id < 0:
        return None
    return Member(NodeId(state.replica_id), state.replica_epoch)


def _wanted(
    context: RequestContext, request: "FetchRequest", follower: Member | None
) -> Iterator[tuple[PartitionKey, FetchPart]]:
    verb = Verb.READ if follower is None else Verb.CLUSTER_ACTION
    for topic in request.topics:
        # The name stands in the request up to version 12, the id from then on.
        named = getattr(topic, "topic", "")
        name, topic_id = named, topic.topic_id
        if not named:
            # Without a name, what is wrong with its id is told when it is looked at.
            with suppress(GoQueueError):
                name = _name(context, topic_id, verb)
        for part in topic.partitions:
            yield (
                PartitionKey(topic_id, named, part.partition),
                FetchPart(
                    name,
                    part.partition,
                    part.fetch_offset,
                    part.partition_max_bytes,
                    part.current_leader_epoch,
                    part.last_fetched_epoch,
                    topic_id,
                ),
            )


def _forgotten(request: "FetchRequest") -> list[PartitionKey]:
    return [
        PartitionKey(topic.topic_id, getattr(topic, "topic", ""), index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def _limits(context: RequestContext, request: "FetchRequest") -> _Limits:
    config = context.services.config
    # Less while answers that nobody reads take up the memory.
    max_bytes = min(
        request.max_bytes, config.fetch_max_bytes, context.services.memory.answer_max_bytes
    )
    quota = context.quota
    if quota is not None:
        max_bytes = quota.fetch_max_bytes(max_bytes)
    return {
        "max_wait_ms": min(max(0, request.max_wait // _MILLISECOND), config.fetch_max_wait_ms),
        "min_bytes": min(request.min_bytes, max_bytes),
        "max_bytes": max_bytes,
        "isolation": isolation_level(request.isolation_level),
        "rack": request.rack_id if context.version >= FIRST_VERSION_WITH_RACK else "",
    }


async def _fetch(
    context: RequestContext, parts: Mapping[PartitionKey, FetchPart], limits: _Limits
) -> list[_Answered]:
    refused: list[_Answered] = []
    keys: list[PartitionKey] = []
    wanted: list[FetchPart] = []
    for key, part in parts.items():
        if part.topic:
            keys.append(key)
            wanted.append(part)
            continue
        try:
            _name(context, key.topic_id)
        except GoQueueError as error:
            refused.append((key, FetchedPart("", key.partition, error)))
    if not wanted:
        return refused
    fetched = await context.service.log.fetch(context.caller, wanted, **limits)
    return [*zip(keys, fetched, strict=True), *refused]


async def _fetch_ready(
    context: RequestContext, session: FetchSession, limits: _Limits, *, looks_at_all: bool
) -> list[_Answered]:
    session.read_as(limits["isolation"])
    refused: dict[Hashable, FetchedPart] = {}
    if session.uses_topic_ids:
        unnamed = session.name(partial(_name, context))
        refused = {key: FetchedPart("", key.partition, unnamed[key]) for key in unnamed}
        denied = {key for key in unnamed if isinstance(unnamed[key], AccessDenied)}
        if not denied <= session.ready.refused:
            limits["max_wait_ms"] = 0
        if len(unnamed) == len(session.parts) > len(denied):
            return list(cast("Iterable[_Answered]", refused.items()))
    found = await context.service.log.fetch_ready(
        context.caller, session.ready, session.parts, looks_at_all=looks_at_all, **limits
    )
    # Once rules have changed, it looks at those without a name, too.
    return list(cast("Iterable[_Answered]", (found | refused).items()))


async def _fetch_as_follower(
    context: RequestContext,
    follower: Member,
    session: FetchSession,
    limits: _Limits,
    *,
    looks_at_all: bool,
) -> list[_Answered]:
    unnamed = session.name(partial(_name, context, verb=Verb.CLUSTER_ACTION))
    refused = [(key, FetchedPart("", key.partition, unnamed[key])) for key in unnamed]
    if len(unnamed) == len(session.parts):
        return refused
    # A follower that asks for something else must not wait for what it asked before.
    with context.connection.hurrying(session.ready.hurry):
        found = await context.service.replication.fetch(
            context.caller,
            follower,
            session.ready,
            session.parts,
            max_wait_ms=limits["max_wait_ms"],
            min_bytes=limits["min_bytes"],
            max_bytes=limits["max_bytes"],
            looks_at_all=looks_at_all,
        )
    return [*cast("Iterable[_Answered]", found.items()), *refused]


def isolation_level(number: int) -> Isolation:
    try:
        return Isolation(number)
    except ValueError:
        raise Malformed(f"isolation level {number}; it must be 0 or 1") from None


def _name(context: RequestContext, topic_id: UUID | None, verb: Verb = Verb.READ) -> str:
    if topic_id is None:
        raise UnknownTopicId("topic id is empty")
    if verb is Verb.CLUSTER_ACTION:
        return context.service.replication.name_of(context.caller, topic_id)
    return context.service.topics.name_of(context.caller, topic_id, verb)


def _with_news(plan: FetchPlan, answered: list[_Answered]) -> Iterator[_Answered]:
    session = plan.session
    for key, part in answered:
        has_news = session is None or session.has_news(
            key,
            SentState(part.high_watermark, part.last_stable_offset, part.log_start_offset),
            has_data=bool(part.data) or part.diverging is not None or part.nearest is not None,
            error=part.error,
        )
        if has_news or not plan.is_incremental:
            yield key, part


def _by_topic(answered: Iterator[_Answered], hints: LeaderHints, *, by_id: bool) -> list[Message]:
    topics: dict[Any, list[Message]] = {}
    for key, part in answered:
        topic = key.topic_id if by_id else key.topic
        topics.setdefault(topic, []).append(_answer(key.partition, part, hints))
    name = "topic_id" if by_id else "topic"
    return [{name: topic, "partitions": parts} for topic, parts in topics.items()]


def _answer(index: int, part: FetchedPart, hints: LeaderHints) -> Message:
    error: GoQueueError | None = part.error
    answer: dict[str, Any] = {
        "partition_index": index,
        "error_code": ErrorCode.none if error is None else error_code(error),
        "high_watermark": part.high_watermark,
        "last_stable_offset": part.last_stable_offset,
        "log_start_offset": part.log_start_offset,
        "aborted_transactions": (
            None
            if part.aborted is None
            else [
                {"producer_id": a.producer_id, "first_offset": a.first_offset} for a in part.aborted
            ]
        ),
        "records": part.data,
    }
    if error is not None and (leader := hints.of(part.topic, index, error)) is not None:
        answer["current_leader"] = leader
    if part.nearest is not None:
        answer["preferred_read_replica"] = part.nearest
    if part.diverging is not None:
        answer["diverging_epoch"] = {
            "epoch": part.diverging.epoch,
            "end_offset": part.diverging.end_offset,
        }
    return answer


def _has_many_partitions(message: Message) -> bool:
    """A session may be about thousands, though its requests name none."""
    return sum([len(topic["partitions"]) for topic in message["responses"]]) > LARGE_ELEMENTS


OPERATION = Operation(
    api_key=1,
    name="Fetch",
    min_version=4,
    max_version=18,
    handle=handle,
    needs=(
        Need(
            Resource.TOPIC,
            Verb.READ,
            names="topics.topic, topics.topic_id",
            refused=Refused.EACH,
        ),
        # Of who calls itself a follower.
        Need(Resource.CLUSTER, Verb.CLUSTER_ACTION),
    ),
    waits=True,
    starts_at_once=True,
    answers_with_many=_has_many_partitions,
)
