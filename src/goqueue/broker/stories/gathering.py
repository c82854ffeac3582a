"""Queries for traces, answered from what all brokers noted. Who did not answer is named."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import msgspec

from goqueue.broker.calls.calls import Calls, Gathered
from goqueue.broker.stories.telling import StoryTelling
from goqueue.broker.tracing.tracing import Tracing
from goqueue.model.calls import Method, Unanswered
from goqueue.model.errors import Overloaded
from goqueue.model.names import NodeId
from goqueue.model.rights import DescribableCluster, ReadableTopics
from goqueue.model.tracing.figures import ExportFigures, TracingFigures
from goqueue.model.tracing.query import (
    FoundSpans,
    FoundTraces,
    SpanQuery,
    distinct,
    in_order,
    journey,
    readable_spans,
    summarise,
)
from goqueue.model.tracing.spans import MessagePlace, Span
from goqueue.state.metadata_image import MetadataImage

Q = TypeVar("Q")
R = TypeVar("R")

# Files of 128 MB are looked through in a tenth of a second; others may be waiting before.
ANSWER_TIMEOUT_S: Final = 4.0
# In one broker's answer, the newest: 3 MB or so.
ANSWER_MAX_SPANS: Final = 10_000
# Most messages are in one; a producer may send the same message again in another.
TRACES_OF_ONE_MAX: Final = 100
# Queries under way here. Each holds the answers of all brokers in memory.
QUERIES_MAX: Final = 2
WAITING_MAX: Final = 32

_SPANS: Final = msgspec.msgpack.Decoder(list[Span])
_ENCODER: Final = msgspec.msgpack.Encoder()


class FindTraces(msgspec.Struct, frozen=True):
    """`topics`: those that the caller may read; None are all."""

    query: SpanQuery
    topics: list[str] | None
    limit: int


class FindSpans(msgspec.Struct, frozen=True):
    trace_ids: list[str]
    topics: list[str] | None


class FoundHere(msgspec.Struct, frozen=True):
    """Spans in bytes: they are made and read in threads."""

    spans: bytes
    is_complete: bool


class NoQuestion(msgspec.Struct, frozen=True):
    """What is asked for needs no more words."""


MATCHING: Final = Method("stories.matching", FindTraces, FoundHere, waits=True, is_repeatable=True)
SPANS_OF: Final = Method("stories.spans", FindSpans, FoundHere, waits=True, is_repeatable=True)
FIGURES: Final = Method("stories.figures", NoQuestion, TracingFigures, is_repeatable=True)


class Stories:
    def __init__(
        self, tracing: Tracing, calls: Calls, *, image: Callable[[], MetadataImage]
    ) -> None:
        self._tracing = tracing
        self._calls = calls
        self._image = image
        self.telling = StoryTelling(tracing, calls, image=image)
        self._turns = asyncio.Semaphore(QUERIES_MAX)
        self._waiting = 0
        calls.serve(MATCHING, self._matching_here)
        calls.serve(SPANS_OF, self._spans_here)
        calls.serve(FIGURES, self._figures_here)

    # --- queries --------------------------------------------------------------------------

    async def search(self, readable: ReadableTopics, query: SpanQuery, limit: int) -> FoundTraces:
        """The newest traces with a span that matches, each with all that is readable of it."""
        async with self._turn():
            topics = self._names(readable)
            matching = await self._matching(readable, FindTraces(query, topics, limit + 1))
            newest = sorted(matching.spans, key=lambda span: span.time_us, reverse=True)
            trace_ids = list(dict.fromkeys(span.trace_id for span in newest))[: limit + 1]
            found = await self._spans_of(trace_ids, topics, readable, after=matching)
            summaries = await self._tracing.in_thread(lambda: summarise(found.spans))
        unanswered = _together(matching.unanswered, found.unanswered)
        is_complete = matching.is_complete and len(summaries) <= limit and not unanswered
        return FoundTraces(summaries[:limit], is_complete, unanswered)

    async def trace(self, readable: ReadableTopics, trace_id: str) -> FoundSpans:
        """All spans of a trace, by time."""
        async with self._turn():
            request = FindSpans([trace_id], self._names(readable))
            return await self._gather(SPANS_OF, request, readable)

    async def of_message(self, readable: ReadableTopics, place: MessagePlace) -> FoundSpans:
        """What happened to one message, wherever it was copied to, by time."""
        query = SpanQuery(topic=place.topic, partition=place.partition, offset=place.offset)
        async with self._turn():
            topics = self._names(readable)
            matching = await self._matching(readable, FindTraces(query, topics, TRACES_OF_ONE_MAX))
            trace_ids = sorted({span.trace_id for span in matching.spans})
            found = await self._spans_of(trace_ids, topics, readable, after=matching)
            spans = await self._tracing.in_thread(lambda: journey(found.spans, place))
        unanswered = _together(matching.unanswered, found.unanswered)
        return FoundSpans(spans, found.is_complete and not unanswered, unanswered)

    async def figures(self, _cluster: DescribableCluster) -> TracingFigures:
        """Of all brokers together."""
        gathered = await self._calls.gather(FIGURES, NoQuestion(), timeout_s=ANSWER_TIMEOUT_S)
        together = _sum_of(list(_answered(gathered).values()))
        return together._replace(unanswered=tuple(self._unanswered(gathered)))

    async def _matching(self, readable: ReadableTopics, request: FindTraces) -> FoundSpans:
        found = await self._gather(MATCHING, request, readable)
        # A link to what the caller may not read was the reason, perhaps.
        return found._replace(spans=[each for each in found.spans if request.query.matches(each)])

    async def _spans_of(
        self,
        trace_ids: list[str],
        topics: list[str] | None,
        readable: ReadableTopics,
        *,
        after: FoundSpans,
    ) -> FoundSpans:
        """Who did not answer before is not waited for again."""
        silent = {each.broker for each in after.unanswered}
        return await self._gather(SPANS_OF, FindSpans(trace_ids, topics), readable, silent)

    async def _gather(
        self,
        method: Method[Q, FoundHere],
        request: Q,
        readable: ReadableTopics,
        without: Collection[NodeId] = (),
    ) -> FoundSpans:
        """What all brokers have, by time."""
        gathered = await self._calls.gather(
            method, request, timeout_s=ANSWER_TIMEOUT_S, without=without
        )
        answers = list(_answered(gathered).values())

        def put_together() -> list[Span]:
            spans = (span for answer in answers for span in _SPANS.decode(answer.spans))
            return in_order(readable_spans(distinct(spans), readable))

        spans = await self._tracing.in_thread(put_together)
        unanswered = self._unanswered(gathered)
        is_complete = not unanswered and all(answer.is_complete for answer in answers)
        return FoundSpans(spans, is_complete, unanswered)

    def _unanswered(self, gathered: Gathered[R]) -> list[Unanswered]:
        """A broker that is down has its notes with it."""
        down = (Unanswered(node, "it is down") for node in self._calls.absent())
        return _together(gathered.unanswered, down)

    def _names(self, readable: ReadableTopics) -> list[str] | None:
        """None: the caller may read all topics that there are."""
        topics = self._image().topics
        names = [name for name in topics if name in readable]
        return None if len(names) == len(topics) else names

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._waiting >= WAITING_MAX:
            raise Overloaded(
                f"{WAITING_MAX} queries for traces wait already; try again in a second"
            )
        self._waiting += 1
        try:
            async with self._turns:
                yield
        finally:
            self._waiting -= 1

    # --- what this broker noted -----------------------------------------------------------

    async def _matching_here(self, request: FindTraces) -> FoundHere:
        is_wanted = _one_of(request.topics)
        return await self._tracing.look(
            lambda ring: _answer(
                self._tracing.matching(ring, request.query, is_wanted, request.limit)
            )
        )

    async def _spans_here(self, request: FindSpans) -> FoundHere:
        is_wanted, trace_ids = _one_of(request.topics), set(request.trace_ids)
        return await self._tracing.look(
            lambda ring: _answer(self._tracing.spans_of(ring, trace_ids, is_wanted))
        )

    async def _figures_here(self, _request: NoQuestion) -> TracingFigures:
        return await self._tracing.figures()


def _one_of(topics: list[str] | None) -> Callable[[Span], bool]:
    if topics is None:
        return lambda _span: True
    names = frozenset(topics)
    return lambda span: span.topic in names


def _answer(found: FoundSpans) -> FoundHere:
    spans = found.spans
    if len(spans) > ANSWER_MAX_SPANS:
        spans = sorted(spans, key=lambda span: span.time_us)[-ANSWER_MAX_SPANS:]
    return FoundHere(_ENCODER.encode(spans), found.is_complete and len(spans) == len(found.spans))


def _answered(gathered: Gathered[R]) -> dict[NodeId, R]:
    """If nobody answered, not even this broker, the reason is the answer."""
    if not gathered.answers:
        raise next(iter(gathered.failures.values()))
    return gathered.answers


def _together(*several: Iterable[Unanswered]) -> list[Unanswered]:
    """Each broker once."""
    by_broker = {each.broker: each for unanswered in several for each in unanswered}
    return [by_broker[broker] for broker in sorted(by_broker)]


def _sum_of(figures: Sequence[TracingFigures]) -> TracingFigures:
    """Of several brokers. They have the same settings, or should have."""
    exports: dict[str, ExportFigures] = {}
    for name, exported, dropped in (each for broker in figures for each in broker.exports):
        before = exports.get(name, ExportFigures(name, 0, 0))
        exports[name] = ExportFigures(name, before.exported + exported, before.dropped + dropped)
    return TracingFigures(
        is_enabled=any(each.is_enabled for each in figures),
        sampling_rate=max(each.sampling_rate for each in figures),
        throttle_level=max(each.throttle_level for each in figures),
        recorded_spans=sum(each.recorded_spans for each in figures),
        left_out_messages=sum(each.left_out_messages for each in figures),
        ring_spans=sum(each.ring_spans for each in figures),
        ring_size=sum(each.ring_size for each in figures),
        file_count=sum(each.file_count for each in figures),
        file_bytes=sum(each.file_bytes for each in figures),
        exports=list(exports.values()),
    )
