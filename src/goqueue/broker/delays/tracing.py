"""What tracing notes of delayed messages.

They have no offset yet, so their trace follows from the id under which they wait, which is known
again when they are due: nothing is written into the message. If it has a `traceparent` header, that
decides as it does for others. From then on its trace goes with the offset it was given.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from goqueue.broker.tracing.partition import PartitionTrace
from goqueue.broker.tracing.reading import context_of_delayed
from goqueue.broker.tracing.recorder import CALLER, CONTINUED, Continuation, now_us
from goqueue.model.delays import DelayedId
from goqueue.model.records import NewRecord
from goqueue.model.tracing.spans import Event, Span
from goqueue.state.delays.pending import Entry


def note_scheduled(
    trace: PartitionTrace | None,
    numbers: Iterable[int],
    messages: Sequence[tuple[NewRecord, int]],
) -> None:
    if trace is None:
        return
    time_us = now_us()
    for number, (record, due_ms) in zip(numbers, messages, strict=True):
        waits_as = str(DelayedId(due_ms, trace.index, number).shown)
        context = context_of_delayed(trace, waits_as, record)
        if context is None or not trace.recorder.throttle.admit_one(time_us):
            continue
        # The first span of the trace: all others are below it.
        trace.recorder.record(
            Span(
                context.trace_id,
                context.span_id,
                context.parent_id,
                Event.DELAY_SCHEDULED.value,
                trace.topic,
                trace.index,
                None,
                time_us,
                consumer=CALLER.get(),
                reason=f"for {max(0, due_ms - time_us // 1000)} ms",
                delayed_id=waits_as,
            )
        )


def note_cancelled(trace: PartitionTrace, waits_as: str, record: NewRecord) -> None:
    context = context_of_delayed(trace, waits_as, record)
    if context is not None:
        caller = CALLER.get()
        time_us = now_us()
        trace.note(
            Event.DELAY_CANCELLED, context, None, time_us, consumer=caller, delayed_id=waits_as
        )


@contextlib.contextmanager
def delivering(
    trace: PartitionTrace | None,
    entries: Sequence[Entry],
    messages: Mapping[int, NewRecord],
) -> Iterator[None]:
    """While messages that are due are appended to their partition, in this order."""
    if trace is None:
        yield
        return
    token = CONTINUED.set([_ready(trace, entry, messages) for entry in entries])
    try:
        yield
    finally:
        CONTINUED.reset(token)


def _ready(
    trace: PartitionTrace, entry: Entry, messages: Mapping[int, NewRecord]
) -> Continuation | None:
    record = messages.get(entry.number)
    waits_as = str(DelayedId(entry.due_ms, trace.index, entry.number).shown)
    context = None if record is None else context_of_delayed(trace, waits_as, record)
    if context is None or not trace.recorder.throttle.admit_one(now_us()):
        return None
    return Continuation(context, Event.DELAY_READY, entry.due_ms * 1000, delayed_id=waits_as)
