"""Which rooms hear that this node leads a partition now, or leads it no longer.

What a leader keeps in memory ends with its leadership. Partitions of the broker's own topics are
shards of some state, which the next leader knows from its log; it stood by, and has replayed it
already. Partitions of other topics may be read as queues. A node of one hears nothing of this: it
leads everything from start to end.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.model.companions import kind_and_owner
from goqueue.model.names import TopicPartition


class ShardRoom(Protocol):
    """Keeps state in the partitions of an internal topic."""

    def led(self, place: TopicPartition) -> None: ...
    def no_longer_led(self, place: TopicPartition) -> None: ...
    def followed(self, hosted: HostedPartition) -> None: ...


class DataRoom(Protocol):
    """Remembers something of partitions of any topic, which only their leader may."""

    def partition_led(self, place: TopicPartition) -> None: ...
    def partition_lost(self, place: TopicPartition) -> None: ...


class Leadership:
    def __init__(self, shards: Mapping[str, ShardRoom], data: Sequence[DataRoom]) -> None:
        """`shards` by the name of the topic, or of the kind of companions."""
        self._shards = shards
        self._data = data
        # Under which epoch each is led. Of those whose topic is deleted nobody says that they are
        # led no longer.
        self._led: WeakKeyDictionary[HostedPartition, int] = WeakKeyDictionary()

    def role_changed(self, hosted: HostedPartition) -> None:
        before = self._led.get(hosted)
        if hosted.led is None:
            if self._led.pop(hosted, None) is not None:
                self.lost(hosted.name)
            if hosted.following is not None and hosted.standby is None:
                self._stand_by(hosted)
        elif before != hosted.led.leader_epoch:
            self._led[hosted] = hosted.led.leader_epoch
            self.gained(hosted.name, again=before is not None)

    def gained(self, place: TopicPartition, *, again: bool = False) -> None:
        """After the partition leads. `again`: it led before, and others may have in between."""
        shards = self._room(place.topic)
        if shards is not None:
            shards.led(place)
            return
        for room in self._data:
            if again:
                room.partition_lost(place)
            room.partition_led(place)

    def lost(self, place: TopicPartition) -> None:
        """After the partition takes no more writes."""
        shards = self._room(place.topic)
        if shards is not None:
            shards.no_longer_led(place)
            return
        for room in self._data:
            room.partition_lost(place)

    def _stand_by(self, hosted: HostedPartition) -> None:
        """Kept for as long as others lead, whoever that is."""
        shards = self._room(hosted.name.topic)
        if shards is not None:
            shards.followed(hosted)

    def _room(self, topic: str) -> ShardRoom | None:
        companion = kind_and_owner(topic)
        return self._shards.get(topic if companion is None else companion[0])
