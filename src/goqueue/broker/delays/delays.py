"""Delayed messages: scheduled, listed, cancelled, and delivered when due."""

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from goqueue.broker.delays.delivery import DelayDelivery
from goqueue.broker.delays.figures import DelayFigures, TopicFigures
from goqueue.broker.delays.intake import DelayedPart
from goqueue.broker.delays.shard import DelayShard
from goqueue.broker.delays.tracing import note_cancelled, note_scheduled
from goqueue.broker.own_grants import own_state
from goqueue.broker.partitions.feature_headers import features_of
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.producer_ids import ProducerIdSource
from goqueue.broker.runtime.topic import LOAD_PATIENCE_S, ShardHost
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
    CorruptBatch,
    GoQueueError,
    InvalidRecord,
    InvalidRequest,
    NotLeader,
    PartitionOffline,
    PolicyViolation,
    RecordTooLarge,
    StateLoading,
    TooLateToCancel,
    UnknownDelayedMessage,
    UnknownTopic,
)
from goqueue.model.names import TopicPartition
from goqueue.model.records import NewRecord
from goqueue.model.rights import (
    DeletableTopic,
    DescribableCluster,
    DescribableTopic,
    ReadableTopic,
    WritableTopic,
)
from goqueue.model.settings import INT64_MAX
from goqueue.model.topics import INTERNAL_TOPICS, TopicView
from goqueue.state.delays.machine import Origin
from goqueue.state.delays.pending import Entry
from goqueue.state.delays.records import Dropped, TargetKey, stored_size_bytes

logger = logging.getLogger(__name__)

DELAYED_TOPIC: Final = "__delayed"
# Nothing is ever too old here: shards move the log's start themselves, a segment at a time.
DELAYED_TOPIC_CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(32 * 1024 * 1024),
    "compression.type": "producer",
    # An entry for every batch: messages are read one by one, in the order of their times.
    "index.interval.bytes": "0",
}
# For the indexes and for flushes: a slow one must not hold up all shards.
THREADS: Final = 4
UPKEEP_INTERVAL_MS: Final = 1_000
# Between two tries to load a shard, such as while no producer ids can be had.
RETRY_MS: Final = 1_000


class _RunningShard(NamedTuple):
    shard: DelayShard
    delivery: DelayDelivery
    tasks: tuple["asyncio.Task[None]", ...]


class _FoundPage(NamedTuple):
    """`next_after` is where the next page begins; None after the last."""

    found: list[tuple[DelayedId, Entry]]
    next_after: str | None


class Delays:
    def __init__(self, host: ShardHost, producer_ids: ProducerIdSource, *, partitions: int) -> None:
        self._host = host
        self._producer_ids = producer_ids
        self._new_partitions = partitions
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="goqueue-delay")
        self._figures = DelayFigures()
        # By number: those that this node leads. What cannot be read is in neither.
        self._shards: dict[int, _RunningShard] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        # Shards that were given up to another node; their files are free when this is done.
        self._leaving: dict[int, asyncio.Task[None]] = {}
        # How many there are in all, once that is known.
        self._shard_count = 0
        self._making: asyncio.Task[None] | None = None
        self._is_closed = False

    # --- lifetime -------------------------------------------------------------------------

    async def start(self) -> None:
        """Load what an earlier run left, as far as this node leads it, and go on delivering it."""
        if DELAYED_TOPIC in self._host.image.topics:
            await self.open()

    async def open(self) -> None:
        """Return with every shard loaded that this node leads.

        The first delayed message ever makes the topic.
        """
        await self._ensure()
        while self._loading:
            await asyncio.wait(tuple(self._loading.values()))

    async def _ensure(self) -> None:
        """Return with the topic made, and its shards loaded or being loaded."""
        if self._shard_count:
            return
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make())
        # Shielded: a client that goes away must not stop the loading for all others.
        await asyncio.shield(self._making)

    async def _make(self) -> None:
        if DELAYED_TOPIC not in self._host.image.topics:
            await self._host.topics.ensure_internal(
                own_state(DELAYED_TOPIC),
                partitions=self._new_partitions,
                config=DELAYED_TOPIC_CONFIG,
            )
        count = len(self._host.image.topics[DELAYED_TOPIC].partitions)
        for index in range(count):
            if index not in self._loading and index not in self._shards and self._leads(index):
                self.led(index)
        self._shard_count = count

    def _leads(self, index: int) -> bool:
        try:
            self._host.partition(DELAYED_TOPIC, index)
        except NotLeader:
            return False
        except GoQueueError:
            # Loading it says what is wrong.
            return True
        return True

    def led(self, index: int) -> None:
        """This node leads the shard from now on: it delivers what waits there."""
        self.no_longer_led(index)
        if not self._is_closed:
            loading = self._loading[index] = asyncio.create_task(self._load_and_start(index))
            loading.add_done_callback(lambda _: self._loaded(index, loading))

    def no_longer_led(self, index: int) -> None:
        """Another node delivers it now. What was under way here is refused by the partition."""
        loading = self._loading.pop(index, None)
        if loading is not None:
            loading.cancel()
        running = self._shards.pop(index, None)
        if running is not None:
            for task in running.tasks:
                task.cancel()
            leaving = self._leaving[index] = asyncio.create_task(_leave(running))
            leaving.add_done_callback(lambda _: self._left(index, leaving))

    def _loaded(self, index: int, loading: "asyncio.Task[None]") -> None:
        if self._loading.get(index) is loading:
            del self._loading[index]

    def _left(self, index: int, leaving: "asyncio.Task[None]") -> None:
        if self._leaving.get(index) is leaving:
            del self._leaving[index]

    async def _load_and_start(self, index: int) -> None:
        if index in self._leaving:
            await asyncio.wait((self._leaving[index],))
        while True:
            try:
                self._shards[index] = self._start(await self._load(index))
                return
            except (NotLeader, PartitionOffline) as error:
                logger.error("delayed messages of one shard stay where they are: %s", error)
                return
            except GoQueueError as error:
                logger.warning("delayed messages of one shard wait: %s", error)
                await asyncio.sleep(RETRY_MS / 1000)

    async def _load(self, index: int) -> DelayShard:
        partition = self._host.partition(DELAYED_TOPIC, index)
        partition.check_online()
        try:
            return await self._load_from(partition)
        except CorruptBatch as error:
            raise partition.give_up(f"its state cannot be read: {error}") from error

    async def _load_from(self, partition: Partition) -> DelayShard:
        shard = DelayShard(
            partition,
            clock_ms=self._host.clock_ms,
            threads=self._threads,
            producer_ids=self._producer_ids,
            figures=self._figures,
        )
        try:
            await shard.load()
        except BaseException:
            await shard.abandon()
            raise
        gone = {
            target.key.topic_id
            for target in shard.machine.targets
            if not target.is_dropped and target.key.topic_id not in self._host.image.topics_by_id
        }
        if gone:
            shard.note(*(Dropped(topic_id) for topic_id in gone))
        return shard

    def _start(self, shard: DelayShard) -> _RunningShard:
        delivery = DelayDelivery(shard, self._host)
        tasks = (asyncio.create_task(delivery.run()), asyncio.create_task(_look_after(shard)))
        return _RunningShard(shard, delivery, tasks)

    async def close(self) -> None:
        self._is_closed = True
        making = [] if self._making is None else [self._making]
        opening = [*making, *self._loading.values()]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, *self._leaving.values(), return_exceptions=True)
        shards, self._shards = list(self._shards.values()), {}
        tasks = [task for running in shards for task in running.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for running in shards:
            try:
                await running.delivery.settle_all()
            except GoQueueError as error:
                logger.warning("the next start looks through the last deliveries: %s", error)
            await running.shard.close()
        self._threads.shutdown(wait=True)

    def topic_deleted(self, topic_id: UUID) -> None:
        """What waits for a topic goes with it."""
        self._figures.forget(topic_id)
        for shard, _, _ in self._shards.values():
            if any(target.key.topic_id == topic_id for target in shard.machine.targets):
                try:
                    shard.note(Dropped(topic_id))
                except GoQueueError as error:
                    logger.warning("messages of a deleted topic go at the next start: %s", error)

    def wake(self) -> None:
        """Look at the clock again now."""
        for running in self._shards.values():
            running.delivery.wake()

    # --- scheduling -----------------------------------------------------------------------

    async def schedule(
        self, topic: WritableTopic, partition: int, records: Sequence[tuple[NewRecord, int]]
    ) -> list[DelayedId]:
        """Keep records until their times (ms); durable as the topic's policy says on return.

        All of them or none. One whose time has passed is delivered at once.
        """
        if topic in INTERNAL_TOPICS:
            raise PolicyViolation(f"topic {topic!r} is written by the broker only")
        if not records:
            raise InvalidRequest("messages: at least one is needed")
        await self._ensure()
        target = self._host.partition(topic, partition)
        target.check_online()
        for index, (record, _) in enumerate(records):
            _check(record, target, index, self._host.clock_ms())
        key = self._key(topic, partition)
        number = self._shard_number(key)
        running = await self._running(number)
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
        await self._ensure()
        key = self._key(*partition.name)
        running = await self._running(self._shard_number(key))
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
        if DELAYED_TOPIC not in self._host.image.topics:
            return
        await self._ensure()
        key = self._key(*place)
        running = await self._running(self._shard_number(key))
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

    def _shard_number(self, key: TargetKey) -> int:
        return crc32c(key.topic_id.bytes + b"%d" % key.partition) % self._shard_count

    async def _running(self, number: int) -> _RunningShard:
        loading = self._loading.get(number)
        if loading is not None:
            await asyncio.wait((loading,), timeout=LOAD_PATIENCE_S)
        running = self._shards.get(number)
        if running is None:
            self._host.partition(DELAYED_TOPIC, number).check_online()
            if number in self._loading:
                raise StateLoading(f"{DELAYED_TOPIC}-{number} is being loaded; try again soon")
            raise PartitionOffline(f"{DELAYED_TOPIC}-{number} could not be loaded")
        return running

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
        if DELAYED_TOPIC not in self._host.image.topics:
            raise unknown
        await self._ensure()
        if wanted.shard >= self._shard_count:
            raise unknown
        shard = (await self._running(wanted.shard)).shard
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
        await shard.log.committed(end, flushed=self._flushes(topic))
        with contextlib.suppress(GoQueueError):
            # Cancelled it is, whether or not it can be read for those who follow it.
            partition = machine.targets[meant[0].target].key.partition
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
        return DelayedPage(await self._messages(page.found), page.next_after)

    async def being_delivered(self, topic: ReadableTopic) -> list[NewRecord]:
        """Messages that wait no more, and may not be in the topic yet."""
        view = self._topic(topic)
        found: list[NewRecord] = []
        for shard, _, _ in self._shards.values():
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
        await self.start()
        found: list[tuple[DelayedId, Entry]] = []
        for number, (shard, _, _) in self._shards.items():
            # Of two with one due time the smaller shard comes first.
            last = (
                start.number if number == start.shard else -1 if number > start.shard else INT64_MAX
            )
            entries = await shard.page(topic.id, (start.due_ms, last), limit + 1)
            found += ((DelayedId(e.due_ms, number, e.number), e) for e in entries)
        page = heapq.nsmallest(limit, found)
        is_last = len(found) <= limit
        return _FoundPage(page, None if is_last else str(page[-1][0]))

    async def _messages(self, page: Sequence[tuple[DelayedId, Entry]]) -> list[DelayedMessage]:
        messages = []
        for found, entry in page:
            shard = self._shards[found.shard].shard
            record = (await shard.log.read([entry]))[entry.number]
            partition = shard.machine.targets[entry.target].key.partition
            messages.append(DelayedMessage(found, partition, record))
        return messages

    def pending_count(self, topic: DescribableTopic) -> int:
        """How many messages wait for a topic."""
        topic_id = self._topic(topic).id
        return sum(
            target.pending
            for shard, _, _ in self._shards.values()
            for target in shard.machine.targets
            if target.key.topic_id == topic_id
        )

    def stats(self, _cluster: DescribableCluster) -> DelayStats:
        """Figures since the start; what is pending, by topic."""
        figures = self._figures
        pending: dict[UUID, int] = {}
        for shard, _, _ in self._shards.values():
            for target in shard.machine.targets:
                if target.pending:
                    topic_id = target.key.topic_id
                    pending[topic_id] = pending.get(topic_id, 0) + target.pending
        due = [shard.next_due_ms for shard, _, _ in self._shards.values()] if pending else []
        return DelayStats(
            pending=sum(pending.values()),
            in_memory=sum(len(shard.machine.pending) for shard, _, _ in self._shards.values()),
            pending_bytes=sum(shard.machine.live_bytes for shard, _, _ in self._shards.values()),
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

    def _flushes(self, topic: TopicView) -> bool:
        return self._host.partition(topic.name, 0).config.fsync_policy == "always"


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


async def _leave(running: _RunningShard) -> None:
    await asyncio.gather(*running.tasks, return_exceptions=True)
    await running.shard.abandon()


async def _look_after(shard: DelayShard) -> None:
    while True:
        await asyncio.sleep(UPKEEP_INTERVAL_MS / 1000)
        try:
            await shard.upkeep()
        except GoQueueError as error:
            logger.warning("%s is looked after later: %s", shard.log.partition.name, error)
        except Exception:
            logger.exception("%s is looked after later", shard.log.partition.name)
