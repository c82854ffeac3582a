"""Which members of a share group read which partitions (KIP-932's `simple` assignor).

Several members may have the same partition. Every partition that somebody subscribes to has a
reader and every member has a partition; beyond that nothing is doubled. Members keep what they
have as far as that allows.
"""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import NamedTuple
from uuid import UUID

from goqueue.model.groups.assignment import Assignment, assignment


class _Place(NamedTuple):
    topic: UUID
    partition: int


class ShareMemberSpec(NamedTuple):
    subscribed: frozenset[UUID]
    target: Assignment


def simple(
    members: Mapping[str, ShareMemberSpec], partition_counts: Mapping[UUID, int]
) -> dict[str, Assignment]:
    spread = _Spread(members, partition_counts)
    spread.keep_old()
    spread.level_readers()
    spread.give_every_partition_a_reader()
    spread.level_members()
    spread.give_every_member_a_partition()
    return spread.result()


class _Spread:
    """An assignment under construction: who reads what, both ways."""

    def __init__(
        self, members: Mapping[str, ShareMemberSpec], partition_counts: Mapping[UUID, int]
    ) -> None:
        self._members = {name: members[name] for name in sorted(members)}
        self._counts = partition_counts
        subscribers: dict[UUID, int] = dict.fromkeys(partition_counts, 0)
        for spec in self._members.values():
            for topic in spec.subscribed:
                if topic in subscribers:
                    subscribers[topic] += 1
        self._subscribers = subscribers
        self._held: dict[str, set[_Place]] = {name: set() for name in self._members}
        self._readers: dict[_Place, set[str]] = {
            _Place(topic, number): set()
            for topic in sorted(partition_counts)
            if subscribers[topic]
            for number in range(partition_counts[topic])
        }

    def result(self) -> dict[str, Assignment]:
        found: dict[str, Assignment] = {}
        for name, places in self._held.items():
            found[name] = assignment((place.topic, (place.partition,)) for place in places)
        return found

    def _may_read(self, name: str, place: _Place) -> bool:
        return place.topic in self._members[name].subscribed

    def _give(self, name: str, place: _Place) -> None:
        self._held[name].add(place)
        self._readers[place].add(name)

    def _take(self, name: str, place: _Place) -> None:
        self._held[name].discard(place)
        self._readers[place].discard(name)

    def keep_old(self) -> None:
        """What members had, up to the even share of members and of partitions."""
        # How many partitions a member with these topics should have, and by how many members each
        # partition of a topic should be read. Members of equal subscriptions count once.
        shares: dict[frozenset[UUID], float] = {}
        wanted: dict[UUID, float] = dict.fromkeys(self._counts, 0.0)
        for spec in self._members.values():
            topics = [topic for topic in spec.subscribed if self._counts.get(topic)]
            if not topics:
                continue
            if spec.subscribed not in shares:
                even = sum(self._counts[topic] / self._subscribers[topic] for topic in topics)
                shares[spec.subscribed] = max(1.0, even)
            available = sum(self._counts[topic] for topic in topics)
            for topic in topics:
                wanted[topic] += shares[spec.subscribed] / available
        for name, spec in self._members.items():
            most = _whole(shares.get(spec.subscribed, 0.0))
            for topic in sorted(spec.target):
                for number in sorted(spec.target[topic]):
                    place = _Place(topic, number)
                    if (
                        len(self._held[name]) < most
                        and place in self._readers
                        and topic in spec.subscribed
                        and len(self._readers[place]) < _whole(wanted[topic])
                    ):
                        self._give(name, place)

    def level_readers(self) -> None:
        """Move readers from partitions with many to those with fewer, until no move helps."""
        # Each move lowers the sum of squares, so this ends.
        moved = True
        while moved:
            moved = False
            for place in sorted(self._readers, key=lambda p: (-len(self._readers[p]), p)):
                for name in sorted(self._readers[place]):
                    emptiest = self._least_read(p for p in self._open_to(name))
                    if (
                        emptiest is not None
                        and len(self._readers[place]) - len(self._readers[emptiest]) > 1
                    ):
                        self._take(name, place)
                        self._give(name, emptiest)
                        moved = True

    def give_every_partition_a_reader(self) -> None:
        # Partitions with few who may read them go first.
        for place in sorted(self._readers, key=lambda p: (self._subscribers[p.topic], p)):
            if not self._readers[place]:
                names = (name for name in self._held if self._may_read(name, place))
                self._give(min(names, key=lambda name: (len(self._held[name]), name)), place)

    def level_members(self) -> None:
        """Move partitions from members with many to those with fewer, until no move helps."""
        moved = True
        while moved:
            moved = False
            for name in sorted(self._held, key=lambda n: (-len(self._held[n]), n)):
                fewest = min(map(len, self._held.values()))
                if len(self._held[name]) - fewest <= 1:
                    # Nobody has so few that a move would help.
                    continue
                for place in sorted(self._held[name]):
                    others = [
                        other
                        for other in self._held
                        if place not in self._held[other] and self._may_read(other, place)
                    ]
                    if not others:
                        continue
                    emptiest = min(others, key=lambda n: (len(self._held[n]), n))
                    if len(self._held[name]) - len(self._held[emptiest]) > 1:
                        self._take(name, place)
                        self._give(emptiest, place)
                        moved = True

    def give_every_member_a_partition(self) -> None:
        for name, places in self._held.items():
            if not places:
                place = self._least_read(self._open_to(name))
                if place is not None:
                    self._give(name, place)

    def _open_to(self, name: str) -> Iterable[_Place]:
        return (
            place
            for place in self._readers
            if self._may_read(name, place) and place not in self._held[name]
        )

    def _least_read(self, places: Iterable[_Place]) -> _Place | None:
        return min(places, key=lambda p: (len(self._readers[p]), p), default=None)


def _whole(share: float) -> int:
    # Sums of fractions such as 3 × 1/3 may end a little above the whole number that they are.
    return ceil(share - 1e-9)
