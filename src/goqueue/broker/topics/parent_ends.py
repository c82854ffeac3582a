"""Where the parents of a split end for their readers: told by their leaders, and lowered later.

A reader is through with a parent when it has committed the parent's end. Clients commit no further
than behind the last message that they saw. So the end is that behind the last message which readers
can still see: a transaction that is aborted after the split, retention, deletion, compaction and a
power cut take messages away, and who waits for those would wait for ever. A leader looks at it
again from time to time. Lower ends shut nobody out: who was through stays so.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from goqueue.broker.background import ended
from goqueue.broker.partitions.leading import LedPartitions
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Op, Put
from goqueue.model.aborted import NOTHING_ABORTED, AbortedBatches
from goqueue.model.errors import GoQueueError, UnknownTopic
from goqueue.model.topics import TopicView
from goqueue.state import metadata_keys as keys
from goqueue.state.layouts import Splits, with_ends, with_lower_ends
from goqueue.storage.log import PartitionLog

logger = logging.getLogger(__name__)

_COMMIT_MS: Final = 10_000
# How long readers wait, at most, for what was taken away meanwhile.
_LOOK_S: Final = 10.0
# How far back the last message is looked for behind what readers do not see: markers of
# transactions, what was aborted, and what compaction left of batches.
_LOOKS_BACK: Final = (64, 4_096, 262_144)

_Change = Callable[[Splits, int, Mapping[int, int]], Splits]


class _Parent(NamedTuple):
    """Of one split, under one leader."""

    topic_id: UUID
    epoch: int
    partition: int
    leader_epoch: int


class ParentEnds:
    def __init__(self, changes: KeyChanges, follower: MetadataFollower, led: LedPartitions) -> None:
        self._changes = changes
        self._follower = follower
        self._led = led
        # Of which only the start of the log can lower the end: nothing is open below it.
        self._decided: set[_Parent] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._look_forever())

    async def close(self) -> None:
        await ended(self._task)

    # --- when the time is over ------------------------------------------------------------

    async def tell(self, topic_id: UUID, name: str, epoch: int, indexes: Iterable[int]) -> bool:
        """Of those that are led here and committed; others will be asked for again."""
        ends: dict[int, int] = {}
        for index in indexes:
            try:
                ends[index] = await _end_of(self._led.find(name, index))
            except GoQueueError as error:
                logger.debug("%s-%d has no end yet: %s", name, index, error)
        if ends:
            await self._store(topic_id, name, epoch, ends, with_ends)
        return bool(ends)

    async def _store(
        self, topic_id: UUID, name: str, epoch: int, ends: Mapping[int, int], change: _Change
    ) -> None:
        def decide(found: bytes | None) -> list[Op]:
            key = keys.topic_key(name)
            value = None if found is None else keys.decode_value(key, found, keys.TopicValue)
            if value is None or value.id != topic_id:
                raise UnknownTopic(f"there is no topic with id {topic_id}")
            splits = change(value.splits, epoch, ends)
            return [Put(*keys.topic_entry(name, keys.with_splits(value, splits)))]

        await self._changes.change(keys.topic_key(name), decide)

    # --- later ----------------------------------------------------------------------------

    async def _look_forever(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await self.look_again()
            except Exception:
                logger.exception("parents of split topics could not be looked at, tried again")

    async def look_again(self) -> None:
        """At all parents that are led here."""
        topics = [topic for topic in self._follower.image.topics.values() if topic.splits]
        known = {topic.id for topic in topics}
        self._decided = {parent for parent in self._decided if parent.topic_id in known}
        for topic in topics:
            try:
                await self._look_at(topic)
            except GoQueueError as error:
                logger.debug("parents of %s are looked at again later: %s", topic.name, error)

    async def _look_at(self, topic: TopicView) -> None:
        for split in topic.splits:
            lower: dict[int, int] = {}
            for index, end in split.ends.items():
                try:
                    partition = self._led.find(topic.name, index)
                except GoQueueError:
                    # Its leader looks at it.
                    continue
                parent = _Parent(topic.id, split.epoch, index, partition.leader_epoch)
                now = await self._end_now(parent, partition, end) if end else 0
                if now < end:
                    lower[index] = now
            if lower:
                await self._store(topic.id, topic.name, split.epoch, lower, with_lower_ends)

    async def _end_now(self, parent: _Parent, partition: Partition, end: int) -> int:
        if partition.log_start_offset >= end:
            return 0
        # A power cut or an unclean election may have taken the log's end away, or a backup did not
        # have it: what comes there now was sent after the split.
        end = min(end, partition.log_end_offset)
        if parent in self._decided or partition.last_stable_offset < end:
            return end
        found = await _seen_end(partition, end)
        # Compaction may go on taking messages away.
        if "compact" not in partition.config.cleanup_policy:
            self._decided.add(parent)
        return found


async def _end_of(partition: Partition) -> int:
    """Committed before it is told: else another leader might never come that far."""
    end = partition.log_end_offset
    await partition.wait_committed(end, _COMMIT_MS)
    return await _seen_end(partition, end)


async def _seen_end(partition: Partition, end: int) -> int:
    start = max(partition.log_start_offset, end - _LOOKS_BACK[-1])
    aborted = AbortedBatches(partition.aborted_between(start, end))
    return await asyncio.to_thread(end_of_messages, partition.log, end, aborted)


def end_of_messages(log: PartitionLog, end: int, aborted: AbortedBatches = NOTHING_ABORTED) -> int:
    """The offset behind the last message below `end`; 0 where there is none."""
    for back in _LOOKS_BACK:
        start = max(log.log_start_offset, end - back)
        last = 0
        for header in log.headers_from(start):
            if header.base_offset >= end:
                break
            if header.record_count and not header.is_control and not aborted.has(header):
                last = header.next_offset
        if last or start == log.log_start_offset:
            return min(last, end)
    return end
