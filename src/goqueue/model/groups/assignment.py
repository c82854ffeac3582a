"""Sets of partitions by topic id, and the few operations on them.

Streams groups (KIP-1071) assign tasks instead, which are partitions too: see `tasks`.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar
from uuid import UUID

# What the partitions are of.
K = TypeVar("K")
Sets = Mapping[K, frozenset[int]]

# Topics without partitions are left out, so that equal assignments compare equal.
Assignment = Mapping[UUID, frozenset[int]]

# The form in which assignments are stored: sorted, so that equal assignments have equal bytes.
StoredAssignment = tuple[tuple[UUID, tuple[int, ...]], ...]

NOTHING: Final[Assignment] = {}


def assignment(partitions: Iterable[tuple[K, Iterable[int]]]) -> Sets[K]:
    found: dict[K, frozenset[int]] = {}
    for topic_id, numbers in partitions:
        chosen = frozenset(numbers)
        if chosen:
            found[topic_id] = found.get(topic_id, frozenset()) | chosen
    return found


def stored(partitions: Sets[K]) -> tuple[tuple[K, tuple[int, ...]], ...]:
    return tuple(sorted((topic_id, tuple(sorted(p))) for topic_id, p in partitions.items()))


def count(partitions: Sets[K]) -> int:
    return sum(map(len, partitions.values()))


def is_subset(part: Sets[K], whole: Sets[K]) -> bool:
    return all(p <= whole.get(topic_id, frozenset()) for topic_id, p in part.items())


def overlaps(one: Sets[K], other: Sets[K]) -> bool:
    return any(p & other.get(topic_id, frozenset()) for topic_id, p in one.items())


def common(one: Sets[K], other: Sets[K]) -> Sets[K]:
    return assignment((t, p & other[t]) for t, p in one.items() if t in other)


def without(whole: Sets[K], part: Sets[K]) -> Sets[K]:
    return assignment((t, p - part.get(t, frozenset())) for t, p in whole.items())


def union(one: Sets[K], other: Sets[K]) -> Sets[K]:
    return assignment([*one.items(), *other.items()])


def restricted(whole: Sets[K], keys: frozenset[K]) -> Sets[K]:
    return {t: p for t, p in whole.items() if t in keys}
