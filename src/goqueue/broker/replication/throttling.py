"""Copies that catch up are held to a rate, so that clients have the rest of the network (KIP-73).

The rates are settings of brokers that can be changed at run time; which replicas they are for is a
setting of topics, except for replicas that are added by a move: these have a rate of their own, and
can be paused. Replicas that are in sync are never held back: producers wait for them.
"""

from collections.abc import Callable
from time import monotonic
from typing import Final

from goqueue.broker.partitions.stored import StoredPartition
from goqueue.model.names import NodeId
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
        rate = self._rate()
        if rate >= UNLIMITED:
            return False
        now_s = self._clock_s()
        earned = rate * (now_s - self._since_s)
        self._since_s = now_s
        self._left_bytes = min(rate * WINDOW_S, self._left_bytes + earned)
        return self._left_bytes <= 0

    def note(self, size_bytes: int) -> None:
        self._left_bytes -= size_bytes


class Throttles:
    def __init__(self, node_id: NodeId, image: Callable[[], MetadataImage]) -> None:
        self._node_id = node_id
        self._image = image
        self.sent = Throttle(lambda: self._rate(LEADER_RATE))
        self.copied = Throttle(lambda: self._rate(FOLLOWER_RATE))
        self.moved_out = Throttle(lambda: self._rate(MOVE_RATE))
        self.moved_in = Throttle(lambda: self._rate(MOVE_RATE))

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

    def holds_back(self, partition: StoredPartition) -> bool:
        """Whether a follower here should not ask for more just now."""
        if not self.concerns_follower(partition) or not self.copied.is_exceeded:
            return False
        topic = self._image().topics.get(partition.name.topic)
        if topic is None:
            return False
        return self._node_id not in topic.partitions[partition.name.partition].isr

    def holds_back_move(self) -> bool:
        """The same of a replica that is added, and has not caught up yet."""
        return self.are_moves_paused or self.moved_in.is_exceeded

    def was_copied(self, partition: StoredPartition, size_bytes: int) -> None:
        if size_bytes and self.concerns_follower(partition):
            self.copied.note(size_bytes)
