"""Which shards of delayed messages run here: those whose partitions this node leads.

Where they are kept is said in `model/companions.py`: with the topic that the messages go to, or all
in one topic.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from goqueue.broker.delays.delivery import DelayDelivery
from goqueue.broker.delays.figures import DelayFigures
from goqueue.broker.delays.shard import DelayShard
from goqueue.broker.own_grants import own_state
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.producer_ids import ProducerIdSource
from goqueue.broker.runtime.topic import LOAD_PATIENCE_S, ShardHost
from goqueue.model.companions import DELAYED, companion_of
from goqueue.model.errors import (
    CorruptBatch,
    GoQueueError,
    NotLeader,
    PartitionOffline,
    StateLoading,
)
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.topics import TopicView
from goqueue.state.delays.records import Dropped, TargetKey

logger = logging.getLogger(__name__)

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


class RunningShard(NamedTuple):
    shard: DelayShard
    delivery: DelayDelivery
    tasks: tuple["asyncio.Task[None]", ...]


class DelayShards:
    def __init__(
        self,
        host: ShardHost,
        producer_ids: ProducerIdSource,
        figures: DelayFigures,
        *,
        partitions: int,
    ) -> None:
        self._host = host
        self._producer_ids = producer_ids
        self._figures = figures
        self._new_partitions = partitions
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="goqueue-delay")
        # By partition: those that this node leads. What cannot be read is in neither.
        self._running: dict[TopicPartition, RunningShard] = {}
        self._loading: dict[TopicPartition, asyncio.Task[None]] = {}
        # Shards that were given up to another node; their files are free when this is done.
        self._leaving: dict[TopicPartition, asyncio.Task[None]] = {}
        # Topics with shards that are known to be there.
        self._made: set[str] = set()
        self._making: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False

    async def start(self) -> None:
        """Load what an earlier run left, as far as this node leads it, and go on delivering it."""
        if DELAYED in self._host.image.topics:
            await self.open()

    async def open(self) -> None:
        """Of a node of one: return with every shard loaded, and their topic made."""
        await self.ensure(DELAYED)
        while self._loading:
            await asyncio.wait(tuple(self._loading.values()))

    async def ensure(self, name: str, owner: TopicView | None = None) -> None:
        """Return with the topic made that keeps the shards, and these loaded or being loaded."""
        if name in self._made and (owner is None or self.count(name) >= len(owner.partitions)):
            return
        making = self._making.get(name)
        if making is None or making.done():
            making = self._making[name] = asyncio.create_task(self._make(name, owner))
            making.add_done_callback(lambda _: self._making.pop(name, None))
        # Shielded: a client that goes away must not stop the loading for all others.
        await asyncio.shield(making)

    async def _make(self, name: str, owner: TopicView | None) -> None:
        topics, topic = self._host.topics, own_state(name)
        if owner is not None:
            await topics.ensure_companion(topic, owner, config=DELAYED_TOPIC_CONFIG)
        elif name not in self._host.image.topics:
            await topics.ensure_internal(
                topic, partitions=self._new_partitions, config=DELAYED_TOPIC_CONFIG
            )
        for index in range(self.count(name)):
            place = topic_partition(name, index)
            if place not in self._loading and place not in self._running and self._leads(place):
                self.led(place)
        self._made.add(name)

    def count(self, name: str) -> int:
        topic = self._host.image.topics.get(name)
        return 0 if topic is None else len(topic.partitions)

    def _leads(self, place: TopicPartition) -> bool:
        try:
            self._host.partition(*place)
        except NotLeader:
            return False
        except GoQueueError:
            # Loading it says what is wrong.
            return True
        return True

    def led(self, place: TopicPartition) -> None:
        """This node leads the shard from now on: it delivers what waits there."""
        self.no_longer_led(place)
        if not self._is_closed:
            loading = self._loading[place] = asyncio.create_task(self._load_and_start(place))
            loading.add_done_callback(lambda _: self._loaded(place, loading))

    def no_longer_led(self, place: TopicPartition) -> None:
        """Another node delivers it now. What was under way here is refused by the partition."""
        loading = self._loading.pop(place, None)
        if loading is not None:
            loading.cancel()
        running = self._running.pop(place, None)
        if running is not None:
            for task in running.tasks:
                task.cancel()
            leaving = self._leaving[place] = asyncio.create_task(_leave(running))
            leaving.add_done_callback(lambda _: self._left(place, leaving))

    def followed(self, hosted: HostedPartition) -> None:
        """Another node delivers it: what waits is kept at hand."""

    def _loaded(self, place: TopicPartition, loading: "asyncio.Task[None]") -> None:
        if self._loading.get(place) is loading:
            del self._loading[place]

    def _left(self, place: TopicPartition, leaving: "asyncio.Task[None]") -> None:
        if self._leaving.get(place) is leaving:
            del self._leaving[place]

    async def _load_and_start(self, place: TopicPartition) -> None:
        if place in self._leaving:
            await asyncio.wait((self._leaving[place],))
        while True:
            try:
                self._running[place] = self._start(await self._load(place))
                return
            except (NotLeader, PartitionOffline) as error:
                logger.error("delayed messages of one shard stay where they are: %s", error)
                return
            except GoQueueError as error:
                logger.warning("delayed messages of one shard wait: %s", error)
                await asyncio.sleep(RETRY_MS / 1000)

    async def _load(self, place: TopicPartition) -> DelayShard:
        partition = self._host.partition(*place)
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

    def _start(self, shard: DelayShard) -> RunningShard:
        delivery = DelayDelivery(shard, self._host)
        tasks = (asyncio.create_task(delivery.run()), asyncio.create_task(_look_after(shard)))
        return RunningShard(shard, delivery, tasks)

    async def close(self) -> None:
        self._is_closed = True
        opening = [*self._making.values(), *self._loading.values()]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, *self._leaving.values(), return_exceptions=True)
        shards, self._running = list(self._running.values()), {}
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

    def home(self, topic: TopicView) -> str:
        """The topic that keeps what is delayed on its way to `topic`."""
        if self._host.is_alone:
            return DELAYED
        shared = self._host.image.topics.get(DELAYED)
        if shared is not None:
            # In a cluster that grew out of a node of one: topics that are still there alone.
            where = {each.replicas for view in (shared, topic) for each in view.partitions}
            if len(where) == 1 and len(where.pop()) == 1:
                return DELAYED
        return companion_of(DELAYED, topic.id)

    async def of(self, key: TargetKey) -> RunningShard:
        """The shard of a target; only the first delayed message has to wait until it is made."""
        topic = self._host.image.topics_by_id[key.topic_id]
        home = self.home(topic)
        await self.ensure(home, None if home == DELAYED else topic)
        return await self.at(self.place(key))

    def place(self, key: TargetKey) -> TopicPartition:
        """The partition in which messages for a target wait; its topic is there."""
        home = self.home(self._host.image.topics_by_id[key.topic_id])
        if home != DELAYED:
            return topic_partition(home, key.partition)
        number = crc32c(key.topic_id.bytes + b"%d" % key.partition) % self.count(home)
        return topic_partition(home, number)

    async def at(self, place: TopicPartition) -> RunningShard:
        loading = self._loading.get(place)
        if loading is not None:
            await asyncio.wait((loading,), timeout=LOAD_PATIENCE_S)
        running = self._running.get(place)
        if running is None:
            self._host.partition(*place).check_online()
            if place in self._loading:
                raise StateLoading(f"{place} is being loaded; try again soon")
            raise PartitionOffline(f"{place} could not be loaded")
        return running

    def running(self) -> Collection[RunningShard]:
        return self._running.values()

    def topic_deleted(self, topic_id: UUID) -> None:
        companion = companion_of(DELAYED, topic_id)
        self._made.discard(companion)
        for place in {*self._loading, *self._running}:
            if place.topic == companion:
                self.no_longer_led(place)


async def _leave(running: RunningShard) -> None:
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
