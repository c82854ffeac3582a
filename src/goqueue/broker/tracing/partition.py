"""What tracing notes of one partition: publishing, reading by offset, and copies that continue.

A partition of a topic that is not traced has none of these, so that tracing costs it one test.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import merge
from typing import Any, Final, NamedTuple
from uuid import UUID

from goqueue.broker.tracing.batches import (
    asks_to_be_traced,
    carries_traceparent,
    parents_in,
)
from goqueue.broker.tracing.recorder import (
    CALLER,
    CONTINUED,
    Continuation,
    Note,
    TraceRecorder,
    new_span_id,
    now_us,
)
from goqueue.model.batch import BatchHeader, Buffer, read_header
from goqueue.model.errors import CorruptBatch, GoQueueError, UnpackedTooLarge
from goqueue.model.tracing.spans import (
    FAILURES,
    Event,
    EventName,
    MessagePlace,
    Span,
    TraceContext,
    TracedMessage,
)
from goqueue.state.tracing.contexts import RecentOffsets
from goqueue.state.tracing.identity import message_context, partition_key
from goqueue.state.tracing.sampling import Sampler

# Offsets that consumers have fetched and no group has committed yet; older ones get no such event.
UNCOMMITTED_MAX: Final = 1_000
# Messages of one read that are noted whatever sampling says, in some 3 ms.
ADOPTED_MAX: Final = 1_000
# Groups whose commits of one partition are followed.
GROUPS_MAX: Final = 100
# Publishes of a partition that wait for their commit; each is one request of a client.
PUBLISHING_MAX: Final = 1_000

# Plain texts: reading the value of an enumeration takes longer than making a span.
_RECEIVED: Final[EventName] = "publish.received"
_PARTITIONED: Final[EventName] = "publish.partitioned"
_PERSISTED: Final[EventName] = "publish.persisted"
_REPLICATED: Final[EventName] = "publish.replicated"

ReadBatch = Callable[[int], bytes]


class _Publishing(NamedTuple):
    end_offset: int
    contexts: dict[int, TraceContext]
    started_us: int
    admitted_us: int
    written_us: int | None
    producer: str | None


class PartitionTrace:
    def __init__(
        self,
        recorder: TraceRecorder,
        *,
        topic_id: UUID,
        topic: str,
        index: int,
        ppm: int,
        read_batch: ReadBatch,
    ) -> None:
        """`read_batch` gets the batch with an offset from the log, in a thread."""
        self.recorder = recorder
        self.topic = topic
        self.index = index
        self.key = partition_key(topic_id, index)
        self.ppm = ppm
        self._sampler = Sampler(self.key, ppm) if ppm else None
        self._read_batch = read_batch
        # Nothing below it, and above what was appended last, is chosen at this level.
        self._next_chosen = -1
        self._next_level = 0
        self._publishing: deque[_Publishing] = deque(maxlen=PUBLISHING_MAX)
        self._fetched = RecentOffsets(UNCOMMITTED_MAX)
        self._committed: dict[str, int] = {}

    # --- which messages -------------------------------------------------------------------

    def traced(self, start: int, end: int) -> list[int]:
        """The offsets in [start, end) to be noted now."""
        recorder = self.recorder
        throttle = recorder.throttle
        adopted = recorder.contexts.adopted(self.key, start, end)
        if len(adopted) > ADOPTED_MAX:
            throttle.left_out += len(adopted) - ADOPTED_MAX
            del adopted[ADOPTED_MAX:]
        sampler = self._sampler
        if sampler is None:
            return adopted
        expected = sampler.estimate(start, end)
        level = throttle.level_for(expected, now_us())
        if level is None:
            return adopted
        chosen = list(sampler.chosen(start, end, level))
        if chosen:
            throttle.spend(len(chosen), expected)
        return sorted({*adopted, *chosen}) if adopted else chosen

    def contexts_in(
        self, data: Buffer, offsets: Sequence[int], *, follows: bool = False
    ) -> dict[int, TraceContext]:
        """The traces of messages in batches that were read or written.

        What cannot be known within the budget is left out: no trace is better than a wrong one.
        With `follows` also messages that their producers ask to trace.
        """
        contexts: dict[int, TraceContext] = {}
        is_carried = carries_traceparent(data)
        follows = follows and is_carried
        position = 0
        left = deque(offsets)
        while position < len(data) and (left or follows):
            header = read_header(data, position)
            end = position + header.size_bytes
            here: set[int] = set()
            while left and left[0] < header.next_offset:
                here.add(left.popleft())
            if not header.is_control and (here or follows):
                batch = memoryview(data)[position:end]
                contexts.update(self._contexts_of(batch, header, here, is_carried, follows))
            position = end
        for offset, context in contexts.items():
            self.recorder.contexts.keep(self.key, offset, context)
        return contexts

    def _contexts_of(
        self, batch: memoryview, header: BatchHeader, here: set[int], carried: bool, follows: bool
    ) -> dict[int, TraceContext]:
        has_gaps = header.record_count <= header.last_offset_delta
        if not header.compression and not carried and not has_gaps:
            return {offset: message_context(self.key, offset) for offset in here}
        recorder = self.recorder
        time_us = now_us()
        follows = follows and not header.compression and asks_to_be_traced(batch)
        follows = follows and recorder.following.has_left(time_us)
        if not here and not follows:
            return {}
        if not recorder.decoding.take(header.record_count, time_us):
            recorder.throttle.left_out += len(here)
            return {}
        contexts: dict[int, TraceContext] = {}
        try:
            parents = list(parents_in(batch))
        except UnpackedTooLarge:
            recorder.throttle.left_out += len(here)
            return {}
        except CorruptBatch:
            # Nobody checks what a producer compressed; its readers will find out.
            return {}
        for offset, parent in parents:
            is_asked = follows and parent is not None and parent.is_sampled
            if offset in here:
                contexts[offset] = message_context(self.key, offset, parent)
            elif is_asked and recorder.following.take(1, time_us):
                context = message_context(self.key, offset, parent)
                self._adopt(offset, context)
                contexts[offset] = context
        return contexts

    def _adopt(self, offset: int, context: TraceContext) -> None:
        """Trace a message whatever sampling says."""
        self.recorder.contexts.adopt(self.key, offset, context)
        if self.recorder.tell_adopted is not None:
            self.recorder.tell_adopted(TracedMessage(self.topic, self.index, offset, context))

    def first_traced(self, start: int, end: int) -> TracedMessage | None:
        """Of messages in [start, end) that were appended just now."""
        contexts = self.recorder.contexts
        offsets: Iterable[int] = contexts.adopted(self.key, start, end)
        if self._sampler is not None:
            offsets = merge(offsets, self._sampler.chosen(start, end))
        for offset in offsets:
            context = contexts.get(self.key, offset)
            if context is not None:
                return TracedMessage(self.topic, self.index, offset, context)
        return None

    def with_context(self, offset: int, note: Note) -> None:
        """Call `note` with the message's trace, at once if it is at hand."""
        context = self.recorder.contexts.get(self.key, offset)
        if context is None:
            self.recorder.resolve_later(lambda: self._look_up(offset), note)
        else:
            note(context)

    async def _look_up(self, offset: int) -> TraceContext | None:
        try:
            data = await asyncio.to_thread(self._read_batch, offset)
        except (GoQueueError, OSError):
            return None  # deleted by retention, or the partition is offline
        return self.contexts_in(data, [offset]).get(offset)

    def note(
        self,
        event: Event,
        context: TraceContext,
        offset: int | None,
        time_us: int,
        *,
        span_id: str | None = None,
        parent_id: str | None = None,
        **details: Any,
    ) -> None:
        """`details` are further fields of a span."""
        if event in FAILURES:
            details.setdefault("status", "failed")
        self.recorder.record(
            Span(
                context.trace_id,
                span_id or new_span_id(),
                parent_id or context.span_id,
                event.value,
                self.topic,
                self.index,
                offset,
                time_us,
                **details,
            )
        )

    # --- publishing -----------------------------------------------------------------------

    def appended(
        self,
        data: bytearray,
        base_offset: int,
        end_offset: int,
        *,
        high_watermark: int,
        started_us: int,
        admitted_us: int,
    ) -> None:
        """Batches have been written to the log, with their offsets in them."""
        continued = CONTINUED.get()
        if continued is not None:
            self._continue(continued, base_offset)
        recorder = self.recorder
        # What continues a trace has the header of the message that it was copied from.
        follows = recorder.follows_producers and continued is None
        follows = follows and recorder.following.has_left(started_us)
        follows = follows and carries_traceparent(data)
        throttle = recorder.throttle
        if throttle.level:
            throttle.turn(started_us)
        is_quiet = end_offset <= self._next_chosen and throttle.level >= self._next_level
        if not follows and (is_quiet or throttle.is_spent(started_us)):
            return
        offsets: list[int] = []
        if self._sampler is not None and not is_quiet:
            offsets = self.traced(base_offset, end_offset)
            self._next_level = throttle.level
            self._next_chosen = self._sampler.first_from(end_offset, throttle.level)
        if continued is not None:
            offsets = [o for o in offsets if not _is_continued(continued, o - base_offset)]
        if not offsets and not follows:
            return
        contexts = self.contexts_in(data, offsets, follows=follows)
        if not contexts:
            return
        # With one replica, what a commit waits for is the disk.
        time_us = now_us()
        written_us = time_us if high_watermark >= end_offset else None
        times = (started_us, admitted_us, written_us)
        self._publishing.append(_Publishing(end_offset, contexts, *times, CALLER.get()))
        self._note_committed(high_watermark, time_us)

    def committed(self, offset: int) -> None:
        """Everything below `offset` is as safe as was asked for."""
        if self._publishing:
            self._note_committed(offset, now_us())

    def _note_committed(self, offset: int, time_us: int) -> None:
        publishing = self._publishing
        while publishing and publishing[0].end_offset <= offset:
            done = publishing.popleft()
            for at, context in done.contexts.items():
                self._note_published(done, at, context, time_us)

    def failed(self, reason: str) -> None:
        """The partition went offline with publishes that were not committed."""
        while self._publishing:
            lost = self._publishing.popleft()
            for offset, context in lost.contexts.items():
                self._note_received(lost, offset, context, now_us(), reason=reason)

    def _note_received(
        self,
        publishing: _Publishing,
        offset: int,
        context: TraceContext,
        time_us: int,
        *,
        reason: str | None = None,
    ) -> None:
        self.recorder.record(
            Span(
                context.trace_id,
                context.span_id,
                context.parent_id,
                _RECEIVED,
                self.topic,
                self.index,
                offset,
                publishing.started_us,
                time_us - publishing.started_us,
                "ok" if reason is None else "failed",
                None,
                publishing.producer,
                None,
                reason,
            )
        )

    def _note_published(
        self, publishing: _Publishing, offset: int, context: TraceContext, time_us: int
    ) -> None:
        self._note_received(publishing, offset, context, time_us)
        _, _, started_us, admitted_us, written_us, _ = publishing
        written_us = written_us or time_us
        phases: tuple[tuple[EventName, int, int], ...] = (
            (_PARTITIONED, started_us, admitted_us),
            (_PERSISTED, admitted_us, written_us),
            (_REPLICATED, written_us, time_us),
        )
        for event, from_us, to_us in phases:
            # Without `note` and its names: four spans for each message that is traced.
            self.recorder.record(
                Span(
                    context.trace_id,
                    new_span_id(),
                    context.span_id,
                    event,
                    self.topic,
                    self.index,
                    offset,
                    from_us,
                    to_us - from_us,
                )
            )

    def _continue(self, continued: Sequence[Continuation | None], base_offset: int) -> None:
        """Records that the broker wrote as copies of traced messages, or whose time has come."""
        for offset, each in enumerate(continued, base_offset):
            if each is None:
                continue
            self._adopt(offset, each.context)
            here = MessagePlace(self.topic, self.index, offset)
            time_us = now_us()
            self.recorder.record(
                Span(
                    each.context.trace_id,
                    new_span_id(),
                    each.context.span_id,
                    each.event.value,
                    (each.origin or here).topic,
                    (each.origin or here).partition,
                    (each.origin or here).offset,
                    each.time_us,
                    max(0, time_us - each.time_us),
                    "failed" if each.event in FAILURES else "ok",
                    each.group,
                    None,
                    each.delivery_count,
                    each.reason,
                    each.delayed_id,
                    None if each.origin is None else here,
                )
            )

    # --- reading by offset ----------------------------------------------------------------

    def fetched(self, data: Buffer, start: int, end: int, consumer: str | None) -> None:
        """A client was given batches, of which it wants what is in [start, end)."""
        offsets = self.traced(start, end)
        if offsets:
            for offset, context in self.contexts_of_fetched(data, offsets).items():
                self.note_read(context, offset, consumer)

    def note_read(
        self, context: TraceContext, offset: int, consumer: str | None, group: str | None = None
    ) -> None:
        self.note(Event.CONSUME_FETCHED, context, offset, now_us(), group=group, consumer=consumer)
        self._fetched.add(offset)

    def contexts_of_fetched(self, data: Buffer, offsets: Sequence[int]) -> dict[int, TraceContext]:
        known = {o: self.recorder.contexts.get(self.key, o) for o in offsets}
        unknown = [offset for offset, context in known.items() if context is None]
        found = self.contexts_in(data, unknown) if unknown else {}
        return {o: context for o in offsets if (context := known[o] or found.get(o)) is not None}

    def committed_by(self, group: str, member: str, offset: int, time_us: int) -> None:
        """A group has committed its position: it is done with what it had fetched below."""
        first = self._committed.pop(group, 0)
        if len(self._committed) >= GROUPS_MAX:
            # The one that was silent longest. Who comes now may have been forgotten before, and
            # would be noted all over again.
            self._committed.pop(next(iter(self._committed)))
            first = offset
        self._committed[group] = offset

        def note(at: int) -> Note:
            return lambda context: self.note(
                Event.CONSUME_ACKED, context, at, time_us, group=group, consumer=member or None
            )

        for at in self._fetched.between(first, offset):
            self.with_context(at, note(at))


def _is_continued(continued: Sequence[Continuation | None], at: int) -> bool:
    return 0 <= at < len(continued) and continued[at] is not None
