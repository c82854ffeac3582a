"""Deciding where a reset moves each offset. Pure: knows neither broker nor clock."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from goqueue.cli.moments import parse_moment_ms

ACCEPTED: Final = "earliest, latest, offset=N, time=WHEN (such as 2h ago) or shift=N"
_FORM: Final = re.compile(r"(offset|time|shift)(?:\s+|\s*[=:]\s*)(.+)", re.DOTALL)


class ResetKind(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"
    SHIFT = "shift"


class ResetTarget(NamedTuple):
    kind: ResetKind
    # The offset, the time in milliseconds since 1970, or the distance.
    value: int = 0


class PartitionState(NamedTuple):
    """What is known of a partition; None where there is nothing."""

    topic: str
    partition: int
    committed: int | None
    start: int | None
    end: int | None
    # The first offset of the time asked for.
    at_time: int | None = None


class PlannedOffset(NamedTuple):
    topic: str
    partition: int
    current: int | None
    new: int
    end: int
    note: str


class PlanFailed(ValueError):
    """The reset makes no sense for a partition; the message says which and why."""


def parse_target(text: str, *, now_ms: int) -> ResetTarget:
    """`ValueError` says what is accepted."""
    cleaned = text.strip()
    if cleaned.lower() in (ResetKind.EARLIEST, ResetKind.LATEST):
        return ResetTarget(ResetKind(cleaned.lower()))
    form = _FORM.fullmatch(cleaned)
    if form is None:
        raise ValueError(f"{text!r} is not a place to go to; write {ACCEPTED}")
    kind, value = ResetKind(form[1]), form[2].strip()
    if kind is ResetKind.TIME:
        return ResetTarget(kind, parse_moment_ms(value, now_ms=now_ms))
    pattern = r"[+-]?[0-9]+" if kind is ResetKind.SHIFT else r"[0-9]+"
    if not re.fullmatch(pattern, value):
        raise ValueError(f"{kind}: {value!r} is not a whole number; write {ACCEPTED}")
    return ResetTarget(kind, int(value))


def parse_topics(texts: Iterable[str]) -> dict[str, frozenset[int] | None]:
    """`topic` or `topic:0,2` each; None stands for all partitions."""
    topics: dict[str, frozenset[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        parts = [part.strip() for part in numbers.split(",")]
        if not topic or (colon and not all(re.fullmatch("[0-9]+", part) for part in parts)):
            raise ValueError(f"{text!r} is not a topic; write orders, or orders:0,2")
        topics[topic] = frozenset(map(int, parts)) if colon else None
    return topics


def plan(target: ResetTarget, states: Sequence[PartitionState]) -> list[PlannedOffset]:
    return [_move(target, state) for state in states]


def plan_given(given: Sequence[PartitionState], offsets: Sequence[int]) -> list[PlannedOffset]:
    """A plan for offsets that are known one by one, such as from a file."""
    return [_bounded(state, offset) for state, offset in zip(given, offsets, strict=True)]


def _move(target: ResetTarget, state: PartitionState) -> PlannedOffset:
    start, end = _bounds(state)
    if target.kind is ResetKind.EARLIEST:
        return _bounded(state, start)
    if target.kind is ResetKind.LATEST:
        return _bounded(state, end)
    if target.kind is ResetKind.TIME:
        if state.at_time is None:
            return _bounded(state, end)._replace(note="nothing so young; to the end")
        return _bounded(state, state.at_time)
    if target.kind is ResetKind.OFFSET:
        return _bounded(state, target.value)
    if state.committed is None:
        raise PlanFailed(
            f"{state.topic}:{state.partition} has no offset to shift; reset it to earliest, "
            "latest, an offset or a time first"
        )
    return _bounded(state, state.committed + target.value)


def _bounds(state: PartitionState) -> tuple[int, int]:
    if state.start is None or state.end is None:
        raise PlanFailed(
            f"{state.topic}:{state.partition}: the broker cannot say where it begins and ends; is "
            "it offline?"
        )
    return state.start, state.end


def _bounded(state: PartitionState, wanted: int) -> PlannedOffset:
    """Outside the log there is nothing to read: stay at its nearer end."""
    start, end = _bounds(state)
    new = min(max(wanted, start), end)
    note = "" if new == wanted else f"{wanted} is outside {start} to {end}"
    return PlannedOffset(state.topic, state.partition, state.committed, new, end, note)
