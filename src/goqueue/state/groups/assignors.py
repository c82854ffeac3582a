"""Server-side assignors: who should read which partitions.

`uniform` spreads partitions evenly and moves as few as it can. `range` gives each member a run of
neighbouring partitions, the same run in topics of equal size, for joins between topics.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from goqueue.model.groups.assignment import Assignment, assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    instance_id: str | None
    subscribed: frozenset[UUID]
    # What the member was meant to have before.
    target: Assignment


# By topic, in their order: all partitions of it that may be read.
Partitions = Mapping[UUID, Sequence[int]]

# Members by id, partitions of all subscribed topics; the result names every member.
Assignor = Callable[[Mapping[str, MemberSpec], Partitions], dict[str, Assignment]]


def uniform(members: Mapping[str, MemberSpec], partitions: Partitions) -> dict[str, Assignment]:
    """Counts differ by at most one among members of equal subscriptions; otherwise no single move
    could even out any two members."""
    spread = _Spread(members, partitions)
    if len({spec.subscribed for spec in members.values()}) <= 1:
        spread.release_above_quota()
        spread.hand_out()
    else:
        spread.hand_out()
        spread.level()
    return spread.result()


class _Spread:
    """An assignment under construction, starting from what members had and may keep."""

    def __init__(self, members: Mapping[str, MemberSpec], partitions: Partitions) -> None:
        self._members = members
        self._topics = sorted(partitions)
        self._subscribers: dict[UUID, list[str]] = {
            topic: sorted(m for m, spec in members.items() if topic in spec.subscribed)
            for topic in self._topics
        }
        self._held: dict[str, dict[UUID, set[int]]] = {m: {} for m in sorted(members)}
        self._load: dict[str, int] = dict.fromkeys(self._held, 0)
        self._free: dict[UUID, set[int]] = {
            topic: set(numbers) for topic, numbers in partitions.items() if self._subscribers[topic]
        }
        for member_id in self._held:
            spec = members[member_id]
            for topic, numbers in spec.target.items():
                if topic in spec.subscribed and topic in self._free:
                    self._take(member_id, topic, numbers & self._free[topic])

    def result(self) -> dict[str, Assignment]:
        return {member_id: assignment(held.items()) for member_id, held in self._held.items()}

    def _take(self, member_id: str, topic: UUID, numbers: frozenset[int] | set[int]) -> None:
        if numbers:
            self._held[member_id].setdefault(topic, set()).update(numbers)
            self._load[member_id] += len(numbers)
            self._free[topic] -= numbers

    def _give_back(self, member_id: str, topic: UUID, number: int) -> None:
        self._held[member_id][topic].remove(number)
        self._load[member_id] -= 1
        self._free[topic].add(number)

    def release_above_quota(self) -> None:
        """Everybody keeps the even share; those who had more share out the remainder."""
        if not self._held:
            return
        total = sum(map(len, self._free.values())) + sum(self._load.values())
        share, extra = divmod(total, len(self._held))
        for member_id in sorted(self._held, key=lambda m: (-self._load[m], m)):
            quota = share
            if extra and self._load[member_id] > share:
                quota += 1
                extra -= 1
            for topic in sorted(self._held[member_id], reverse=True):
                for number in sorted(self._held[member_id][topic], reverse=True):
                    if self._load[member_id] <= quota:
                        break
                    self._give_back(member_id, topic, number)

    def hand_out(self) -> None:
        """Give free partitions to the least loaded; topics with few subscribers go first."""
        for topic in sorted(self._free, key=lambda t: (len(self._subscribers[t]), t)):
            if not self._free[topic]:
                continue
            waiting = [(self._load[m], m) for m in self._subscribers[topic]]
            heapq.heapify(waiting)
            for number in sorted(self._free[topic]):
                load, member_id = heapq.heappop(waiting)
                self._take(member_id, topic, {number})
                heapq.heappush(waiting, (load + 1, member_id))

    def level(self) -> None:
        """Move single partitions from fuller to emptier members until no move helps.

        Each move lowers the sum of squares of the loads, so this ends.
        """
        moved = True
        while moved:
            moved = False
            for topic in self._topics:
                while self._level_once(topic):
                    moved = True

    def _level_once(self, topic: UUID) -> bool:
        subscribers = self._subscribers[topic]
        holders = [m for m in subscribers if self._held[m].get(topic)]
        if not holders:
            return False
        fullest = max(holders, key=lambda m: (self._load[m], m))
        emptiest = min(subscribers, key=lambda m: (self._load[m], m))
        if self._load[fullest] - self._load[emptiest] < 2:
            return False
        number = max(self._held[fullest][topic])
        self._give_back(fullest, topic, number)
        self._take(emptiest, topic, {number})
        return True


def range_(members: Mapping[str, MemberSpec], partitions: Partitions) -> dict[str, Assignment]:
    # Static members keep their place in the order, and so their range, when they come back.
    order = sorted(members, key=lambda m: (members[m].instance_id or m, m))
    held: dict[str, list[tuple[UUID, Sequence[int]]]] = {member_id: [] for member_id in members}
    for topic, numbers in partitions.items():
        subscribers = [m for m in order if topic in members[m].subscribed]
        if not subscribers:
            continue
        share, extra = divmod(len(numbers), len(subscribers))
        start = 0
        for position, member_id in enumerate(subscribers):
            end = start + share + (position < extra)
            held[member_id].append((topic, numbers[start:end]))
            start = end
    return {member_id: assignment(parts) for member_id, parts in held.items()}


# The first is used where members ask for none; Kafka's order.
ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform, "range": range_}
DEFAULT_ASSIGNOR: Final = "uniform"
