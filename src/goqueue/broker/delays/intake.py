"""Produced batches in which record headers ask for a delay.

Their delayed records go to `__delayed`; the others stay in the batch, which keeps its header. So
the partition still sees every sequence of an idempotent producer, and recognises a repeated batch
before anything of it is scheduled. The delayed records are safe before their batch is appended. A
crash between the two leaves them without their batch: it is known by its origin when the producer
sends it again. Those of a transaction are held until it ends in this partition.
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


def take_delayed(admitted: Admitted, bounds: DecodingBounds) -> DelayedPart | None:
    """Cut the delayed records out of batches with features; None if there are none.

    Nothing is changed yet; a header that makes no sense raises `InvalidRecord`.
    """
    delayed: list[tuple[NewRecord, int]] = []
    kept_data = bytearray()
    kept_batches: list[PlacedBatch] = []
    for position, header in admitted.batches:
        batch = bytes(admitted.data[position : position + header.size_bytes])
        records = decode_records(batch, bounds)
        due_times_ms = [_due_ms(record, at, admitted.now_ms) for at, record in enumerate(records)]
        if any(due_times_ms):
            delayed += [
                (_waiting(record, due_ms), due_ms)
                for record, due_ms in zip(records, due_times_ms, strict=True)
                if due_ms
            ]
            batch = _without_delayed(batch, header, records, due_times_ms, bounds)
        kept_batches.append((len(kept_data), read_header(batch)))
        kept_data += batch
    if not delayed:
        return None
    rest = admitted._replace(data=kept_data, batches=kept_batches)
    return DelayedPart(delayed, admitted.batches[0][1], rest)


def _due_ms(record: Record, index: int, now_ms: int) -> int:
    """When a record is due; 0 if that is now."""
    features = features_of(record.headers, now_ms=now_ms, record_index=index)
    due_ms = features.deliver_at_ms or 0
    return due_ms if due_ms > now_ms else 0


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
