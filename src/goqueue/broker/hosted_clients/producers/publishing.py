"""Batches of a producer, each stored once: the leader of a partition gives out its sequences."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import Meta

from goqueue.broker.calls.calls import Calls, Untouched
from goqueue.broker.partitions.leading import LedPartitions
from goqueue.broker.partitions.log import Log
from goqueue.broker.publishing.publishing import PUBLISH_TIMEOUT_MS
from goqueue.broker.publishing.spreading import published, spread
from goqueue.model.calls import Method
from goqueue.model.errors import InvalidRecord
from goqueue.model.log import Produced, Published
from goqueue.model.names import topic_partition
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.rights import WritableTopic, WritableTransactionalId
from goqueue.model.settings import INT16_MAX, INT32_MAX
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.refusals import TransactionRefused


class Writer(msgspec.Struct, frozen=True):
    """Who appends; without a transactional id outside of transactions."""

    transactional_id: WritableTransactionalId | None
    producer_id: int
    producer_epoch: Annotated[int, Meta(ge=0, le=INT16_MAX)]


class ProduceOnce(msgspec.Struct, frozen=True):
    """Without a sequence, the next one is taken."""

    writer: Writer
    topic: WritableTopic
    index: int
    records: list[NewRecord]
    sequence: Annotated[int, Meta(ge=0, le=INT32_MAX)] | None
    now_ms: int


PRODUCE: Final = Method("producers.produce", ProduceOnce, Produced)
# What has its place in a sequence is stored once, however often it is sent.
PRODUCE_IN_SEQUENCE: Final = Method(
    "producers.produce_in_sequence", ProduceOnce, Produced, is_repeatable=True
)


# Of a producer, in a partition.
_Sequence = tuple[int, str, int]


class ProducerPublishing:
    def __init__(self, log: Log, led: LedPartitions, calls: Calls) -> None:
        self._log = log
        self._led = led
        self._calls = calls
        # Sequences are given out one request at a time; a lock goes when nobody holds it. Of each
        # partition by itself: anybody may name a producer's id, for topics of its own.
        self._locks: WeakValueDictionary[_Sequence, asyncio.Lock] = WeakValueDictionary()
        calls.serve(PRODUCE, self._produce_here)
        calls.serve(PRODUCE_IN_SEQUENCE, self._produce_here)

    async def publish(
        self,
        writer: Writer,
        topic: WritableTopic,
        records: Sequence[NewRecord],
        partitions: Sequence[int | None],
        *,
        partition_count: int,
        sequence: int | None,
        now_ms: int,
    ) -> list[Published]:
        """Answers in the order given; partitions are written one after the other."""
        by_partition = spread(records, partitions, partition_count)
        if sequence is not None and (None in partitions or len(by_partition) > 1):
            raise InvalidRecord(
                "sequence: it counts the messages of one partition, so all must name the same one"
            )
        stored: dict[int, Published] = {}
        for index, positions in by_partition.items():
            batch = [records[position] for position in positions]
            produced = await self._calls.ask(
                PRODUCE if sequence is None else PRODUCE_IN_SEQUENCE,
                topic_partition(topic, index),
                ProduceOnce(writer, topic, index, batch, sequence, now_ms),
            )
            stored.update(zip(positions, published(batch, index, produced, now_ms), strict=True))
        return [stored[position] for position in range(len(records))]

    async def _produce_here(self, asked: ProduceOnce) -> Produced:
        try:
            sequence = (asked.writer.producer_id, asked.topic, asked.index)
            async with self._locks.setdefault(sequence, asyncio.Lock()):
                return await self._append(asked)
        except TransactionRefused as error:
            # The coordinator is asked before anything is appended.
            if error.error is TransactionError.COORDINATOR_LOAD_IN_PROGRESS:
                raise Untouched(error) from None
            raise

    async def _append(self, asked: ProduceOnce) -> Produced:
        transactional_id, producer_id, epoch = msgspec.structs.astuple(asked.writer)
        sequence = asked.sequence
        if sequence is None:
            producers = self._led.find(asked.topic, asked.index).ledger.producers
            sequence = producers.next_sequence(producer_id, epoch)
        is_transactional = transactional_id is not None
        return await self._log.produce(
            asked.topic,
            asked.index,
            encode_records(
                asked.records,
                now_ms=asked.now_ms,
                is_transactional=is_transactional,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            ),
            acks=-1,
            timeout_ms=PUBLISH_TIMEOUT_MS,
            transactional_id=transactional_id,
            bumps_epoch=is_transactional,
        )
