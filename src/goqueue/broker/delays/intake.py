"""Produced batches in which record headers ask for a delay.

Their delayed records go to the topic's companion (`model/companions.py`); the others stay in the
batch, which keeps its header. So the partition still sees every sequence of an idempotent producer,
and recognises a repeated batch before anything of it is scheduled. The delayed records are safe
before their batch is appended. A crash between the two leaves them without their batch: it is known
by its origin when the producer sends it again, and split as it was then. Those of a transaction are
held until it ends in this partition.
"""

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.broker.partitions.feature_headers import features_of
from goqueue.broker.partitions.intake import Admitted, PlacedBatch
from goqueue.model.batch import BatchHeader, read_header
from goqueue.model.batch_editing import with_records, without_records
from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.header_names import DELAY_MS, DELIVER_AT
from goqueue.model.records import Header, NewRecord, Record, decode_records


class DelayedPart(NamedTuple):
    """The delayed records of produced batches with their due times, and what is left for now.

    `header` is that of the first batch: an idempotent producer sends one only.
    """

    messages: list[tuple[NewRecord, int]]
    header: BatchHeader
    rest: Admitted
    # What is due later than this is delayed.
    split_at_ms: int
    # Some were to be delayed until a time that has passed.
    has_passed: bool


def take_delayed(
    admitted: Admitted, bounds: DecodingBounds, split_at_ms: int | None = None
) -> DelayedPart | None:
    """Cut out of batches with features what is due later, by default than now.

    None if no record has a due time. Nothing is changed yet; a header that makes no sense raises
    `InvalidRecord`.
    """
    if split_at_ms is None:
        split_at_ms = admitted.now_ms
    delayed: list[tuple[NewRecord, int]] = []
    has_passed = False
    kept_data = bytearray()
    kept_batches: list[PlacedBatch] = []
    for position, header in admitted.batches:
        batch = bytes(admitted.data[position : position + header.size_bytes])
        records = decode_records(batch, bounds)
        asked_ms = [_due_ms(record, at, split_at_ms) for at, record in enumerate(records)]
        due_times_ms = [due_ms if due_ms > split_at_ms else 0 for due_ms in asked_ms]
        has_passed = has_passed or asked_ms != due_times_ms
        if any(due_times_ms):
            delayed += [
                (_waiting(record, due_ms), due_ms)
                for record, due_ms in zip(records, due_times_ms, strict=True)
                if due_ms
            ]
            batch = _without_delayed(batch, header, records, due_times_ms, bounds)
        kept_batches.append((len(kept_data), read_header(batch)))
        kept_data += batch
    if not delayed and not has_passed:
        return None
    rest = admitted._replace(data=kept_data, batches=kept_batches) if delayed else admitted
    return DelayedPart(delayed, admitted.batches[0][1], rest, split_at_ms, has_passed)


def _due_ms(record: Record, index: int, now_ms: int) -> int:
    """When a record is due; 0 if it does not say."""
    return features_of(record.headers, now_ms=now_ms, record_index=index).deliver_at_ms or 0


def _without_delayed(
    batch: bytes,
    header: BatchHeader,
    records: Sequence[Record],
    due_times_ms: Sequence[int],
    bounds: DecodingBounds,
) -> bytes:
    kept = [not due_ms for due_ms in due_times_ms]
    if not any(kept):
        return without_records(header)
    times_ms = [
        record.timestamp_ms for record, is_kept in zip(records, kept, strict=True) if is_kept
    ]
    return with_records(batch, header, kept, max(times_ms), bounds)


def _waiting(record: Record, due_ms: int) -> NewRecord:
    """The record as it will be delivered: whoever publishes it anew must not delay it again."""
    headers: list[Header] = []
    for name, value in record.headers:
        if name in (DELAY_MS, DELIVER_AT):
            name, value = DELIVER_AT, str(due_ms).encode()
        headers.append((name, value))
    return NewRecord(
        key=record.key,
        value=record.value,
        headers=tuple(headers),
        timestamp_ms=record.timestamp_ms,
    )
