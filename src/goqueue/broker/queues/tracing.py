"""What tracing notes of queues: deliveries, what became of them, dead letters and their return."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from goqueue.broker.tracing.partition import PartitionTrace
from goqueue.broker.tracing.reading import context_of_record
from goqueue.broker.tracing.recorder import CALLER, CONTINUED, Continuation, now_us
from goqueue.model.batch import Buffer
from goqueue.model.offsets import OffsetRange as Offsets
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import AckAction, Acknowledged, Acknowledgement, Leased
from goqueue.model.records import Record
from goqueue.model.tracing.spans import Event, MessagePlace, TraceContext
from goqueue.state.queues.messages import DeadLetter
from goqueue.state.tracing.contexts import Taken
from goqueue.state.tracing.identity import delivery_span_id

_EVENTS: Final = {
    AckAction.ACCEPT: Event.CONSUME_ACKED,
    AckAction.RELEASE: Event.CONSUME_NACKED,
    AckAction.RETRY: Event.CONSUME_NACKED,
    AckAction.REJECT: Event.CONSUME_REJECTED,
    AckAction.RENEW: Event.VISIBILITY_EXTENDED,
    AckAction.UNSEEN: Event.CONSUME_NACKED,
}


def note_deliveries(
    trace: PartitionTrace, deliveries: Sequence[tuple[Record, int]], group: str, member: str | None
) -> dict[int, TraceContext]:
    """Messages with their delivery counts were given to a reader of a queue.

    Returns the stories of those that have one, by offset.
    """
    stories: dict[int, TraceContext] = {}
    for record, delivery_count in deliveries:
        context = context_of_record(trace, record)
        if context is not None:
            stories[record.offset] = context
            _note_delivery(trace, context, record.offset, delivery_count, group, member)
    return stories


def note_acquired(
    trace: PartitionTrace,
    data: Buffer,
    leased: Sequence[Leased],
    group: str,
    member: str | None,
) -> None:
    """As `note_deliveries` for share groups, which get batches."""
    counts = {
        offset: part.delivery_count for part in leased for offset in trace.traced(*part.offsets)
    }
    if not counts:
        return
    for offset, context in trace.contexts_of_fetched(data, sorted(counts)).items():
        _note_delivery(trace, context, offset, counts[offset], group, member)


def _note_delivery(
    trace: PartitionTrace,
    context: TraceContext,
    offset: int,
    delivery_count: int,
    group: str,
    member: str | None,
) -> None:
    time_us = now_us()
    consumer = member or CALLER.get()
    taken = Taken(time_us, consumer, delivery_count)
    trace.recorder.deliveries.take(trace.key, offset, group, taken)
    trace.note(
        Event.CONSUME_FETCHED,
        context,
        offset,
        time_us,
        span_id=delivery_span_id(trace.key, offset, group, delivery_count),
        group=group,
        consumer=consumer,
        delivery_count=delivery_count,
    )


def note_settled(
    trace: PartitionTrace, items: Sequence[Acknowledgement], answer: Acknowledged, group: str
) -> None:
    """Acknowledgements that were taken; one that was refused changed nothing."""
    if answer.error is not QueueError.NONE:
        return
    for item, error in zip(items, answer.errors, strict=True):
        event = _EVENTS.get(item.action)
        if event is not None and error is QueueError.NONE:
            reason = None
            if item.action is AckAction.RELEASE:
                reason = "given back"
            elif item.action is AckAction.UNSEEN:
                reason = "its reader had gone"
            elif item.delay_ms is not None:
                reason = f"for {item.delay_ms} ms"
            for offset in trace.traced(*item.offsets):
                _note_end(trace, event, offset, group, item.delivery_count, reason)


def note_timeouts(
    trace: PartitionTrace, ranges: Sequence[Offsets], group: str, member: str | None
) -> None:
    """Nobody acknowledged these in time."""
    reason = None if member is None else f"{member} did not acknowledge in time"
    for offsets in ranges:
        for offset in trace.traced(*offsets):
            _note_end(trace, Event.VISIBILITY_TIMEOUT, offset, group, None, reason)


def note_expired(trace: PartitionTrace, ranges: Sequence[Offsets], group: str) -> None:
    """Past their time to live before the group had got to them."""
    for offsets in ranges:
        for offset in trace.traced(*offsets):
            _note_end(trace, Event.DELAY_EXPIRED, offset, group, None, "time to live is over")


def _note_end(
    trace: PartitionTrace,
    event: Event,
    offset: int,
    group: str,
    delivery_count: int | None,
    reason: str | None,
) -> None:
    time_us = now_us()
    deliveries = trace.recorder.deliveries
    look = deliveries.get if event is Event.VISIBILITY_EXTENDED else deliveries.end
    taken = look(trace.key, offset, group)
    count = delivery_count if taken is None else taken.delivery_count
    # From the delivery to its end, where that is known.
    started_us = time_us if taken is None else taken.time_us

    parent_id = None if count is None else delivery_span_id(trace.key, offset, group, count)

    def note(context: TraceContext) -> None:
        trace.note(
            event,
            context,
            offset,
            started_us,
            parent_id=parent_id,
            duration_us=time_us - started_us,
            group=group,
            consumer=CALLER.get() if taken is None else taken.consumer,
            delivery_count=count,
            reason=reason,
        )

    trace.with_context(offset, note)


def buried(
    trace: PartitionTrace | None, death: DeadLetter, records: Sequence[Record]
) -> list[Continuation | None]:
    """The stories that go on with copies of these messages in the dead letters."""
    if trace is None:
        return [None] * len(records)
    time_us = now_us()
    return [
        None
        if (context := context_of_record(trace, record)) is None
        else Continuation(
            context,
            Event.DLQ_ROUTED,
            time_us,
            origin=MessagePlace(trace.topic, trace.index, record.offset),
            group=death.queue.group,
            delivery_count=death.delivery_count,
            reason=death.reason.name.lower(),
        )
        for record in records
    ]


def sending_back(letters: Sequence[Delivery]) -> contextlib.AbstractContextManager[None]:
    """While dead letters are published again, in this order."""
    time_us = now_us()
    return continuing(
        [
            None
            if letter.story is None
            else Continuation(
                letter.story,
                Event.DLQ_REDRIVEN,
                time_us,
                origin=MessagePlace(letter.topic, letter.partition, letter.record.offset),
            )
            for letter in letters
        ]
    )


@contextlib.contextmanager
def continuing(continued: Sequence[Continuation | None]) -> Iterator[None]:
    """While records are written that continue these stories."""
    if not any(continued):
        yield
        return
    token = CONTINUED.set(continued)
    try:
        yield
    finally:
        CONTINUED.reset(token)
