"""From a split until all its readers can go by it: producers learn of it, parents' ends are stored.

Every broker does this for what it leads, from the moment it hears of the split; so a new leader, or
a broker that restarts, gives producers the whole time again, and no two clocks are compared.

A produce request does not tell how many partitions its sender knows. So each connection is refused
for a moment, once: its client then asks for the metadata, and repeats what was refused in the
parent, which takes everything all the time. What a client sent to a parent before it knew of the
split is there when the time is over, and below the parent's end.
"""

import asyncio
import logging
from collections.abc import Hashable, Iterable
from functools import partial
from typing import Final
from uuid import UUID
from weakref import WeakKeyDictionary

from goqueue.broker.partitions.leading import LedPartitions
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Op, Put
from goqueue.model.errors import GoQueueError, LayoutChanged, UnknownTopic
from goqueue.model.layouts import Split
from goqueue.model.topics import TopicView
from goqueue.state import metadata_keys as keys
from goqueue.state.layouts import with_ends
from goqueue.state.metadata_image import ImageChanges
from goqueue.storage.log import PartitionLog

logger = logging.getLogger(__name__)

# Before anyone is refused: by then all brokers should tell of the split (`SPREAD_S`). Where there
# is little time to learn, a tenth of it.
_FENCE_AFTER_S: Final = 1.0
# Requests that were on their way with the refused one must not overtake it; clients repeat after
# 100 ms, give or take a fifth.
_REFUSED_FOR_S: Final = 0.05
# What was refused comes again within this time.
_CALM_S: Final = 1.0
_COMMIT_MS: Final = 10_000
# Between looks at parents that others lead, or nobody.
_AGAIN_S: Final = 0.25
# How far back the last message is looked for behind what readers do not see: markers of
# transactions, and what compaction left of batches.
_LOOKS_BACK: Final = (64, 4_096, 262_144)


class _Fence:
    def __init__(self, from_s: float) -> None:
        self.from_s = from_s
        # When each connection was first refused, and when the last of them.
        self._refused_s: WeakKeyDictionary[Hashable, float] = WeakKeyDictionary()
        self.last_s = from_s

    def refuses(self, connection: Hashable, now_s: float) -> bool:
        if now_s < self.from_s:
            return False
        since_s = self._refused_s.get(connection)
        if since_s is None:
            since_s = self._refused_s[connection] = self.last_s = now_s
        return now_s < since_s + _REFUSED_FOR_S


class Draining:
    def __init__(self, changes: KeyChanges, follower: MetadataFollower, led: LedPartitions) -> None:
        self._changes = changes
        self._follower = follower
        self._led = led
        self._fences: dict[str, _Fence] = {}
        self._tasks: dict[tuple[UUID, int], asyncio.Task[None]] = {}

    def start(self) -> None:
        """With what was not over when the broker stopped."""
        self._take_up(self._follower.image.topics.values())

    def image_changed(self, changes: ImageChanges) -> None:
        self._take_up(changes.topics_split)
        for topic in changes.topics_deleted:
            self._fences.pop(topic.name, None)

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- producers ------------------------------------------------------------------------

    def check(self, topic: str, connection: Hashable) -> None:
        """Refuse a producer that may not know of a split."""
        if not self._fences:
            return
        fence = self._fences.get(topic)
        if fence is None:
            return
        if fence.refuses(connection, asyncio.get_running_loop().time()):
            raise LayoutChanged(
                f"topic {topic!r} was split; ask for its partitions, and send again"
            )

    # --- parents --------------------------------------------------------------------------

    def _take_up(self, topics: Iterable[TopicView]) -> None:
        for topic in topics:
            split = topic.splits[-1] if topic.splits else None
            if split is None or not split.is_draining:
                continue
            name = (topic.id, split.epoch)
            if name not in self._tasks:
                task = asyncio.create_task(self._drain(topic.id, topic.name, split))
                self._tasks[name] = task
                task.add_done_callback(partial(self._done, name))

    def _done(self, name: tuple[UUID, int], _: "asyncio.Task[None]") -> None:
        del self._tasks[name]

    async def _drain(self, topic_id: UUID, name: str, split: Split) -> None:
        loop, drain_s = asyncio.get_running_loop(), split.drain_ms / 1_000
        begun_s = loop.time()
        fence = _Fence(begun_s + min(_FENCE_AFTER_S, drain_s / 10))
        self._fences[name] = fence
        try:
            await asyncio.sleep(drain_s)
            # Who was told only now has still to repeat what was refused; but there is an end to it.
            calm_s = min(_CALM_S, drain_s / 4)
            while (now_s := loop.time()) < begun_s + 2 * drain_s:
                if now_s >= fence.last_s + calm_s:
                    break
                await asyncio.sleep(calm_s / 4)
            await self._store_ends(topic_id, name, split)
        finally:
            if self._fences.get(name) is fence:
                del self._fences[name]

    async def _store_ends(self, topic_id: UUID, name: str, split: Split) -> None:
        while (missing := self._missing(topic_id, split.epoch)) is not None:
            try:
                ends = await self._ends(name, missing)
                if ends:
                    await self._store(topic_id, name, split.epoch, ends)
                    continue
            except UnknownTopic:
                return
            except GoQueueError as error:
                logger.debug("the split of %s is not over yet, tried again: %s", name, error)
            except Exception:
                logger.exception("the split of %s is not over yet, tried again", name)
            await asyncio.sleep(_AGAIN_S)

    def _missing(self, topic_id: UUID, epoch: int) -> list[int] | None:
        """Parents whose ends nobody has told; None when there is nothing left to do."""
        topic = self._follower.image.topics_by_id.get(topic_id)
        for split in () if topic is None else topic.splits:
            if split.epoch == epoch and split.is_draining:
                return [index for index in range(split.parents) if index not in split.ends]
        return None

    async def _ends(self, topic: str, indexes: Iterable[int]) -> dict[int, int]:
        """Of those that are led here and committed; others will be asked for again."""
        ends: dict[int, int] = {}
        for index in indexes:
            try:
                ends[index] = await _end_of(self._led.find(topic, index))
            except GoQueueError as error:
                logger.debug("%s-%d has no end yet: %s", topic, index, error)
        return ends

    async def _store(self, topic_id: UUID, name: str, epoch: int, ends: dict[int, int]) -> None:
        def decide(found: bytes | None) -> list[Op]:
            key = keys.topic_key(name)
            value = None if found is None else keys.decode_value(key, found, keys.TopicValue)
            if value is None or value.id != topic_id:
                raise UnknownTopic(f"there is no topic with id {topic_id}")
            splits = with_ends(value.splits, epoch, ends)
            return [Put(*keys.topic_entry(name, keys.with_splits(value, splits)))]

        await self._changes.change(keys.topic_key(name), decide)


async def _end_of(partition: Partition) -> int:
    """Committed before it is told: else another leader might never come that far."""
    end = partition.log_end_offset
    await partition.wait_committed(end, _COMMIT_MS)
    return await asyncio.to_thread(end_of_messages, partition.log, end)


def end_of_messages(log: PartitionLog, end: int) -> int:
    """The offset behind the last message below `end`; 0 where there is none.

    Readers commit behind the last message that they saw: one that ends with a transaction's marker
    would else never be read to its end.
    """
    for back in _LOOKS_BACK:
        start = max(log.log_start_offset, end - back)
        last = 0
        for header in log.headers_from(start):
            if header.base_offset >= end:
                break
            if header.record_count and not header.is_control:
                last = header.next_offset
        if last or start == log.log_start_offset:
            return min(last, end)
    return end
