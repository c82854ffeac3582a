"""/traces: what happened to messages that are traced."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter
from msgspec import Meta

from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.topics import TopicInPath
from goqueue.doors.http.unanswered import UnansweredBrokers, show_unanswered
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.model.settings import INT32_MAX
from goqueue.model.tracing.query import FoundSpans, FoundTraces, SpanQuery, TraceSummary
from goqueue.model.tracing.spans import EventName, MessagePlace, Span, Status
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need, Refused

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 1_000
_TAGS: Final = ["Traces"]
# Text with a pattern: an optional number would take `null`, and lose its limits in the document.
_NUMBER: Final = r"^[0-9]{1,15}$"
_OFFSET_MAX: Final = 10**15 - 1

# What happened to messages of topics that the caller may not read.
_LEFT_OUT: Final = {"needs": (Need(Resource.TOPIC, Verb.READ, refused=Refused.LEFT_OUT),)}

Limit = Annotated[
    int, QueryParameter(ge=1, le=LIMIT_MAX, description="Traces in the answer at most.")
]


class TraceList(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The newest first; times are microseconds, since 1970 where they are moments."""

    traces: list[TraceSummary]
    is_complete: Annotated[
        bool, Meta(description="false: there are more, or older files were not looked through.")
    ]
    unanswered: UnansweredBrokers = []


class TraceDetail(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Spans by time; times are microseconds, since 1970 where they are moments."""

    trace_id: str
    started_us: int
    duration_us: int
    status: Status
    spans: list[Span]
    is_complete: Annotated[bool, Meta(description="false: older files were not looked through.")]
    unanswered: UnansweredBrokers = []


class ExporterStats(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    exported: int
    dropped: Annotated[int, Meta(description="Spans lost because it was too slow, or failed.")]


class TraceStats(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Of all brokers together. Counts are since each started."""

    enabled: bool
    sampling_rate: Annotated[float, Meta(description="Of topics that have none of their own.")]
    throttle_level: Annotated[
        int, Meta(description="Each step halves what is sampled, while there is too much of it.")
    ]
    recorded_spans: int
    left_out_messages: Annotated[int, Meta(description="Sampled, but beyond the bound.")]
    ring_spans: int
    ring_size: int
    file_count: int
    file_bytes: int
    exporters: list[ExporterStats]
    unanswered: UnansweredBrokers = []


@get("/traces", tags=_TAGS, opt=_LEFT_OUT, responses=errors(400))
async def recent_traces(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    limit: Limit = LIMIT_DEFAULT,
) -> TraceList:
    """The newest traces, one line each."""
    found = await service.tracing.recent(caller, limit)
    return _listed(found)


@get("/traces/search", tags=_TAGS, opt=_LEFT_OUT, responses=errors(400))
async def search_traces(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    topic: Annotated[str | None, QueryParameter(max_length=249)] = None,
    partition: Annotated[str | None, QueryParameter(pattern=_NUMBER)] = None,
    offset: Annotated[str | None, QueryParameter(pattern=_NUMBER)] = None,
    group: Annotated[str | None, QueryParameter(max_length=1_000)] = None,
    event: Annotated[
        EventName | None, QueryParameter(description="Something that happened to the message.")
    ] = None,
    status: Annotated[
        Status | None, QueryParameter(description="How one of the events ended.")
    ] = None,
    since: Annotated[
        str | None,
        QueryParameter(
            name="from",
            pattern=_NUMBER,
            description="At or after this time, in milliseconds since 1970 (UTC).",
        ),
    ] = None,
    until: Annotated[
        str | None,
        QueryParameter(
            name="to",
            pattern=_NUMBER,
            description="Before this time, in milliseconds since 1970 (UTC).",
        ),
    ] = None,
    limit: Limit = LIMIT_DEFAULT,
) -> TraceList:
    """Traces with an event that is all of what is asked for, the newest first."""
    query = SpanQuery(
        topic=topic,
        partition=_number(partition),
        offset=_number(offset),
        group=group,
        event=event,
        status=status,
        from_us=None if since is None else int(since) * 1_000,
        to_us=None if until is None else int(until) * 1_000,
    )
    found = await service.tracing.search(caller, query, limit)
    return _listed(found)


@get(
    "/traces/stats",
    tags=_TAGS,
    opt={"needs": (Need(Resource.CLUSTER, Verb.DESCRIBE),)},
    responses=errors(403),
)
async def trace_stats(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> TraceStats:
    """What is traced, and what was lost of it."""
    figures = await service.tracing.figures(caller)
    return TraceStats(
        enabled=figures.is_enabled,
        sampling_rate=figures.sampling_rate,
        throttle_level=figures.throttle_level,
        recorded_spans=figures.recorded_spans,
        left_out_messages=figures.left_out_messages,
        ring_spans=figures.ring_spans,
        ring_size=figures.ring_size,
        file_count=figures.file_count,
        file_bytes=figures.file_bytes,
        exporters=[ExporterStats(*each) for each in figures.exports],
        unanswered=show_unanswered(figures.unanswered),
    )


@get("/traces/{trace_id:str}", tags=_TAGS, opt=_LEFT_OUT, responses=errors(400, 404))
async def get_trace(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    trace_id: Annotated[
        str, PathParameter(max_length=100, description="32 digits from 0 to f, as W3C has them.")
    ],
) -> TraceDetail:
    """Everything that happened in a trace, by time."""
    found = await service.tracing.trace(caller, trace_id.lower())
    return _detail(found, f"trace {trace_id!r}")


@get(
    "/traces/messages/{name:str}/{partition:int}/{offset:int}",
    tags=_TAGS,
    opt={"needs": (Need(Resource.TOPIC, Verb.READ, names="name"),)},
    responses=errors(400, 403, 404),
)
async def get_message_trace(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    name: TopicInPath,
    partition: Annotated[int, PathParameter(ge=0, le=INT32_MAX)],
    offset: Annotated[int, PathParameter(ge=0, le=_OFFSET_MAX)],
) -> TraceDetail:
    """Everything that happened to one message, also as a dead letter and after its return."""
    place = MessagePlace(name, partition, offset)
    return _detail(await service.tracing.of_message(caller, place), f"message {place}")


ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    recent_traces,
    search_traces,
    trace_stats,
    get_trace,
    get_message_trace,
)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _listed(found: FoundTraces) -> TraceList:
    return TraceList(found.traces, found.is_complete, show_unanswered(found.unanswered))


def _or_elsewhere(found: FoundSpans) -> str:
    named = [f"{broker} ({reason})" for broker, reason in found.unanswered]
    return f", or they are with brokers that did not answer: {', '.join(named)}" if named else ""


def _detail(found: FoundSpans, what: str) -> TraceDetail:
    spans = found.spans
    if not spans:
        raise Refusal(
            404,
            "unknown_trace",
            f"nothing is known of {what}: it was not sampled (tracing.sampling.rate), or its "
            f"spans are too old{_or_elsewhere(found)}; GET /traces lists those there are",
        )
    started_us = min(span.time_us for span in spans)
    return TraceDetail(
        trace_id=spans[0].trace_id,
        started_us=started_us,
        duration_us=max(span.end_us for span in spans) - started_us,
        status="failed" if any(span.status == "failed" for span in spans) else "ok",
        spans=spans,
        is_complete=found.is_complete,
        unanswered=show_unanswered(found.unanswered),
    )
