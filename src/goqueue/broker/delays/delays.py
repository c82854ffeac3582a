"""Delayed messages: scheduled, listed, cancelled, and delivered when due."""

from collections.abc import Callable, Sequence
from uuid import UUID

from goqueue.broker.calls.calls import Calls, before_anything_is_done
from goqueue.broker.delays.figures import DelayFigures
from goqueue.broker.delays.intake import DelayedPart
from goqueue.broker.delays.led_shards import DelayShards
from goqueue.broker.delays.shard import DelayShard
from goqueue.broker.delays.stats import DelayStatistics
from goqueue.broker.delays.tracing import note_scheduled
from goqueue.broker.delays.waiting import WaitingMessages
from goqueue.broker.partitions.feature_headers import features_of
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.producer_ids import ProducerIdSource
from goqueue.broker.runtime.topic import ShardHost
from goqueue.model.batch import HEADER_BYTES, BatchHeader
from goqueue.model.delays import DelayedId
from goqueue.model.errors import (
    InvalidRecord,
    InvalidRequest,
    PolicyViolation,
    RecordTooLarge,
    UnknownTopic,
)
from goqueue.model.names import TopicPartition
from goqueue.model.publishing import WriterTurn
from goqueue.model.records import NewRecord
from goqueue.model.rights import WritableTopic
from goqueue.model.topics import TopicView, is_internal
from goqueue.state.delays.machine import Origin
from goqueue.state.delays.records import NO_SPLIT, TargetKey, stored_size_bytes


class Delays:
    def __init__(
        self,
        host: ShardHost,
        producer_ids: ProducerIdSource,
        calls: Calls,
    ) -> None:
        self._host = host
        figures = self._figures = DelayFigures()
        self.shards = DelayShards(host, producer_ids, figures)
        self.waiting = WaitingMessages(host, self.shards, calls)
        self.stats = DelayStatistics(host, self.shards, figures, calls)

    def topic_deleted(self, topic_id: UUID) -> None:
        """What waits for a topic goes with it."""
        self._figures.forget(topic_id)
        self.shards.topic_deleted(topic_id)

    def wake(self) -> None:
        """Look at the clock again now."""
        for running in self.shards.running():
            running.delivery.wake()

    # --- scheduling -----------------------------------------------------------------------

    async def schedule(
        self,
        topic: WritableTopic,
        partition: int,
        records: Sequence[tuple[NewRecord, int]],
        turn: WriterTurn | None = None,
    ) -> list[DelayedId]:
        """Keep records until their times (ms); durable as the topic's policy says on return.

        All of them or none. One whose time has passed is delivered at once. `turn`: nothing is kept
        once it is over.
        """
        if is_internal(topic):
            raise PolicyViolation(f"topic {topic!r} is written by the broker only")
        if not records:
            raise InvalidRequest("messages: at least one is needed")
        target = self._host.partition(topic, partition)
        target.check_online()
        for index, (record, _) in enumerate(records):
            _check(record, target, index, self._host.clock_ms())
        key = self._key(topic, partition)
        with before_anything_is_done():
            running = await self.shards.of(key)
        target.check_online()
        # Neither what waits nor its delivery could be committed: nothing is taken.
        for needed in (target, running.shard.log.partition):
            needed.check_enough_in_sync()
        if turn is not None:
            target.sole_writer.admit(turn)
        numbers = running.shard.schedule(key, records)
        note_scheduled(target.trace, numbers, records)
        running.delivery.wake(min(due_ms for _, due_ms in records))
        await running.shard.log.committed(running.shard.log.end_offset)
        return [
            DelayedId(due_ms, key.partition, number)
            for number, (_, due_ms) in zip(numbers, records, strict=True)
        ]

    async def keep(
        self, partition: Partition, delayed: DelayedPart, check: Callable[[], object]
    ) -> None:
        """Keep what was cut out of produced batches; it is safe on return.

        Only the first delayed message of a topic waits for its shards to be made. `check` raises if
        the batches may not be appended any more: their transaction has ended.
        """
        key = self._key(*partition.name)
        running = await self.shards.of(key)
        check()
        shard = running.shard
        shard.log.partition.check_enough_in_sync()
        origin = _origin(key, delayed.header)
        if origin is not None and _split_at_ms(shard, origin, delayed.header) is not None:
            pass  # it was sent again
        elif origin is not None and delayed.header.is_transactional:
            shard.hold(origin, delayed.messages, delayed.split_at_ms)
        else:
            numbers = shard.schedule(key, delayed.messages, origin, delayed.split_at_ms)
            note_scheduled(partition.trace, numbers, delayed.messages)
            running.delivery.wake(min(due_ms for _, due_ms in delayed.messages))
        await shard.log.committed(shard.log.end_offset)
        # Whatever ended the transaction meanwhile has ended what was held, too.
        check()

    async def split_before_ms(self, partition: Partition, header: BatchHeader) -> int | None:
        """By which time a batch was split that is sent again; None if it is not known.

        The delayed part of a batch is safe before the rest of it, which a crash may lose. When it
        is sent again, what was delayed then is delayed, although it may be due by now.
        """
        key = self._key(*partition.name)
        origin = _origin(key, header)
        running = None if origin is None else await self.shards.known(key)
        if origin is None or running is None:
            return None
        found = _split_at_ms(running.shard, origin, header)
        return None if found == NO_SPLIT else found

    async def end_transaction(
        self, place: TopicPartition, producer_id: int, last_epoch: int, *, commit: bool
    ) -> None:
        """Schedule what a producer's transaction delayed in a partition, or forget it.

        With the partition's marker; repeated until both are known to be done. The transaction was
        one of `last_epoch`. What is held of earlier ones was never acknowledged, and what is held
        of later ones is not decided yet: this may be the second time that it is told.
        """
        key = self._key(*place)
        running = await self.shards.known(key)
        if running is None:
            return
        shard = running.shard
        held = shard.machine.held.of(key, producer_id)
        parts = [part for part in held if part.producer_epoch <= last_epoch]
        if not parts:
            return
        partition = self._host.partition(*place)
        for part in parts:
            is_kept = commit and part.producer_epoch == last_epoch
            numbers, messages = await shard.release(key, producer_id, part, commit=is_kept)
            if messages:
                note_scheduled(partition.trace, numbers, messages)
                running.delivery.wake(min(due_ms for _, due_ms in messages))
        await shard.log.committed(shard.log.end_offset)

    def _key(self, topic: str, partition: int) -> TargetKey:
        return TargetKey(self._topic(topic).id, int(partition))

    def _topic(self, name: str) -> TopicView:
        view = self._host.image.topics.get(name)
        if view is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        return view


def _origin(target: TargetKey, header: BatchHeader) -> Origin | None:
    if not header.has_producer:
        return None
    return Origin(target, header.producer_id, header.producer_epoch, header.base_sequence)


def _split_at_ms(shard: DelayShard, origin: Origin, header: BatchHeader) -> int | None:
    if header.is_transactional:
        return shard.machine.held.split_at_ms(*origin)
    return shard.machine.split_at_ms(origin)


def _check(record: NewRecord, target: Partition, index: int, now_ms: int) -> None:
    """What the target would refuse is refused now."""
    size_bytes = stored_size_bytes(record.key, record.value, record.headers) + HEADER_BYTES
    if size_bytes > target.config.max_message_bytes:
        raise RecordTooLarge(
            f"messages[{index}] takes about {size_bytes} bytes; max.message.bytes is "
            f"{target.config.max_message_bytes}"
        )
    if target.config.is_compacted and record.key is None:
        raise InvalidRecord("a compacted topic takes no record without a key", index)
    features_of(record.headers, now_ms=now_ms, record_index=index)
