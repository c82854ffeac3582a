"""Delayed messages as callers name and see them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from goqueue.model.calls import Unanswered
from goqueue.model.errors import GoQueueError, UnknownDelayedMessage
from goqueue.model.records import NewRecord
from goqueue.model.settings import INT64_MAX

LIST_DEFAULT: Final = 100
LIST_MAX: Final = 1_000
# Upper bounds in ms; what is later than the last is counted after it. 50 is what is promised.
LATENESS_BOUNDS_MS: Final = (5, 10, 20, 30, 50, 100, 250, 500, 1_000, 5_000, 60_000)


# Messages are numbered from here on. Smaller numbers are of messages that an earlier release took
# in, which kept those of all topics together, in shards.
FIRST_NUMBER: Final = 1 << 52
# How many numbers each of these shards had; they had 1,000 shards at most.
_SHARD_NUMBERS: Final = 1 << 40


def carried_number(shard: int, number: int) -> int:
    """The number of a message that waited in a shard of an earlier release, since it was carried
    over: no other message of its partition has it, and it comes before all that came later."""
    return (shard + 1) * _SHARD_NUMBERS + number


class DelayedId(NamedTuple):
    """Names a delayed message for good; in order of due times.

    `shard` is the partition that it goes to. A message that was carried over from an earlier
    release is known to clients by the shard and the number that it had there.
    """

    due_ms: int
    shard: int
    number: int

    def __str__(self) -> str:
        return f"{self.due_ms:x}-{self.shard:x}-{self.number:x}"

    @property
    def shown(self) -> "DelayedId":
        """As clients know the message that waits in this place."""
        shard, number = divmod(self.number, _SHARD_NUMBERS)
        if 0 < shard < FIRST_NUMBER // _SHARD_NUMBERS:
            return DelayedId(self.due_ms, shard - 1, number)
        return self

    def places(self, partitions: int) -> Iterator["DelayedId"]:
        """Where the message that clients know by this may wait, in a topic of so many partitions;
        the likeliest first."""
        if self.shard < partitions:
            yield self
        number = carried_number(self.shard, self.number)
        if self.number < _SHARD_NUMBERS and number < FIRST_NUMBER:
            yield from (DelayedId(self.due_ms, index, number) for index in range(partitions))

    @classmethod
    def parse(cls, text: str) -> "DelayedId":
        parts = text.split("-")
        try:
            due_ms, shard, number = (int(part, 16) for part in parts)
        except ValueError:
            raise UnknownDelayedMessage(f"{text!r} is not the id of a delayed message") from None
        parsed = cls(due_ms, shard, number)
        if str(parsed) != text or max(due_ms, number) > INT64_MAX:
            raise UnknownDelayedMessage(f"{text!r} is not the id of a delayed message")
        return parsed


class DelayedMessage(NamedTuple):
    id: DelayedId
    partition: int
    record: NewRecord


class DelayedPage(NamedTuple):
    """`next_after` is where the next page begins; None after the last.

    `missing`: what waits for these partitions is not in it, for this reason.
    """

    messages: list[DelayedMessage]
    next_after: str | None
    missing: Mapping[int, GoQueueError]


class ScheduledMessage(NamedTuple):
    partition: int
    id: DelayedId


def lateness_ms(counts: Sequence[int], share: float) -> int | None:
    """The bound below which this share lies; None without a message, or beyond the last."""
    total = sum(counts)
    seen = 0
    for count, bound_ms in zip(counts, LATENESS_BOUNDS_MS, strict=False):
        seen += count
        if total and seen >= share * total:
            return bound_ms
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDelayStats:
    topic: str
    pending: int
    delivered: int
    cancelled: int
    # One for each of `LATENESS_BOUNDS_MS`, and one for what is later.
    lateness_counts: Sequence[int]

    @property
    def lateness_p99_ms(self) -> int | None:
        return lateness_ms(self.lateness_counts, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayStats:
    """`next_due_ms` may be early, after a cancellation; `pending_bytes` is of all topics.

    `unanswered`: brokers whose figures are not in it.
    """

    pending: int
    in_memory: int
    pending_bytes: int
    next_due_ms: int | None
    delivered: int
    cancelled: int
    lateness_counts: Sequence[int]
    lateness_sum_ms: int
    topics: Sequence[TopicDelayStats]
    unanswered: Sequence[Unanswered] = ()

    @property
    def lateness_p50_ms(self) -> int | None:
        return lateness_ms(self.lateness_counts, 0.5)

    @property
    def lateness_p99_ms(self) -> int | None:
        return lateness_ms(self.lateness_counts, 0.99)
