"""The traces of messages whose headers are at hand, and what is noted when such are read."""

from collections.abc import Sequence

from goqueue.broker.tracing.batches import parent_of
from goqueue.broker.tracing.partition import PartitionTrace
from goqueue.model.records import NewRecord, Record
from goqueue.model.tracing.spans import TraceContext
from goqueue.state.tracing.identity import delayed_context, message_context
from goqueue.state.tracing.sampling import MILLION


def context_of_delayed(
    trace: PartitionTrace, waits_as: str, record: NewRecord
) -> TraceContext | None:
    """The trace of a message that has no offset yet; None if it is not traced."""
    parent = parent_of(record.headers)
    context, chance = delayed_context(trace.key, waits_as, parent)
    is_asked = trace.recorder.follows_producers and parent is not None and parent.is_sampled
    return context if is_asked or chance * MILLION < trace.ppm << 64 else None


def context_of_record(trace: PartitionTrace, record: Record) -> TraceContext | None:
    """The trace of a message whose headers are at hand; None if it is not traced."""
    if not trace.traced(record.offset, record.offset + 1):
        return None
    return _context_from(trace, record)


def _context_from(trace: PartitionTrace, record: Record) -> TraceContext:
    table = trace.recorder.contexts
    context = table.get(trace.key, record.offset)
    if context is None:
        context = message_context(trace.key, record.offset, parent_of(record.headers))
        table.keep(trace.key, record.offset, context)
    return context


def note_read(
    trace: PartitionTrace | None,
    records: Sequence[Record],
    consumer: str | None,
    group: str | None = None,
) -> None:
    """Single messages were read by offset."""
    if trace is None or not records:
        return
    wanted = set(trace.traced(records[0].offset, records[-1].offset + 1))
    for record in records:
        if record.offset in wanted:
            context = _context_from(trace, record)
            trace.note_read(context, record.offset, consumer, group)
