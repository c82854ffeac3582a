"""What earlier releases kept in one topic for all others is carried over to companions, once.

They spread the state of all queues over the partitions of `__queue_state`, and all delayed messages
over those of `__delayed`: shards, chosen by a hash. Each shard is carried over by itself: what
belongs to a topic is written into its companion, unless it is there already, committed and flushed.
Then the shard's log is emptied, and that is the step that counts. A crash before it repeats the
whole shard. Until then nobody is served what the shard has, neither from there nor from a
companion, so that a repetition finds only what the try before it wrote. When all shards are empty
their topic is deleted.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from goqueue.broker.own_grants import own_state
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.commits import until_committed
from goqueue.broker.runtime.topic import LOAD_PATIENCE_S, ShardHost
from goqueue.model.errors import CorruptBatch, GoQueueError, NotLeader, StateLoading
from goqueue.model.names import TopicPartition, topic_partition

logger = logging.getLogger(__name__)

# Between two tries, such as while the disk is full.
RETRY_MS: Final = 1_000


class Carried(NamedTuple):
    """How much of what was in a shard, and the partitions of companions that have it now."""

    counts: Counter[str]
    places: Sequence[TopicPartition]


# Writes what a shard has into companions; it is safe on return.
Carry = Callable[[Partition], Awaitable[Carried]]


class _Move(NamedTuple):
    task: "asyncio.Task[None]"
    # Set when it succeeded or failed for the first time.
    tried: asyncio.Event


class CarryOver:
    def __init__(
        self, host: ShardHost, name: str, carry: Carry, changed: Callable[[TopicPartition], None]
    ) -> None:
        """`name` is the topic of earlier releases, and the kind of the companions. `changed` hears
        of each partition of a companion that may be loaded now."""
        self._host = host
        self._name = name
        self._carry = carry
        self._changed = changed
        self._moves: dict[int, _Move] = {}
        # A shard may be large: one after the other.
        self._turn = asyncio.Lock()
        self._counts: Counter[str] = Counter()
        self._is_announced = False
        self._is_closed = False

    @property
    def is_over(self) -> bool:
        return self._name not in self._host.image.topics

    async def settled(self, key: bytes) -> None:
        """Return once what was kept under this key is where it belongs; `StateLoading` if that
        takes longer than a request should wait."""
        topic = self._host.image.topics.get(self._name)
        if topic is not None:
            await self._shard_settled(crc32c(key) % len(topic.partitions))

    async def _shard_settled(self, index: int) -> None:
        if self._host.hosted.get(self._name, index) is None:
            self._host.hosted.check_opened(self._name, index)
            return  # another broker has it, and leads what it belongs to
        move = self._moves.get(index)
        if move is not None:
            await asyncio.wait((move.task,), timeout=LOAD_PATIENCE_S)
        if not self.is_over:
            partition = self._host.partition(self._name, index)
            partition.check_online()
            if not _is_empty(partition):
                raise StateLoading(f"{partition.name} is being carried over; try again soon")

    async def all_settled(self) -> None:
        """As `settled`, of everything that is here."""
        topic = self._host.image.topics.get(self._name)
        if topic is not None:
            for part in topic.partitions:
                await self._shard_settled(part.index)

    def is_awaited(self, key: bytes) -> bool:
        """Whether something that was kept under this key may still have to be carried over here."""
        topic = self._host.image.topics.get(self._name)
        if topic is None:
            return False
        index = crc32c(key) % len(topic.partitions)
        hosted = self._host.hosted.get(self._name, index)
        return hosted is not None and not _is_empty(hosted)

    # --- lifetime -------------------------------------------------------------------------

    async def start(self) -> None:
        """Of a node of one: return when everything is carried over, as far as that is possible."""
        topic = self._host.image.topics.get(self._name)
        if topic is not None:
            for part in topic.partitions:
                self.led(topic_partition(self._name, part.index))
            for move in tuple(self._moves.values()):
                await move.tried.wait()

    def led(self, place: TopicPartition) -> None:
        """This node leads a shard of an earlier release."""
        self.no_longer_led(place)
        if not self._is_closed:
            tried = asyncio.Event()
            task = asyncio.create_task(self._move(place, tried))
            self._moves[place.partition] = _Move(task, tried)

    def no_longer_led(self, place: TopicPartition) -> None:
        move = self._moves.pop(place.partition, None)
        if move is not None:
            move.task.cancel()

    async def close(self) -> None:
        self._is_closed = True
        tasks = [move.task for move in self._moves.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- one shard ------------------------------------------------------------------------

    async def _move(self, place: TopicPartition, tried: asyncio.Event) -> None:
        problem = ""
        while not self.is_over:
            try:
                async with self._turn:
                    # It may have ended with the shard before.
                    if not self.is_over:
                        await self._empty(place)
                        await self._end_if_empty()
                    return
            except NotLeader as error:
                logger.info("%s is not carried over here: %s", place, error)
                return
            except Exception as error:
                # It may pass, as a full disk does; what is not in this shard is served meanwhile.
                if str(error) != problem:
                    problem = str(error)
                    unforeseen = None if isinstance(error, GoQueueError) else error
                    logger.error("%s is carried over later: %s", place, error, exc_info=unforeseen)
            finally:
                tried.set()
            await asyncio.sleep(RETRY_MS / 1000)

    async def _empty(self, place: TopicPartition) -> None:
        partition = self._host.partition(*place)
        partition.check_online()
        if _is_empty(partition):
            return
        self._announce()
        await until_committed(partition, partition.log_end_offset)
        try:
            carried = await self._carry(partition)
        except CorruptBatch as error:
            raise partition.give_up(f"its state cannot be read: {error}") from error
        await on_disk(partition)
        await partition.delete_records(-1)
        self._counts += carried.counts
        for each in carried.places:
            self._changed(each)

    def _announce(self) -> None:
        if self._is_announced:
            return
        self._is_announced = True
        shards = [each for each in self._host.hosted if each.name.topic == self._name]
        logger.info(
            "carrying over %s of an earlier release, %d shards with %d MB: what is in it goes to a "
            "topic beside the one that it belongs to",
            self._name,
            len(shards),
            sum(each.log.size_bytes for each in shards) // 1_000_000,
        )

    async def _end_if_empty(self) -> None:
        topic = self._host.image.topics.get(self._name)
        if topic is None:
            return
        for part in topic.partitions:
            hosted = self._host.hosted.get(self._name, part.index)
            if hosted is None or not _is_empty(hosted):
                return
        await self._host.topics.forget_internal(own_state(self._name))
        carried = ", ".join(f"{count} {what}" for what, count in self._counts.items())
        logger.info("%s is carried over: %s", self._name, carried or "nothing was left in it")


async def on_disk(partition: Partition) -> None:
    """Return once everything in it is committed and survives a power cut."""
    end = partition.log_end_offset
    await until_committed(partition, end)
    await partition.hosted.flushed_to(end)
    partition.check_online()


def _is_empty(partition: Partition | HostedPartition) -> bool:
    return partition.log_start_offset == partition.log_end_offset
