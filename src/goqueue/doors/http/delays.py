"""/topics/{name}/delayed and /delay/stats: messages whose time has not come."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import delete, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.doors.http.payloads import ByteEncoding, Encoding, shown_text, shown_value
from goqueue.doors.http.publishing import NamedHeader
from goqueue.doors.http.topics import TopicInPath
from goqueue.doors.http.unanswered import UnansweredBrokers, show_unanswered
from goqueue.model.caller import Caller
from goqueue.model.delays import LATENESS_BOUNDS_MS, LIST_DEFAULT, LIST_MAX, DelayedMessage
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need, Refused

IdInPath = Annotated[
    str, PathParameter(max_length=100, description="The id that publishing answered with.")
]


class PendingMessage(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    partition: int
    deliver_at: Annotated[int, Meta(description="Milliseconds since 1970 (UTC).")]
    key: str | None
    key_encoding: ByteEncoding
    value: Any
    encoding: Encoding
    headers: list[NamedHeader]


class MissingPartition(msgspec.Struct, frozen=True, rename="camel"):
    """A partition whose leader did not answer."""

    partition: int
    error: str
    message: str


class PendingPage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    messages: list[PendingMessage]
    next_after: Annotated[str | None, Meta(description="For `after`; null on the last page.")]
    missing: Annotated[
        list[MissingPartition],
        Meta(description="Nobody knows what waits for these. Left out if empty."),
    ] = []


class LatenessCount(msgspec.Struct, frozen=True, rename="camel"):
    up_to_ms: Annotated[int | None, Meta(description="null: later than all before.")]
    count: int


class TopicDelays(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    pending: int
    delivered: int
    cancelled: int
    lateness_p99_ms: int | None


class DelaySummary(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Counts of all brokers since each started; lateness is from due time to append."""

    pending: int
    in_memory: Annotated[int, Meta(description="Due in the next hours; the others wait on disk.")]
    pending_bytes: int
    next_due_at: Annotated[
        int | None, Meta(description="Milliseconds since 1970; early if that one was cancelled.")
    ]
    delivered: int
    cancelled: int
    lateness_p50_ms: int | None
    lateness_p99_ms: int | None
    lateness: list[LatenessCount]
    topics: list[TopicDelays]
    unanswered: UnansweredBrokers = []


@get(
    "/topics/{name:str}/delayed",
    tags=["Delays"],
    opt={"needs": (Need(Resource.TOPIC, Verb.READ, names="name"),)},
    responses=errors(400, 403, 404, 422),
)
async def list_delayed(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    name: TopicInPath,
    limit: Annotated[
        int, QueryParameter(ge=1, le=LIST_MAX, description="Messages in the answer at most.")
    ] = LIST_DEFAULT,
    after: Annotated[
        str | None, QueryParameter(max_length=100, description="`nextAfter` of the page before.")
    ] = None,
    encoding: Annotated[
        Encoding, QueryParameter(description="How values are shown, as when reading messages.")
    ] = "text",
) -> PendingPage:
    """Messages that wait for a topic, by due time."""
    page = await service.delays.list_pending(caller, name, after=after, limit=limit)
    return PendingPage(
        [_show(message, encoding) for message in page.messages],
        page.next_after,
        [
            MissingPartition(partition, error.code, error.message)
            for partition, error in sorted(page.missing.items())
        ],
    )


@delete(
    "/topics/{name:str}/delayed/{message_id:str}",
    tags=["Delays"],
    opt={"needs": (Need(Resource.TOPIC, Verb.WRITE, names="name"),)},
    status_code=204,
    responses=errors(400, 403, 404, 409),
)
async def cancel_delayed(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    name: TopicInPath,
    message_id: IdInPath,
) -> None:
    """Cancel a message. 404 if none of this id waits, 409 if its delivery has begun."""
    await service.delays.cancel(caller, name, message_id)


@get(
    "/delay/stats",
    tags=["Delays"],
    opt={
        "needs": (
            Need(Resource.CLUSTER, Verb.DESCRIBE),
            Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.LEFT_OUT),
        )
    },
    responses=errors(403),
)
async def delay_stats(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> DelaySummary:
    """What is pending, and how late what was due has been."""
    stats = await service.delays.stats(caller)
    bounds = [*LATENESS_BOUNDS_MS, None]
    return DelaySummary(
        pending=stats.pending,
        in_memory=stats.in_memory,
        pending_bytes=stats.pending_bytes,
        next_due_at=stats.next_due_ms,
        delivered=stats.delivered,
        cancelled=stats.cancelled,
        lateness_p50_ms=stats.lateness_p50_ms,
        lateness_p99_ms=stats.lateness_p99_ms,
        lateness=[
            LatenessCount(bound, count)
            for bound, count in zip(bounds, stats.lateness_counts, strict=True)
        ],
        topics=[
            TopicDelays(
                topic.topic,
                topic.pending,
                topic.delivered,
                topic.cancelled,
                topic.lateness_p99_ms,
            )
            for topic in stats.topics
        ],
        unanswered=show_unanswered(stats.unanswered),
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (list_delayed, cancel_delayed, delay_stats)


def _show(message: DelayedMessage, encoding: Encoding) -> PendingMessage:
    bytewise: ByteEncoding = "base64" if encoding == "base64" else "text"
    key, key_encoding = shown_text(message.record.key, bytewise)
    value, value_encoding = shown_value(message.record.value, encoding)
    return PendingMessage(
        id=str(message.id),
        partition=message.partition,
        deliver_at=message.id.due_ms,
        key=key,
        key_encoding=key_encoding,
        value=value,
        encoding=value_encoding,
        headers=[
            NamedHeader(header, *shown_text(data, bytewise))
            for header, data in message.record.headers
        ],
    )
