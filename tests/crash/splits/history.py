"""What groups saw, in the order they saw it, and what must hold of it."""

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple


class Sent(NamedTuple):
    """The `number`-th message of a key, counted by its producer."""

    producer: int
    key: int
    number: int

    @property
    def of(self) -> tuple[int, int]:
        return self.producer, self.key

    def encoded(self) -> bytes:
        return b"%d:%d:%d" % self


def sent_in(value: bytes) -> Sent:
    return Sent(*map(int, value.split(b":")))


class Seen(NamedTuple):
    sent: Sent
    partition: int
    # From the append to the delivery.
    delay_s: float
    at_s: float
    member: str
    # Of a queue: it was acknowledged, not delivered.
    is_acknowledged: bool = False


class Span(NamedTuple):
    """A time, with a split or without, and what was there when it began."""

    begin_s: float
    end_s: float
    partitions: int
    # Of all cores, from 0 to 1.
    busy: float


@dataclass
class History:
    """Of one group; members note a message before they commit or acknowledge it."""

    name: str
    seen: list[Seen] = field(default_factory=list)
    partitions: set[int] = field(default_factory=set)
    _delivered: set[Sent] = field(default_factory=set)
    _acknowledged: set[Sent] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, *seen: Seen) -> None:
        with self._lock:
            self.seen += seen
            for each in seen:
                self.partitions.add(each.partition)
                found = self._acknowledged if each.is_acknowledged else self._delivered
                found.add(each.sent)

    def is_complete(self, counts: dict[tuple[int, int], int], *, acknowledged: bool) -> bool:
        found = self._acknowledged if acknowledged else self._delivered
        return len(found) >= sum(counts.values())

    def skipped(self, counts: dict[tuple[int, int], int]) -> list[Sent]:
        found = {each.sent for each in self.seen}
        return [
            missing
            for (producer, key), count in counts.items()
            for number in range(count)
            if (missing := Sent(producer, key, number)) not in found
        ]

    def longest_s(self, span: Span) -> float:
        """How long the slowest message took from its append to its delivery within the span, of the
        partitions that were there before and stayed with their member."""
        members: dict[int, set[str]] = defaultdict(set)
        delays: dict[int, float] = defaultdict(float)
        for each in self.seen:
            if each.partition < span.partitions and span.begin_s <= each.at_s < span.end_s:
                members[each.partition].add(each.member)
                delays[each.partition] = max(delays[each.partition], each.delay_s)
        stayed = (delay for at, delay in delays.items() if len(members[at]) == 1)
        return max(stayed, default=0.0)

    def inversions(self) -> list[str]:
        """Messages that came before one that was sent earlier, of the same producer and key."""
        wrong: list[str] = []
        reached: dict[tuple[int, int], int] = defaultdict(int)
        for each in self.seen:
            if each.sent.number > reached[each.sent.of]:
                wrong.append(f"{each} before number {reached[each.sent.of]}")
            reached[each.sent.of] = max(reached[each.sent.of], each.sent.number + 1)
        return wrong

    def early(self) -> list[str]:
        """Of a queue: messages that came while one of their key in another partition, which was
        sent earlier, was not acknowledged."""
        wrong: list[str] = []
        partition_of = {each.sent: each.partition for each in self.seen}
        acknowledged: set[Sent] = set()
        # By key: from here on down all in other partitions are acknowledged.
        settled: dict[tuple[tuple[int, int], int], int] = defaultdict(int)
        for each in self.seen:
            if each.is_acknowledged:
                acknowledged.add(each.sent)
                continue
            place = (each.sent.of, each.partition)
            while settled[place] < each.sent.number:
                before = Sent(*each.sent.of, settled[place])
                is_other = partition_of.get(before, each.partition) != each.partition
                if is_other and before not in acknowledged:
                    wrong.append(f"{each} before {before} of partition {partition_of[before]}")
                    break
                settled[place] += 1
        return wrong
