"""Delayed messages: scheduled, listed, cancelled, and delivered when due."""

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from goqueue.broker.delays.figures import DelayFigures, TopicFigures
from goqueue.broker.delays.intake import DelayedPart
from goqueue.broker.delays.led_shards import DelayShards
from goqueue.broker.delays.tracing import note_cancelled, note_scheduled
from goqueue.broker.partitions.feature_headers import features_of
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.producer_ids import ProducerIdSource
from goqueue.broker.runtime.topic import ShardHost
from goqueue.model.batch import HEADER_BYTES
from goqueue.model.delays import (
    LIST_DEFAULT,
    LIST_MAX,
    DelayedId,
    DelayedMessage,
    DelayedPage,
    DelayStats,
    TopicDelayStats,
)
from goqueue.model.errors import (
    GoQueueError,
    InvalidRecord,
    InvalidRequest,
    PolicyViolation,
    RecordTooLarge,
    TooLateToCancel,
    UnknownDelayedMessage,
    UnknownTopic,
)
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.records import NewRecord
from goqueue.model.rights import (
    DeletableTopic,
    DescribableCluster,
    DescribableTopic,
    ReadableTopic,
    WritableTopic,
)
from goqueue.model.settings import INT64_MAX
from goqueue.model.topics import TopicView, is_internal
from goqueue.state.delays.machine import Origin
from goqueue.state.delays.pending import Entry
from goqueue.state.delays.records import Dropped, TargetKey, stored_size_bytes

logger = logging.getLogger(__name__)


class _FoundPage(NamedTuple):
    """`next_after` is where the next page begins; None after the last."""

    found: list[tuple[DelayedId, Entry]]
    next_after: str | None


class Delays:
    def __init__(self, host: ShardHost, producer_ids: ProducerIdSource, *, partitions: int) -> None:
        self._host = host
        self._figures = DelayFigures()
        self.shards = DelayShards(host, producer_ids, self._figures, partitions=partitions)

    def topic_deleted(self, topic_id: UUID) -> None:
        """What waits for a topic goes with it."""
        self._figures.forget(topic_id)
        self.shards.topic_deleted(topic_id)
        for shard, _, _ in self.shards.running():
            if any(target.key.topic_id == topic_id for target in shard.machine.targets):
                try:
                    shard.note(Dropped(topic_id))
                except GoQueueError as error:
                    logger.warning("messages of a deleted topic go at the next start: %s", error)

    def wake(self) -> None:
        """Look at the clock again now."""
        for running in self.shards.running():
            running.delivery.wake()

    # --- scheduling -----------------------------------------------------------------------

    async def schedule(
        self, topic: WritableTopic, partition: int, records: Sequence[tuple[NewRecord, int]]
    ) -> list[DelayedId]:
        """Keep records until their times (ms); durable as the topic's policy says on return.

        All of them or none. One whose time has passed is delivered at once.
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
        running = await self.shards.of(key)
        number = running.shard.number
        numbers = running.shard.schedule(key, records)
        note_scheduled(target.trace, number, numbers, records)
        running.delivery.wake(min(due_ms for _, due_ms in records))
        await running.shard.log.committed(
            running.shard.log.end_offset, flushed=target.config.fsync_policy == "always"
        )
        return [
            DelayedId(due_ms, number, each)
            for each, (_, due_ms) in zip(numbers, records, strict=True)
        ]

    async def keep(self, partition: Partition, delayed: DelayedPart) -> None:
        """Keep what was cut out of produced batches; it is safe on return.

        Only the first delayed message of a cluster waits for the shards to open.
        """
        key = self._key(*partition.name)
        running = await self.shards.of(key)
        shard, header = running.shard, delayed.header
        origin = None
        if header.has_producer:
            origin = Origin(key, header.producer_id, header.producer_epoch, header.base_sequence)
        if origin is not None and header.is_transactional:
            if not shard.machine.held.is_known(*origin):
                shard.hold(origin, delayed.messages)
        elif origin is None or not shard.machine.is_known(origin):
            numbers = shard.schedule(key, delayed.messages, origin)
            note_scheduled(partition.trace, shard.number, numbers, delayed.messages)
            running.delivery.wake(min(due_ms for _, due_ms in delayed.messages))
        flushed = partition.config.fsync_policy == "always"
        await shard.log.committed(shard.log.end_offset, flushed=flushed)

    async def end_transaction(
        self, place: TopicPartition, producer_id: int, *, commit: bool
    ) -> None:
        """Schedule what a producer's transaction delayed in a partition, or forget it.

        With the partition's marker; repeated until both are known to be done.
        """
        if self.shards.home(self._topic(place.topic)) not in self._host.image.topics:
            return
        key = self._key(*place)
        running = await self.shards.of(key)
        shard = running.shard
        parts = shard.machine.held.of(key, producer_id)
        if not parts:
            return
        partition = self._host.partition(*place)
        for part in parts:
            numbers, messages = await shard.release(key, producer_id, part, commit=commit)
            if messages:
                note_scheduled(partition.trace, shard.number, numbers, messages)
                running.delivery.wake(min(due_ms for _, due_ms in messages))
        flushed = partition.config.fsync_policy == "always"
        await shard.log.committed(shard.log.end_offset, flushed=flushed)

    def _key(self, topic: str, partition: int) -> TargetKey:
        view = self._host.image.topics.get(topic)
        if view is None:
            raise UnknownTopic(f"there is no topic {topic!r}")
        return TargetKey(view.id, int(partition))

    # --- what waits -----------------------------------------------------------------------

    async def cancel(self, topic: WritableTopic, message_id: str) -> DelayedId:
        """Take a message back that is not on its way yet.

        `TooLateToCancel` if its delivery has begun; `UnknownDelayedMessage` if nothing of this id
        waits for the topic. Once this returns it will not be delivered.
        """
        view = self._topic(topic)
        wanted = DelayedId.parse(message_id)
        await self._cancel(view, wanted)
        return wanted

    async def _cancel(self, topic: TopicView, wanted: DelayedId) -> None:
        unknown = UnknownDelayedMessage(f"no message {wanted} waits for topic {topic.name!r}")
        home = self.shards.home(topic)
        if wanted.shard >= self.shards.count(home):
            raise unknown
        await self.shards.ensure(home)
        shard = (await self.shards.at(topic_partition(home, wanted.shard))).shard
        machine = shard.machine
        meant: list[Entry] = []

        def is_meant(entry: Entry) -> bool:
            target = machine.targets[entry.target]
            meant[:] = [entry]
            return (
                entry.due_ms == wanted.due_ms
                and target.key.topic_id == topic.id
                and not target.is_dropped
            )

        entry = machine.find(wanted.number)
        end: int | None = None
        if entry is None and wanted.number not in machine.claimed:
            end = await shard.cancel_indexed(wanted.number, is_meant)
        elif entry is not None and is_meant(entry):
            end = shard.cancel(entry)
        if end is None:
            if wanted.number < machine.next_number and wanted.due_ms <= shard.clock_ms():
                raise TooLateToCancel(f"message {wanted} is delivered or on its way")
            raise unknown
        partition = machine.targets[meant[0].target].key.partition
        await shard.log.committed(end, flushed=self._flushes(topic, partition))
        with contextlib.suppress(GoQueueError):
            # Cancelled it is, whether or not it can be read for those who follow it.
            trace = self._host.partition(topic.name, partition).trace
            if trace is not None:
                for record in (await shard.log.read(meant)).values():
                    note_cancelled(trace, str(wanted), record)

    async def cancel_all(self, topic: DeletableTopic) -> None:
        """Take back what waits for a topic. What is on its way already comes all the same."""
        view = self._topic(topic)
        after: str | None = None
        while True:
            page = await self._page(view, after, LIST_MAX)
            await asyncio.gather(*(self._cancel_if_waiting(view, each) for each, _ in page.found))
            after = page.next_after
            if after is None:
                return

    async def _cancel_if_waiting(self, topic: TopicView, message: DelayedId) -> None:
        with contextlib.suppress(TooLateToCancel, UnknownDelayedMessage):
            await self._cancel(topic, message)

    async def list_pending(
        self, topic: ReadableTopic, *, after: str | None = None, limit: int = LIST_DEFAULT
    ) -> DelayedPage:
        """Messages that wait for a topic, by due time."""
        page = await self._page(self._topic(topic), after, limit)
        messages = await self._messages(self._topic(topic), page.found)
        return DelayedPage(messages, page.next_after)

    async def being_delivered(self, topic: ReadableTopic) -> list[NewRecord]:
        """Messages that wait no more, and may not be in the topic yet."""
        view = self._topic(topic)
        found: list[NewRecord] = []
        for shard, _, _ in self.shards.running():
            machine = shard.machine
            claimed = [
                entry
                for entry in machine.claimed.values()
                if machine.targets[entry.target].key.topic_id == view.id
            ]
            found += (await shard.log.read(claimed)).values()
        return found

    async def _page(self, topic: TopicView, after: str | None, limit: int) -> _FoundPage:
        if not 1 <= limit <= LIST_MAX:
            raise InvalidRequest(f"limit: {limit} is not from 1 to {LIST_MAX}")
        start = DelayedId(-1, -1, -1) if after is None else DelayedId.parse(after)
        await self.shards.settled(topic)
        found: list[tuple[DelayedId, Entry]] = []
        for number, shard in self.shards.of_topic(topic).items():
            # Of two with one due time the smaller shard comes first.
            last = (
                start.number if number == start.shard else -1 if number > start.shard else INT64_MAX
            )
            entries = await shard.page(topic.id, (start.due_ms, last), limit + 1)
            found += ((DelayedId(e.due_ms, number, e.number), e) for e in entries)
        page = heapq.nsmallest(limit, found)
        is_last = len(found) <= limit
        return _FoundPage(page, None if is_last else str(page[-1][0]))

    async def _messages(
        self, topic: TopicView, page: Sequence[tuple[DelayedId, Entry]]
    ) -> list[DelayedMessage]:
        messages = []
        shards = self.shards.of_topic(topic)
        for found, entry in page:
            shard = shards[found.shard]
            record = (await shard.log.read([entry]))[entry.number]
            partition = shard.machine.targets[entry.target].key.partition
            messages.append(DelayedMessage(found, partition, record))
        return messages

    def pending_count(self, topic: DescribableTopic) -> int:
        """How many messages wait for a topic."""
        topic_id = self._topic(topic).id
        return sum(
            target.pending
            for shard, _, _ in self.shards.running()
            for target in shard.machine.targets
            if target.key.topic_id == topic_id
        )

    def stats(self, _cluster: DescribableCluster) -> DelayStats:
        """Figures since the start; what is pending, by topic."""
        figures = self._figures
        pending: dict[UUID, int] = {}
        for shard, _, _ in self.shards.running():
            for target in shard.machine.targets:
                if target.pending:
                    topic_id = target.key.topic_id
                    pending[topic_id] = pending.get(topic_id, 0) + target.pending
        due = [shard.next_due_ms for shard, _, _ in self.shards.running()] if pending else []
        return DelayStats(
            pending=sum(pending.values()),
            in_memory=sum(len(shard.machine.pending) for shard, _, _ in self.shards.running()),
            pending_bytes=sum(shard.machine.live_bytes for shard, _, _ in self.shards.running()),
            next_due_ms=min((at_ms for at_ms in due if at_ms is not None), default=None),
            delivered=figures.delivered,
            cancelled=figures.cancelled,
            lateness_p50_ms=figures.lateness.quantile_ms(0.5),
            lateness_p99_ms=figures.lateness.quantile_ms(0.99),
            lateness_counts=tuple(figures.lateness.counts),
            lateness_sum_ms=figures.lateness.sum_ms,
            topics=self._topic_stats(pending),
        )

    def _topic_stats(self, pending: Mapping[UUID, int]) -> list[TopicDelayStats]:
        topics = []
        for topic_id in {*pending, *self._figures.topics}:
            view = self._host.image.topics_by_id.get(topic_id)
            if view is None:
                continue
            counts = self._figures.topics.get(topic_id) or TopicFigures()
            topics.append(
                TopicDelayStats(
                    topic=view.name,
                    pending=pending.get(topic_id, 0),
                    delivered=counts.delivered,
                    cancelled=counts.cancelled,
                    lateness_p99_ms=counts.lateness.quantile_ms(0.99),
                )
            )
        return sorted(topics, key=lambda topic: topic.topic)

    def _topic(self, name: str) -> TopicView:
        view = self._host.image.topics.get(name)
        if view is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        return view

    def _flushes(self, topic: TopicView, partition: int) -> bool:
        return self._host.partition(topic.name, partition).config.fsync_policy == "always"


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
