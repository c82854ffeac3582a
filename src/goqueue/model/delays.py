"""Delayed messages as callers name and see them."""

from collections.abc import Mapping, Sequence
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


def delayed_id(due_ms: int, shard: int, number: int) -> str:
    """How clients know a delayed message."""
    return f"{due_ms:x}-{shard:x}-{number:x}"


class DelayedId(NamedTuple):
    """Names a delayed message for good; in order of due times."""

    due_ms: int
    shard: int
    number: int

    def __str__(self) -> str:
        return delayed_id(*self)

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
