"""Produced batches in which record headers ask for a delay.

Their delayed records go to `__delayed`; the others stay in the batch, which keeps its header. So
the partition still sees every sequence of an idempotent producer, and recognises a repeated batch
before anything of it is scheduled. A crash between the two appends leaves the delayed records
without their batch: the batch is known by its origin when the producer sends it again.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from goqueue.broker.delays.shard import DelayShard
from goqueue.broker.delays.tracing import note_scheduled
from goqueue.broker.partitions.feature_headers import features_of
from goqueue.broker.partitions.intake import PlacedBatch
from goqueue.broker.partitions.partition import Partition
from goqueue.model.batch import BatchHeader, read_header
from goqueue.model.errors import GoQueueError, InvalidRecord
from goqueue.model.header_names import DELAY_MS, DELIVER_AT
from goqueue.model.names import TopicPartition
from goqueue.model.records import Header, NewRecord, Record, decode_records
from goqueue.state.delays.machine import Origin
from goqueue.state.delays.records import TargetKey
from goqueue.storage.compaction.rewriting import with_records, without_records


class DelayTarget(NamedTuple):
    shard: DelayShard
    key: TargetKey
    wake: Callable[[int], None]


class DelaysNotOpen(GoQueueError):
    """There was no delayed message before, so there is nowhere to put one yet."""

    code = "delays_not_open"
    retriable = True


class DelayIntake:
    """Takes the delayed records out of one produce request; `divert` is for `Partition.append`."""

    __slots__ = ("_find_shard", "_now_ms", "_partition", "_shard")

    def __init__(
        self,
        partition: Partition,
        find_shard: Callable[[TopicPartition], DelayTarget],
        now_ms: int,
    ) -> None:
        self._partition = partition
        self._find_shard = find_shard
        self._now_ms = now_ms
        self._shard: DelayShard | None = None

    def divert(
        self, data: bytearray, batches: list[PlacedBatch]
    ) -> tuple[bytearray, list[PlacedBatch]]:
        """Raises before anything is stored, or `DelaysNotOpen` to be called again later."""
        delayed: list[tuple[NewRecord, int]] = []
        kept_data = bytearray()
        kept_batches: list[PlacedBatch] = []
        for position, header in batches:
            batch = bytes(data[position : position + header.size_bytes])
            records = decode_records(batch)
            due_times_ms = [self._due_ms(record, at) for at, record in enumerate(records)]
            if any(due_times_ms):
                _refuse_in_transaction(header, due_times_ms)
                delayed += [
                    (_waiting(record, due_ms), due_ms)
                    for record, due_ms in zip(records, due_times_ms, strict=True)
                    if due_ms
                ]
                batch = _without_delayed(batch, header, records, due_times_ms)
            kept_batches.append((len(kept_data), read_header(batch)))
            kept_data += batch
        if not delayed:
            return data, batches
        self._schedule(delayed, batches[0][1])
        return kept_data, kept_batches

    async def committed(self, *, flushed: bool) -> None:
        """Return once what was diverted is as safe as what was not."""
        if self._shard is not None:
            await self._shard.log.committed(self._shard.log.end_offset, flushed=flushed)

    def _due_ms(self, record: Record, index: int) -> int:
        """When a record is due; 0 if that is now."""
        features = features_of(record.headers, now_ms=self._now_ms, record_index=index)
        due_ms = features.deliver_at_ms or 0
        return due_ms if due_ms > self._now_ms else 0

    def _schedule(self, delayed: Sequence[tuple[NewRecord, int]], header: BatchHeader) -> None:
        shard, target, wake = self._find_shard(self._partition.name)
        self._shard = shard
        origin = None
        if header.has_producer:
            origin = Origin(target, header.producer_id, header.producer_epoch, header.base_sequence)
            if shard.machine.is_known(origin):
                return
        numbers = shard.schedule(target, delayed, origin)
        note_scheduled(self._partition.trace, shard.number, numbers, delayed)
        wake(min(due_ms for _, due_ms in delayed))


def _refuse_in_transaction(header: BatchHeader, due_times_ms: Sequence[int]) -> None:
    if header.is_transactional:
        index = next(at for at, due_ms in enumerate(due_times_ms) if due_ms)
        raise InvalidRecord(
            f"headers {DELAY_MS} and {DELIVER_AT} do not go with transactions: a delayed record "
            "would not be part of one",
            index,
        )


def _without_delayed(
    batch: bytes, header: BatchHeader, records: Sequence[Record], due_times_ms: Sequence[int]
) -> bytes:
    kept = [not due_ms for due_ms in due_times_ms]
    if not any(kept):
        return without_records(header)
    times_ms = [
        record.timestamp_ms for record, is_kept in zip(records, kept, strict=True) if is_kept
    ]
    return with_records(batch, header, kept, max(times_ms))


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
