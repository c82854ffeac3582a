"""Message tracing on this broker: which topics are traced, where spans go, how they are found.

Spans are made on the event loop by `PartitionTrace` and its kin, kept in a ring, and written out by
a thread per exporter. Queries look at the ring and at files in a thread. What the other brokers of
a cluster noted, `broker/stories` knows.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol, TypeVar

from goqueue.broker.tracing.export import ExportThread, console_export
from goqueue.broker.tracing.files import SpanFiles
from goqueue.broker.tracing.otlp import check_endpoint, otlp_export
from goqueue.broker.tracing.partition import PartitionTrace, ReadBatch
from goqueue.broker.tracing.reading import context_of_delayed
from goqueue.broker.tracing.recorder import REMEMBERED_MESSAGES, TraceRecorder, now_us
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.errors import Overloaded
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import OffsetCommit, OffsetCommitResult
from goqueue.model.log import FetchedPart, FetchPart
from goqueue.model.names import TopicPartition
from goqueue.model.records import NewRecord
from goqueue.model.rights import WritableTopic
from goqueue.model.topic_config import TopicConfig
from goqueue.model.topics import TopicView, is_internal
from goqueue.model.tracing.figures import ExportFigures, TracingFigures
from goqueue.model.tracing.query import FoundSpans, SpanQuery, distinct, in_order
from goqueue.model.tracing.spans import Event, GroupCommit, Span, TraceContext, TracedMessage
from goqueue.model.tracing.traceparent import TraceParent
from goqueue.state.metadata_image import MetadataImage
from goqueue.state.tracing.identity import partition_key
from goqueue.state.tracing.sampling import parts_per_million
from goqueue.storage.log import PartitionLog

logger = logging.getLogger(__name__)

Found = TypeVar("Found")

FOLDER: Final = "traces"
# Of the spans of an earlier run, between which other work gets its turn: some 3 ms.
_RELOADED_AT_ONCE: Final = 500
# Each takes some 100 ms where files are full.
QUERIES_WAITING_MAX: Final = 32
# Events after which a message belongs to a trace that its offset does not tell.
_ADOPTING: Final = (Event.PUBLISH_RECEIVED, Event.DELAY_READY, Event.DLQ_ROUTED, Event.DLQ_REDRIVEN)


class TracedPartition(Protocol):
    """What tracing must know of a partition."""

    @property
    def name(self) -> TopicPartition: ...
    @property
    def trace(self) -> PartitionTrace | None: ...
    @property
    def log(self) -> PartitionLog: ...
    @property
    def high_watermark(self) -> int: ...


class Tracing:
    def __init__(
        self,
        config: BrokerConfig,
        data_path: Path,
        *,
        cluster_id: Callable[[], str],
        topic: Callable[[str], TopicView | None],
        topic_config: Callable[[TopicView], TopicConfig],
    ) -> None:
        """`topic`: as the metadata have it now."""
        self._config = config
        self._topic = topic
        self._topic_config = topic_config
        self._recorder = TraceRecorder(config)
        self._files = SpanFiles(
            data_path / FOLDER,
            max_bytes=config.tracing_file_max_bytes,
            max_files=config.tracing_file_max_files,
            retention_ms=config.tracing_file_retention_ms,
        )
        self._find: Callable[[str, int], PartitionTrace | None] = lambda _topic, _index: None
        self._reloading: asyncio.Task[None] | None = None
        self._queries = ThreadPoolExecutor(1, thread_name_prefix="goqueue-traces")
        self._waiting = 0
        if config.tracing_enabled:
            self._recorder.exports += self._exports(config, cluster_id)

    def _exports(
        self, config: BrokerConfig, cluster_id: Callable[[], str]
    ) -> Iterable[ExportThread]:
        if config.tracing_file_enabled:
            yield ExportThread("file", self._files.write, end=self._files.close)
        if config.tracing_console_enabled:
            yield console_export()
        if config.tracing_otlp_endpoint:
            endpoint = config.tracing_otlp_endpoint
            check_endpoint(endpoint)
            yield otlp_export(endpoint, node_id=config.node_id, cluster_id=cluster_id)

    def start(
        self, image: MetadataImage, find: Callable[[str, int], PartitionTrace | None]
    ) -> None:
        """`find` knows the partitions of this broker."""
        self._find = find
        if self._config.tracing_enabled and self._files.paths():
            self._reloading = asyncio.create_task(self._reload(image))

    async def close(self) -> None:
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.gather(self._reloading, return_exceptions=True)
        self._queries.shutdown(wait=False, cancel_futures=True)
        self._recorder.close()
        for export in self._recorder.exports:
            await asyncio.to_thread(export.close)

    # --- which partitions -----------------------------------------------------------------

    def trace_of(
        self, topic: TopicView, partition: TracedPartition, config: TopicConfig
    ) -> PartitionTrace | None:
        """What a partition notes with; None if its messages are not traced."""
        ppm, known = self._parts_per_million(topic, config), partition.trace
        if ppm is None:
            return None
        if known is not None and known.ppm == ppm:
            return known
        return self._made(topic, int(partition.name.partition), ppm, _reader(partition))

    def _parts_per_million(self, topic: TopicView, config: TopicConfig) -> int | None:
        """None: it is not traced at all."""
        enabled = self._config.tracing_enabled and config.tracing_enabled
        if not enabled or is_internal(topic.name):
            return None
        rate = config.tracing_sampling_rate
        ppm = parts_per_million(self._config.tracing_sampling_rate if rate < 0 else rate)
        return ppm if ppm or self._config.tracing_follow_producers else None

    def _made(
        self, topic: TopicView, index: int, ppm: int, read_batch: ReadBatch
    ) -> PartitionTrace:
        return PartitionTrace(
            self._recorder,
            topic_id=topic.id,
            topic=topic.name,
            index=index,
            ppm=ppm,
            read_batch=read_batch,
        )

    def is_traced(self, topic: str) -> bool:
        """Whether any message of it may be."""
        view = self._topic(topic)
        return view is not None and self._ppm_of(view) is not None

    def _ppm_of(self, view: TopicView) -> int | None:
        return self._parts_per_million(view, self._topic_config(view))

    def _trace_anywhere(self, topic: str, index: int) -> PartitionTrace | None:
        """Also of a partition that lies on other brokers only: to know, not to note."""
        found, view = self._find(topic, index), self._topic(topic)
        if found is not None or view is None:
            return found
        ppm = self._ppm_of(view)
        return None if ppm is None else self._made(view, index, ppm, _nothing_to_read)

    async def _reload(self, image: MetadataImage) -> None:
        """Messages that an earlier run traced for another reason than their offset."""
        found = await asyncio.to_thread(self._spans_to_reload)
        for count, span in enumerate(found, 1):
            if count % _RELOADED_AT_ONCE == 0:
                await asyncio.sleep(0)
            place = span.linked or span.place
            view = None if place is None else image.topics.get(place.topic)
            if place is None or view is None:
                continue
            key = partition_key(view.id, place.partition)
            root = span.span_id if span.event == Event.PUBLISH_RECEIVED.value else span.parent_id
            if root is not None and self._recorder.contexts.get(key, place.offset) is None:
                context = TraceContext(span.trace_id, root)
                self._recorder.contexts.adopt(key, place.offset, context)

    def _spans_to_reload(self) -> list[Span]:
        max_bytes = self._config.tracing_file_max_bytes
        return in_order(
            self._files.newest_of(_ADOPTING, limit=REMEMBERED_MESSAGES, max_bytes=max_bytes)
        )

    # --- what others tell -----------------------------------------------------------------

    @property
    def is_enabled(self) -> bool:
        return self._config.tracing_enabled

    def fetched(
        self, wanted: Sequence[FetchPart], parts: Sequence[FetchedPart], consumer: str | None
    ) -> None:
        """A client got batches as they are stored."""
        for asked, got in zip(wanted, parts, strict=True):
            if got.data:
                trace = self._find(asked.topic, asked.index)
                if trace is not None:
                    trace.fetched(got.data, asked.offset, got.next_offset, consumer)

    def offsets_committed(self, request: OffsetCommit, result: OffsetCommitResult) -> None:
        time_us = now_us()
        for wanted, done in zip(request.offsets, result.partitions, strict=False):
            trace = self._find(wanted.topic, wanted.partition)
            if trace is not None and done.error is GroupError.NONE:
                trace.committed_by(request.group_id, request.member_id, wanted.offset, time_us)

    def committed_elsewhere(self, commit: GroupCommit) -> None:
        """The group's coordinator, another broker, tells: it may have read here."""
        trace = self._find(commit.topic, commit.partition)
        if trace is not None:
            trace.committed_by(commit.group, commit.member, commit.offset, commit.time_us)

    def adopted_elsewhere(self, message: TracedMessage) -> None:
        """The partition's leader, another broker, traces a message for another reason than its
        offset: should this one lead, its story goes on."""
        trace = self._find(message.topic, message.partition)
        if trace is not None:
            self._recorder.contexts.adopt(trace.key, message.offset, message.context)

    def tell_adopted(self, tell: Callable[[TracedMessage], None]) -> None:
        self._recorder.tell_adopted = tell

    def known(self, message: TracedMessage) -> None:
        """Of a message that another broker stored, for its producer."""
        view = self._topic(message.topic)
        if view is not None:
            key = partition_key(view.id, message.partition)
            self._recorder.contexts.keep(key, message.offset, message.context)

    def traceparent(self, topic: WritableTopic, partition: int, offset: int) -> str | None:
        """Of a message that was just stored, for its producer; None if it is not traced."""
        view = self._topic(topic)
        if view is None:
            return None
        return _header(self._recorder.contexts.get(partition_key(view.id, partition), offset))

    def traceparent_of_delayed(
        self, topic: WritableTopic, partition: int, delayed_id: str, record: NewRecord
    ) -> str | None:
        trace = self._trace_anywhere(topic, partition)
        return _header(None if trace is None else context_of_delayed(trace, delayed_id, record))

    # --- queries --------------------------------------------------------------------------

    async def look(self, look: Callable[[Sequence[Span]], Found]) -> Found:
        """At the newest spans, in a thread. They are copied: the event loop adds to them."""
        if self._waiting >= QUERIES_WAITING_MAX:
            raise Overloaded(
                f"{QUERIES_WAITING_MAX} queries for traces wait already; try again in a second"
            )
        self._waiting += 1
        try:
            ring = list(self._recorder.ring.newest_first())
            return await self.in_thread(lambda: look(ring))
        finally:
            self._waiting -= 1

    async def in_thread(self, work: Callable[[], Found]) -> Found:
        """One query after the other: several would share the processor with the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._queries, work)

    def matching(
        self, ring: Sequence[Span], query: SpanQuery, is_wanted: Callable[[Span], bool], limit: int
    ) -> FoundSpans:
        """Blocking: the newest span that matches, of as many traces as `limit`."""
        newest: dict[str, Span] = {}
        for span in ring:
            if is_wanted(span) and query.matches(span):
                newest.setdefault(span.trace_id, span)
                if len(newest) >= limit:
                    return FoundSpans(list(newest.values()), False)
        found = self._files.search(query, may_be_seen=is_wanted, traces=limit)
        for span in found.spans:
            newest.setdefault(span.trace_id, span)
        return FoundSpans(list(newest.values()), found.is_complete)

    def spans_of(
        self, ring: Sequence[Span], trace_ids: set[str], is_wanted: Callable[[Span], bool]
    ) -> FoundSpans:
        """Blocking: all spans of these traces, by time."""
        if not trace_ids:
            return FoundSpans([], True)
        stored = self._files.of_traces(trace_ids)
        in_ring = [span for span in ring if span.trace_id in trace_ids]
        spans = filter(is_wanted, distinct([*stored.spans, *in_ring]))
        return FoundSpans(in_order(spans), stored.is_complete)

    async def figures(self) -> TracingFigures:
        recorder = self._recorder
        paths, size_bytes = await asyncio.to_thread(
            lambda: (self._files.paths(), self._files.size_bytes)
        )
        return TracingFigures(
            is_enabled=self._config.tracing_enabled,
            sampling_rate=self._config.tracing_sampling_rate,
            throttle_level=recorder.throttle.level,
            recorded_spans=recorder.ring.recorded,
            left_out_messages=recorder.throttle.left_out,
            ring_spans=len(recorder.ring),
            ring_size=recorder.ring.size,
            file_count=len(paths),
            file_bytes=size_bytes,
            exports=[
                ExportFigures(each.name, each.exported, each.dropped) for each in recorder.exports
            ],
        )


def _reader(partition: TracedPartition) -> ReadBatch:
    def read(offset: int) -> bytes:
        log = partition.log
        up_to = partition.high_watermark
        return log.read(offset, 1, up_to=up_to, at_least_one=True, may_block=True).data

    return read


def _nothing_to_read(_offset: int) -> bytes:
    return b""


def _header(context: TraceContext | None) -> str | None:
    if context is None:
        return None
    return str(TraceParent(context.trace_id, context.span_id, is_sampled=True))
