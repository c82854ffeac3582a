"""Finding spans, and telling from them what happened."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from goqueue.model.calls import Unanswered
from goqueue.model.rights import ReadableTopics
from goqueue.model.tracing.spans import EventName, MessagePlace, Span, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanQuery:
    """What a span must be; what is None does not matter. Times as [from, to), in microseconds."""

    trace_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    from_us: int | None = None
    to_us: int | None = None
    event: EventName | None = None
    status: Status | None = None
    group: str | None = None

    def matches(self, span: Span) -> bool:
        return (
            self.trace_id in (None, span.trace_id)
            and self.event in (None, span.event)
            and self.status in (None, span.status)
            and self.group in (None, span.group)
            and (self.from_us is None or span.time_us >= self.from_us)
            and (self.to_us is None or span.time_us < self.to_us)
            and (self._is_here(span.topic, span.partition, span.offset) or self._is_linked(span))
        )

    def _is_here(self, topic: str, partition: int, offset: int | None) -> bool:
        return (
            self.topic in (None, topic)
            and self.partition in (None, partition)
            and self.offset in (None, offset)
        )

    def _is_linked(self, span: Span) -> bool:
        there = span.linked
        return there is not None and self._is_here(there.topic, there.partition, there.offset)


class TraceSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A trace in one line."""

    trace_id: str
    topic: str
    partition: int
    offset: int | None
    started_us: int
    duration_us: int
    status: Status
    last_event: EventName
    spans: int


class FoundSpans(NamedTuple):
    """`is_complete`: everything was looked through. `unanswered`: brokers that were not."""

    spans: list[Span]
    is_complete: bool
    unanswered: Sequence[Unanswered] = ()


class FoundTraces(NamedTuple):
    """The newest first. `is_complete`: nothing older was left out."""

    traces: list[TraceSummary]
    is_complete: bool
    unanswered: Sequence[Unanswered] = ()


def in_order(spans: Iterable[Span]) -> list[Span]:
    """As things happened: publishing begins when it is received, all else counts when done."""
    return sorted(spans, key=lambda span: (span.moment_us, span.time_us))


def distinct(spans: Iterable[Span]) -> list[Span]:
    """Each span once: what is in the ring may be in a file, too."""
    return list({span.span_id: span for span in spans}.values())


def readable_spans(spans: Iterable[Span], readable: ReadableTopics) -> Iterator[Span]:
    """Without those of other topics, and without links to them."""
    for span in spans:
        if span.topic not in readable:
            continue
        if span.linked is not None and span.linked.topic not in readable:
            span = msgspec.structs.replace(span, linked=None)
        yield span


def summarise(spans: Iterable[Span]) -> list[TraceSummary]:
    """One line per trace, the newest first."""
    by_trace: dict[str, list[Span]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    summaries = [_summary(trace_id, in_order(found)) for trace_id, found in by_trace.items()]
    return sorted(summaries, key=lambda summary: summary.started_us, reverse=True)


def _summary(trace_id: str, spans: Sequence[Span]) -> TraceSummary:
    first = min(spans, key=lambda span: span.time_us)
    return TraceSummary(
        trace_id=trace_id,
        topic=first.topic,
        partition=first.partition,
        offset=first.offset,
        started_us=first.time_us,
        duration_us=max(span.end_us for span in spans) - first.time_us,
        status="failed" if any(span.status == "failed" for span in spans) else "ok",
        last_event=spans[-1].event,
        spans=len(spans),
    )


def journey(spans: Iterable[Span], place: MessagePlace) -> list[Span]:
    """What happened to one message, also where it was copied to, among the spans of its trace.

    A producer may send many messages in one trace, so that the trace id alone is not enough.
    """
    left = list(spans)
    places = {place}
    delayed_ids: set[str] = set()
    found: list[Span] = []
    while True:
        own = [span for span in left if _concerns(span, places, delayed_ids)]
        if not own:
            return in_order(found)
        found += own
        left = [span for span in left if not _concerns(span, places, delayed_ids)]
        for span in own:
            places.update(each for each in (span.place, span.linked) if each is not None)
            if span.delayed_id is not None:
                delayed_ids.add(span.delayed_id)


def _concerns(span: Span, places: set[MessagePlace], delayed_ids: set[str]) -> bool:
    return span.place in places or span.linked in places or span.delayed_id in delayed_ids
