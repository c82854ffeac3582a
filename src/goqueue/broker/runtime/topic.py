"""All shards of one internal topic that this broker leads, and the state of those it follows.

A shard begins when this node becomes the leader of its partition, and is closed when it is no
longer. In a cluster it goes on from where this node stood by. A node of one leads everything, and
loads all at its start.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from crc32c import crc32c

from goqueue.broker.own_grants import own_state
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.replaying import StateReplay
from goqueue.broker.runtime.shard import StateShard
from goqueue.broker.runtime.slices import AtLeisure, InHaste
from goqueue.broker.runtime.standby import StateStandby
from goqueue.broker.runtime.stored_records import Overtaken
from goqueue.model.errors import (
    CorruptBatch,
    GoQueueError,
    NotLeader,
    OffsetOutOfRange,
    PartitionOffline,
    StateLoading,
)
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.rights import InternalTopic
from goqueue.model.topics import TopicView
from goqueue.state.machine import Machine
from goqueue.state.metadata_image import MetadataImage

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)

# Small segments: state logs are compacted, and compaction works on closed segments.
STATE_TOPIC_CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(16 * 1024 * 1024),
}
# How long a request waits for state that is being loaded. Most loads take milliseconds; one that
# waits for other replicas may take long, and clients that are told so ask again by themselves.
LOAD_PATIENCE_S: Final = 2.0


class InternalTopics(Protocol):
    async def ensure_internal(
        self, topic: InternalTopic, *, partitions: int, config: Mapping[str, str]
    ) -> None: ...
    async def ensure_companion(
        self, topic: InternalTopic, owner: TopicView, *, config: Mapping[str, str]
    ) -> None: ...
    async def forget_internal(self, topic: InternalTopic) -> None: ...


class ShardHost(Protocol):
    """The part of the broker that shards stand on."""

    clock_ms: Callable[[], int]
    hosted: HostedPartitions
    leisure: AtLeisure

    @property
    def is_alone(self) -> bool: ...
    @property
    def topics(self) -> InternalTopics: ...
    @property
    def image(self) -> MetadataImage: ...
    def partition(self, topic: str, index: int) -> Partition: ...
    def check_awake(self) -> None:
        """`NotLeader` if this process stood still, and others may lead what it led."""
        ...


class StateTopic(Generic[M]):
    """Keys are spread over the topic's partitions; each partition has one machine."""

    def __init__(
        self,
        host: ShardHost,
        name: str,
        *,
        partitions: int = 0,
        make: Callable[[int], M],
        perform: Callable[[int, Sequence[object]], None],
        replayed: Callable[[M, Partition], None] | None = None,
        loaded: Callable[[StateShard[M]], None] | None = None,
        shard_key: Callable[[str], str] = str,
        owner: Callable[[], TopicView] | None = None,
        held_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """`replayed` tells a machine which partition it is going to be led on, and `loaded` what
        happened since it was made. Keys of the same `shard_key` are in the same partition. `owner`
        is the topic that this one belongs to: it has as many partitions then. `held_ms` is how long
        nothing may be decided by the clock."""
        self.name = name
        self._host = host
        self._new_partitions = partitions
        self._make = make
        self._perform = perform
        self._replayed = replayed
        self._loaded = loaded
        self._shard_key = shard_key
        self._owner = owner
        self._held_ms = held_ms
        self._is_closed = False
        self._shards: dict[int, asyncio.Task[StateShard[M]]] = {}
        # Of partitions that other nodes lead.
        self._standbys: dict[int, StateStandby[M]] = {}
        self._is_made = False

    @property
    def exists(self) -> bool:
        return self.name in self._host.image.topics

    @property
    def partition_count(self) -> int:
        topic = self._host.image.topics.get(self.name)
        return self._new_partitions if topic is None else len(topic.partitions)

    def partition_for(self, key: str) -> int:
        return crc32c(self._shard_key(key).encode()) % self.partition_count

    async def start(self) -> None:
        """Load what an earlier run left: its timers and unfinished work go on.

        A shard whose log cannot be read stays offline; all others work.
        """
        if not self.exists:
            return
        led = [index for index in range(self.partition_count) if self._leads(index)]
        for index, loading in [(i, self._shards.get(i) or self._begin(i)) for i in led]:
            await asyncio.wait((loading,))
            try:
                loading.result()
            except PartitionOffline as error:
                logger.warning("the state of %s-%d is left out: %s", self.name, index, error)

    def _leads(self, index: int) -> bool:
        try:
            self._host.partition(self.name, index)
        except NotLeader:
            return False
        except GoQueueError:
            # Loading it says what is wrong.
            return True
        return True

    async def shard_for(self, key: str) -> StateShard[M]:
        await self.ensure()
        return await self.shard(self.partition_for(key))

    async def all_shards(self) -> list[StateShard[M]]:
        """Every shard that this node leads; none while the topic was never needed."""
        return await self._led_shards()

    async def readable_shards(self) -> list[StateShard[M]]:
        """As `all_shards`, without those that are offline: for lists."""
        return await self._led_shards(may_be_offline=True)

    async def _led_shards(self, *, may_be_offline: bool = False) -> list[StateShard[M]]:
        found: list[StateShard[M]] = []
        if not self.exists:
            return found
        for index in range(self.partition_count):
            try:
                found.append(await self.shard(index))
            except NotLeader:
                continue
            except PartitionOffline as error:
                if not may_be_offline:
                    raise
                logger.warning("the state of %s-%d is left out: %s", self.name, index, error)
        return found

    def loaded_shards(self) -> list[StateShard[M]]:
        return [task.result() for task in self._shards.values() if _is_usable(task)]

    async def shard(self, index: int) -> StateShard[M]:
        self._host.check_awake()
        self._host.partition(self.name, index)
        task = self._shards.get(index)
        # A shard whose log failed starts anew from what is in it; the disk may have space again.
        is_lost = task is not None and task.done() and not _is_usable(task)
        if task is None or (is_lost and not self._is_closed):
            task = self._begin(index)
        if not task.done():
            # Whoever goes away meanwhile does not stop the loading for all others.
            await asyncio.wait((task,), timeout=LOAD_PATIENCE_S)
        if not task.done():
            raise StateLoading(f"{self.name}-{index} is being loaded; try again soon")
        if task.cancelled():
            raise NotLeader(f"{self.name}-{index} is not led by this broker any more")
        return task.result()

    # --- leadership -----------------------------------------------------------------------

    def place(self, index: int) -> TopicPartition:
        return topic_partition(self.name, index)

    def led(self, place: TopicPartition) -> None:
        """This node leads the partition from now on: its timers and unfinished work go on here."""
        self.no_longer_led(place)
        if not self._is_closed:
            self._begin(place.partition)

    def no_longer_led(self, place: TopicPartition) -> None:
        """Whoever waits for an answer gets `NotLeader` at once; nothing of the state is kept."""
        index = place.partition
        task = self._shards.pop(index, None)
        if task is None:
            return
        task.cancel()
        if _is_usable(task):
            error = NotLeader(f"{self.name}-{index} is not led by this broker any more")
            task.result().close(error)

    def followed(self, hosted: HostedPartition) -> None:
        """Another node leads the partition: its state is kept at hand."""
        if self._is_closed:
            return
        index = hosted.name.partition

        def has_ended() -> None:
            if self._standbys.get(index) is standby:
                del self._standbys[index]

        standby = StateStandby(
            hosted, lambda: self._make(index), leisure=self._host.leisure, has_ended=has_ended
        )
        hosted.standby = self._standbys[index] = standby

    def _begin(self, index: int) -> "asyncio.Task[StateShard[M]]":
        task = self._shards[index] = asyncio.create_task(self._open(index))
        task.add_done_callback(_note_failure)
        return task

    async def _open(self, index: int) -> StateShard[M]:
        host = self._host
        partition = host.partition(self.name, index)
        partition.check_online()
        try:
            replay = await self._replay(index, partition)
        except CorruptBatch as error:
            raise partition.give_up(f"its state cannot be read: {error}") from error
        if self._replayed is not None:
            self._replayed(replay.machine, partition)
        shard = StateShard(
            replay,
            partition,
            clock_ms=host.clock_ms,
            threads=host.hosted.readers,
            perform=lambda effects: self._perform(index, effects),
            held_ms=self._held_ms,
        )
        try:
            await shard.begin()
        except BaseException:
            shard.close()
            raise
        if self._loaded is not None:
            self._loaded(shard)
        return shard

    async def _replay(self, index: int, partition: Partition) -> StateReplay[M]:
        """A machine in the state that the log tells to its end: the standby's, if there is one."""
        log, end, haste = partition.log, partition.log_end_offset, InHaste()
        standby = self._standbys.pop(index, None)
        if standby is not None:
            partition.hosted.standby = None
            replay = await standby.hand_over()
            if replay is not None:
                with suppress(Overtaken, OffsetOutOfRange):
                    await replay.follow(end, haste)
                    return replay
        while True:
            replay = StateReplay(self._make(index), log, self._host.hosted.readers)
            with suppress(Overtaken):
                await replay.begin(end, haste)
                return replay

    async def ensure(self) -> None:
        """Make the topic if there is none, with a partition for each of its owner's."""
        topics, name = self._host.topics, own_state(self.name)
        if self._owner is not None:
            owner = self._owner()
            if not self.exists or self.partition_count < len(owner.partitions):
                await topics.ensure_companion(name, owner, config=STATE_TOPIC_CONFIG)
            return
        if self._is_made:
            return
        await topics.ensure_internal(
            name, partitions=self._new_partitions, config=STATE_TOPIC_CONFIG
        )
        self._is_made = True

    def close(self) -> None:
        self._is_closed = True
        for shard in self.loaded_shards():
            shard.close()
        for task in self._shards.values():
            task.cancel()
        for standby in tuple(self._standbys.values()):
            standby.end()


def _is_usable(task: "asyncio.Task[StateShard[M]]") -> bool:
    if not task.done() or task.cancelled() or task.exception() is not None:
        return False
    return not task.result().is_closed


def _note_failure(task: "asyncio.Task[StateShard[M]]") -> None:
    """Nobody may be waiting for it: the next who asks tries again, and is told."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.debug("a shard could not be loaded: %s", error)
