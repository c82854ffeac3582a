"""Copies that catch up are held to a rate, so that clients have the rest of the network (KIP-73).

The rates are settings of brokers that can be changed at run time; which replicas they are for is a
setting of topics, except for replicas that are added by a move: these have a rate of their own, and
can be paused. Where a topic names them and Kafka's rate is set, as `kafka-reassign-partitions.sh
--throttle` does, that one holds instead. Replicas that are in sync are never held back: producers
wait for them.

Kafka's copies never arrive where more is written than their rate allows, and somebody has to watch
them. A rate that holds by default must not do that. So a leader sends what is written meanwhile on
top of the rate: a copy comes nearer by the rate, however much that is. A broker that copies does
not know how much is written. It holds itself back until it is where its leader was when the copy
began, which does not move away.
"""

from collections.abc import Callable
from time import monotonic
from typing import Final
from weakref import WeakKeyDictionary

from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.stored import StoredPartition
from goqueue.model.names import NodeId
from goqueue.model.replication import Member
from goqueue.model.replication_config import (
    FOLLOWER_RATE,
    LEADER_RATE,
    MOVE_RATE,
    UNLIMITED,
)
from goqueue.state.membership.move_settings import are_moves_paused, rate_of
from goqueue.state.metadata_image import MetadataImage

_ALL: Final = "*"
# What was not used of the rate is kept for so long.
WINDOW_S: Final = 1.0


class Throttle:
    """A rate in bytes per second; one answer may go beyond it, and then it is paid back."""

    def __init__(self, rate: Callable[[], int], clock_s: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._clock_s = clock_s
        self._since_s = clock_s()
        self._left_bytes = 0.0

    @property
    def is_exceeded(self) -> bool:
        if not self.is_limited:
            # What goes by without a limit is not owed should there be one later.
            self._left_bytes = 0.0
            return False
        self._earn()
        return self._left_bytes <= 0

    @property
    def is_limited(self) -> bool:
        return self._rate() < UNLIMITED

    def note(self, size_bytes: int) -> None:
        self._left_bytes -= size_bytes

    def allow(self, size_bytes: float) -> None:
        """So much on top of the rate; it does not pile up if it is not used."""
        self._earn()
        self._add(size_bytes, at_most=self._rate() * WINDOW_S + size_bytes)

    def _earn(self) -> None:
        now_s = self._clock_s()
        earned = self._rate() * (now_s - self._since_s)
        self._since_s = now_s
        self._add(earned, at_most=self._rate() * WINDOW_S)

    def _add(self, size_bytes: float, *, at_most: float) -> None:
        self._left_bytes = max(self._left_bytes, min(self._left_bytes + size_bytes, at_most))


class Growth:
    """What was written to partitions between two requests of a follower that is added."""

    def __init__(self, clock_s: Callable[[], float] = monotonic) -> None:
        self._clock_s = clock_s
        # By follower: what was written, and when it asked.
        self._seen: WeakKeyDictionary[StoredPartition, dict[Member, tuple[int, float]]] = (
            WeakKeyDictionary()
        )

    def since_last(self, partition: StoredPartition, follower: Member) -> float:
        """Bytes. What was written while it did not ask at all, during a pause for one, is no
        different from what was there before: of that, as much as the window's share."""
        seen = self._seen.setdefault(partition, {})
        if follower not in seen:
            # One at a time is added, or a few; those before may have restarted.
            for other in [member for member in seen if member.node == follower.node]:
                del seen[other]
        now_s, written = self._clock_s(), partition.counts.bytes_in
        before, asked_s = seen.get(follower, (written, now_s))
        seen[follower] = (written, now_s)
        return (written - before) * WINDOW_S / max(WINDOW_S, now_s - asked_s)


class Throttles:
    def __init__(self, node_id: NodeId, image: Callable[[], MetadataImage]) -> None:
        self._node_id = node_id
        self._image = image
        self.sent = Throttle(lambda: self._rate(LEADER_RATE))
        self.copied = Throttle(lambda: self._rate(FOLLOWER_RATE))
        self.moved_out = Throttle(lambda: self._rate(MOVE_RATE))
        self.moved_in = Throttle(lambda: self._rate(MOVE_RATE))
        self._growth = Growth()
        # Copied here for moves since the start.
        self.moved_in_bytes = 0

    def _rate(self, name: str) -> int:
        return rate_of(self._image(), self._node_id, name)

    @property
    def are_moves_paused(self) -> bool:
        return are_moves_paused(self._image(), self._node_id)

    def concerns_leader(self, partition: StoredPartition) -> bool:
        return self._names(partition.config.leader_replication_throttled_replicas, partition)

    def concerns_follower(self, partition: StoredPartition) -> bool:
        return self._names(partition.config.follower_replication_throttled_replicas, partition)

    def _names(self, replicas: tuple[str, ...], partition: StoredPartition) -> bool:
        if not replicas:
            return False
        return _ALL in replicas or f"{partition.name.partition}:{self._node_id}" in replicas

    def holds_back(self, partition: HostedPartition) -> bool:
        """Whether a follower here should not ask for more just now. One that has all that is
        committed may be proposed for the in-sync set before this broker hears of it, and from then
        on producers wait for it."""
        if not partition.lag or not self.concerns_follower(partition):
            return False
        if not self.copied.is_exceeded:
            return False
        topic = self._image().topics.get(partition.name.topic)
        if topic is None:
            return False
        return self._node_id not in topic.partitions[partition.name.partition].isr

    def of_leader(
        self, partition: StoredPartition, follower: Member, *, is_added: bool
    ) -> Throttle | None:
        """What a follower that is not in sync is held to when it asks; None: it gets what it wants.
        `is_added`: by a move, and it lacks something that is committed."""
        if self.concerns_leader(partition) and self.sent.is_limited:
            return self.sent
        if not is_added:
            return None
        self.moved_out.allow(self._growth.since_last(partition, follower))
        return self.moved_out

    def holds_back_move(self, partition: StoredPartition, *, is_behind: bool) -> bool:
        """The same of a replica that is added. `is_behind`: it is not yet where its leader was when
        it began."""
        if self.are_moves_paused:
            return True
        return self._is_held_to_own_rate(partition, is_behind) and self.moved_in.is_exceeded

    def was_moved(self, partition: StoredPartition, size_bytes: int, *, is_behind: bool) -> None:
        self.moved_in_bytes += size_bytes
        if self._is_held_to_own_rate(partition, is_behind):
            self.moved_in.note(size_bytes)

    def _is_held_to_own_rate(self, partition: StoredPartition, is_behind: bool) -> bool:
        has_kafkas_rate = self.concerns_follower(partition) and self.copied.is_limited
        return is_behind and not has_kafkas_rate

    def was_copied(self, partition: StoredPartition, size_bytes: int) -> None:
        if size_bytes and self.concerns_follower(partition):
            self.copied.note(size_bytes)
