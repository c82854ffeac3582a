"""Committed offsets, and those waiting for their transaction to end. Changes by replay only."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from goqueue.state.groups.records import (
    CommittedOffset,
    OffsetKey,
    PendingOffset,
    PendingOffsetKey,
    decode_offset,
    decode_pending_offset,
    tombstone,
)
from goqueue.state.machine import StateRecord


class GroupPartition(NamedTuple):
    group: str
    topic: str
    partition: int


class OffsetTable:
    def __init__(self) -> None:
        self.by_group: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self.pending: dict[int, dict[GroupPartition, PendingOffset]] = {}
        # Producers with an open transaction per partition, per group and partition.
        self._producers: dict[str, dict[GroupPartition, set[int]]] = {}
        # The highest sequence seen; the next commit takes the next one.
        self.sequence = 0

    # --- replay ---------------------------------------------------------------------------

    def replay_committed(self, key: OffsetKey, value: bytes | None) -> None:
        if value is None:
            self._remove(key)
            return
        committed = decode_offset(value)
        if committed.sequence > self.sequence:
            self.sequence = committed.sequence
        try:
            self.by_group[key.group][key.topic][key.partition] = committed
        except KeyError:
            topics = self.by_group.setdefault(key.group, {})
            topics.setdefault(key.topic, {})[key.partition] = committed

    def replay_pending(self, key: PendingOffsetKey, value: bytes | None) -> None:
        where = GroupPartition(key.group, key.topic, key.partition)
        if value is None:
            self._remove_pending(key.producer_id, where)
            return
        pending = decode_pending_offset(value)
        self.sequence = max(self.sequence, pending.committed.sequence)
        self.pending.setdefault(key.producer_id, {})[where] = pending
        producers = self._producers.setdefault(key.group, {})
        producers.setdefault(where, set()).add(key.producer_id)

    def _remove(self, key: OffsetKey) -> None:
        topics = self.by_group.get(key.group, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self.by_group.pop(key.group, None)

    def _remove_pending(self, producer_id: int, where: GroupPartition) -> None:
        offsets = self.pending.get(producer_id, {})
        offsets.pop(where, None)
        if not offsets:
            self.pending.pop(producer_id, None)
        by_partition = self._producers.get(where.group, {})
        producers = by_partition.get(where, set())
        producers.discard(producer_id)
        if not producers:
            by_partition.pop(where, None)
        if not by_partition:
            self._producers.pop(where.group, None)

    # --- questions ------------------------------------------------------------------------

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self.by_group.get(group, {}).get(topic, {}).get(partition)

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        where = GroupPartition(group, topic, partition)
        return where in self._producers.get(group, {})

    def has_pending(self, group: str) -> bool:
        return group in self._producers

    def has_group(self, group: str) -> bool:
        return group in self.by_group or group in self._producers

    @property
    def group_names(self) -> set[str]:
        """Those with offsets, committed or not yet."""
        return self.by_group.keys() | self._producers.keys()

    # --- records --------------------------------------------------------------------------

    def tombstones(self, group: str, topic: str, partition: int) -> Iterator[StateRecord]:
        """Delete an offset, and what open transactions would put in its place."""
        if self.get(group, topic, partition) is not None:
            yield tombstone(OffsetKey(group, topic, partition))
        where = GroupPartition(group, topic, partition)
        for producer_id in sorted(self._producers.get(group, {}).get(where, ())):
            yield tombstone(PendingOffsetKey(producer_id, *where))

    def group_tombstones(self, group: str) -> Iterator[StateRecord]:
        for where in self._all_of(group):
            yield from self.tombstones(*where)

    def topic_tombstones(self, topics: Iterable[str]) -> Iterator[StateRecord]:
        gone = frozenset(topics)
        for group in sorted(self.group_names):
            for where in self._all_of(group):
                if where.topic in gone:
                    yield from self.tombstones(*where)

    def _all_of(self, group: str) -> list[GroupPartition]:
        found = set(self._producers.get(group, {}))
        for topic, partitions in self.by_group.get(group, {}).items():
            found.update(GroupPartition(group, topic, partition) for partition in partitions)
        return sorted(found)
