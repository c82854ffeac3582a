"""Which shards of delayed messages run here: those whose partitions this node leads.

They are kept in companions of the topics that the messages go to (`model/companions.py`). What an
earlier release kept elsewhere is carried over first.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from goqueue.broker.delays.alarm_clock import AlarmClock
from goqueue.broker.delays.carrying import DelayCarrier
from goqueue.broker.delays.delivery import DelayDelivery
from goqueue.broker.delays.figures import DelayFigures
from goqueue.broker.delays.indexed import IndexedDelays
from goqueue.broker.delays.open_indexes import OpenIndexes
from goqueue.broker.delays.shard import DelayShard
from goqueue.broker.delays.standby import DelayStandby
from goqueue.broker.delays.upkeep import DelayUpkeep
from goqueue.broker.own_grants import own_state
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.carry_over import CarryOver
from goqueue.broker.runtime.producer_ids import ProducerIdSource
from goqueue.broker.runtime.topic import LOAD_PATIENCE_S, ShardHost
from goqueue.model.companions import DELAYED, companion_of, companions_of_kind, kind_and_owner
from goqueue.model.errors import (
    CorruptBatch,
    GoQueueError,
    NotLeader,
    PartitionOffline,
    StateLoading,
)
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.topics import TopicView
from goqueue.state.delays.records import TargetKey

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
# Shards that write their indexes at the same time when the broker stops.
CLOSING_MAX: Final = 2 * THREADS
# Between two tries to load a shard.
RETRY_MS: Final = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class RunningShard:
    shard: DelayShard
    delivery: DelayDelivery
    delivering: "asyncio.Task[None]"

    @property
    def name(self) -> TopicPartition:
        return self.shard.log.partition.name

    @property
    def end_offset(self) -> int:
        return self.shard.log.end_offset

    @property
    def is_upkeep_due(self) -> bool:
        return self.shard.is_upkeep_due

    async def upkeep(self) -> None:
        await self.shard.upkeep()
        # Messages may have come closer.
        self.delivery.wake()


class DelayShards:
    def __init__(
        self, host: ShardHost, producer_ids: ProducerIdSource, figures: DelayFigures
    ) -> None:
        self._host = host
        self._producer_ids = producer_ids
        self._figures = figures
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="goqueue-delay")
        # By partition: those that this node leads. What cannot be read is in neither, and so is
        # what is empty, until somebody needs it.
        self._running: dict[TopicPartition, RunningShard] = {}
        self._loading: dict[TopicPartition, asyncio.Task[None]] = {}
        # Shards that were given up to another node; their files are free when this is done.
        self._leaving: dict[TopicPartition, asyncio.Task[None]] = {}
        # Of shards that other nodes lead.
        self._standbys: dict[TopicPartition, DelayStandby] = {}
        self._making: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False
        self._closing = asyncio.Semaphore(CLOSING_MAX)
        self._open_indexes = OpenIndexes()
        self._alarm_clock = AlarmClock(host.clock_ms)
        self._upkeep = DelayUpkeep(self.running)
        carrier = DelayCarrier(host, self._open, self.ensure)
        self.carry_over = CarryOver(host, DELAYED, carrier.carry, self.led)

    # --- lifetime -------------------------------------------------------------------------

    async def start(self) -> None:
        """Load what an earlier run left, as far as this node leads it, and go on delivering it."""
        image = self._host.image
        for owner in companions_of_kind(DELAYED, image.topics):
            topic = image.topics_by_id.get(owner)
            name = companion_of(DELAYED, owner)
            for index in range(0 if topic is None else self._count(name)):
                place = topic_partition(name, index)
                if place not in self._loading and place not in self._running:
                    self.led(place)
        while self._loading:
            await asyncio.wait(tuple(self._loading.values()))

    def led(self, place: TopicPartition) -> None:
        """This node leads the shard from now on: it delivers what waits there."""
        companion = kind_and_owner(place.topic)
        if companion is None:
            self.carry_over.led(place)
            return
        self.no_longer_led(place)
        # One to which something is still to be carried over is led again when that is done.
        key = _key(TargetKey(companion[1], place.partition))
        if not self._is_empty(place) and not self.carry_over.is_awaited(key):
            self._begin(place)

    def no_longer_led(self, place: TopicPartition) -> None:
        """Another node delivers it now. What was under way here is refused by the partition."""
        if kind_and_owner(place.topic) is None:
            self.carry_over.no_longer_led(place)
            return
        loading = self._loading.pop(place, None)
        if loading is not None:
            loading.cancel()
        running = self._running.pop(place, None)
        if running is not None:
            running.delivering.cancel()
            self._leave(place, asyncio.create_task(self._abandon(running)))

    def followed(self, hosted: HostedPartition) -> None:
        """Another node delivers it: what waits is kept at hand."""
        place = hosted.name
        if self._is_closed or kind_and_owner(place.topic) is None:
            return

        def has_ended() -> None:
            if self._standbys.get(place) is standby:
                del self._standbys[place]
            if standby.files_free is not None:
                self._leave(place, standby.files_free)

        standby = DelayStandby(
            hosted,
            threads=self._threads,
            leisure=self._host.leisure,
            open_indexes=self._open_indexes,
            files_free=self._leaving.get(place),
            has_ended=has_ended,
        )
        hosted.standby = self._standbys[place] = standby

    def topic_deleted(self, topic_id: UUID) -> None:
        companion = companion_of(DELAYED, topic_id)
        for place in {*self._loading, *self._running}:
            if place.topic == companion:
                self.no_longer_led(place)

    async def close(self) -> None:
        self._is_closed = True
        await self.carry_over.close()
        opening = [*self._making.values(), *self._loading.values()]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, *self._leaving.values(), return_exceptions=True)
        shards, self._running = list(self._running.values()), {}
        await self._upkeep.close()
        for running in shards:
            running.delivering.cancel()
        await asyncio.gather(*(each.delivering for each in shards), return_exceptions=True)
        await asyncio.gather(*map(self._close, shards))
        await asyncio.gather(*(standby.close() for standby in self._standbys.values()))
        await self._open_indexes.close()
        self._threads.shutdown(wait=True)

    async def _close(self, running: RunningShard) -> None:
        async with self._closing:
            try:
                await running.delivery.settle_all()
            except GoQueueError as error:
                logger.warning("the next start looks through the last deliveries: %s", error)
            await running.shard.close()

    async def _abandon(self, running: RunningShard) -> None:
        await asyncio.gather(running.delivering, return_exceptions=True)
        await self._upkeep.leave(running)
        await running.shard.abandon()

    # --- loading --------------------------------------------------------------------------

    def _is_empty(self, place: TopicPartition) -> bool:
        """Whether there is nothing to be loaded here: not led, or nothing in the log."""
        try:
            log = self._host.partition(*place)
        except NotLeader:
            return True
        except GoQueueError:
            return False  # loading it says what is wrong
        return log.log_start_offset == log.log_end_offset

    def _begin(self, place: TopicPartition) -> None:
        if not self._is_closed:
            loading = self._loading[place] = asyncio.create_task(self._load_and_start(place))
            loading.add_done_callback(lambda _: self._loaded(place, loading))

    def _loaded(self, place: TopicPartition, loading: "asyncio.Task[None]") -> None:
        if self._loading.get(place) is loading:
            del self._loading[place]

    def _leave(self, place: TopicPartition, leaving: "asyncio.Task[None]") -> None:
        self._leaving[place] = leaving
        leaving.add_done_callback(lambda _: self._left(place, leaving))

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
            return await self._open(partition)
        except CorruptBatch as error:
            raise partition.give_up(f"its state cannot be read: {error}") from error

    async def _open(self, partition: Partition) -> DelayShard:
        shard = DelayShard(
            partition,
            clock_ms=self._host.clock_ms,
            threads=self._threads,
            producer_ids=self._producer_ids,
            figures=self._figures,
            open_indexes=self._open_indexes,
            stood_by=await self._stood_by(partition),
            is_held=lambda: self._host.hosted.holding.is_on,
        )
        try:
            await shard.load()
        except BaseException:
            await shard.abandon()
            raise
        return shard

    async def _stood_by(self, partition: Partition) -> IndexedDelays | None:
        """What this node replayed while another one led."""
        standby = self._standbys.pop(partition.name, None)
        if standby is None:
            return None
        partition.hosted.standby = None
        delays = await standby.hand_over()
        if delays is not None and delays.next_offset < partition.log_start_offset:
            # What it did not hear of is gone.
            await delays.close()
            return None
        return delays

    def _start(self, shard: DelayShard) -> RunningShard:
        delivery = DelayDelivery(shard, self._host, self._alarm_clock)
        self._upkeep.start()
        return RunningShard(shard, delivery, asyncio.create_task(delivery.run()))

    # --- finding --------------------------------------------------------------------------

    async def of(self, key: TargetKey) -> RunningShard:
        """The shard of a target; the first delayed message of a topic waits until it is made."""
        await self.carried_over(key)
        home = await self.ensure(self._host.image.topics_by_id[key.topic_id])
        return await self._at(topic_partition(home, key.partition))

    async def known(self, key: TargetKey) -> RunningShard | None:
        """As `of`; None if nothing was ever delayed on its way there."""
        await self.carried_over(key)
        place = topic_partition(companion_of(DELAYED, key.topic_id), key.partition)
        if key.partition >= self._count(place.topic):
            return None
        if place not in self._running and place not in self._loading and self._is_empty(place):
            self._host.partition(*place)
            return None
        return await self._at(place)

    async def ensure(self, topic: TopicView) -> str:
        """Return with the companion made; its name."""
        name = companion_of(DELAYED, topic.id)
        if self._count(name) < len(topic.partitions):
            making = self._making.get(name)
            if making is None:
                making = self._making[name] = asyncio.create_task(self._make(name, topic))
                making.add_done_callback(lambda _: self._making.pop(name, None))
            # Shielded: a client that goes away must not stop it for all others.
            await asyncio.shield(making)
        return name

    async def _make(self, name: str, owner: TopicView) -> None:
        topics = self._host.topics
        await topics.ensure_companion(own_state(name), owner, config=DELAYED_TOPIC_CONFIG)

    def _count(self, name: str) -> int:
        topic = self._host.image.topics.get(name)
        return 0 if topic is None else len(topic.partitions)

    async def carried_over(self, key: TargetKey) -> None:
        if not self.carry_over.is_over:
            await self.carry_over.settled(_key(key))

    async def _at(self, place: TopicPartition) -> RunningShard:
        if place not in self._running:
            self._host.partition(*place).check_online()
            if place not in self._loading:
                self._begin(place)
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


def _key(target: TargetKey) -> bytes:
    """By this an earlier release chose the shard of a target."""
    return target.topic_id.bytes + b"%d" % target.partition
