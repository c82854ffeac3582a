"""Sets of partitions by topic id, and the few operations on them."""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

# Topics without partitions are left out, so that equal assignments compare equal.
Assignment = Mapping[UUID, frozenset[int]]

# The form in which assignments are stored: sorted, so that equal assignments have equal bytes.
StoredAssignment = tuple[tuple[UUID, tuple[int, ...]], ...]

NOTHING: Final[Assignment] = {}


def assignment(partitions: Iterable[tuple[UUID, Iterable[int]]]) -> Assignment:
    found: dict[UUID, frozenset[int]] = {}
    for topic_id, numbers in partitions:
        chosen = frozenset(numbers)
        if chosen:
            found[topic_id] = found.get(topic_id, frozenset()) | chosen
    return found


def stored(partitions: Assignment) -> StoredAssignment:
    return tuple(sorted((topic_id, tuple(sorted(p))) for topic_id, p in partitions.items()))


def count(partitions: Assignment) -> int:
    return sum(map(len, partitions.values()))


def is_subset(part: Assignment, whole: Assignment) -> bool:
    return all(p <= whole.get(topic_id, frozenset()) for topic_id, p in part.items())


def overlaps(one: Assignment, other: Assignment) -> bool:
    return any(p & other.get(topic_id, frozenset()) for topic_id, p in one.items())


def common(one: Assignment, other: Assignment) -> Assignment:
    return assignment((t, p & other[t]) for t, p in one.items() if t in other)


def without(whole: Assignment, part: Assignment) -> Assignment:
    return assignment((t, p - part.get(t, frozenset())) for t, p in whole.items())


def union(one: Assignment, other: Assignment) -> Assignment:
    return assignment([*one.items(), *other.items()])


def restricted(whole: Assignment, topic_ids: frozenset[UUID]) -> Assignment:
    return {t: p for t, p in whole.items() if t in topic_ids}
