"""Tasks of a streams group (KIP-1071): a partition of a subtopology, to work on or to keep ready.

A set of them is a mapping like an assignment of partitions, so that the same operations do.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple


class TaskRole(IntEnum):
    """Numbers are stored. The protocol knows a third one, of tasks that warm up before they move;
    Kafka's brokers do not assign those either."""

    ACTIVE = 0
    # Follows the changelog, to take over quickly.
    STANDBY = 1


class TaskKey(NamedTuple):
    role: TaskRole
    subtopology: str


# Roles and subtopologies without partitions are left out, so that equal ones compare equal.
Tasks = Mapping[TaskKey, frozenset[int]]
StoredTasks = tuple[tuple[TaskKey, tuple[int, ...]], ...]

NO_TASKS: Final[Tasks] = {}


def of_role(tasks: Tasks, role: TaskRole) -> dict[str, frozenset[int]]:
    """By subtopology."""
    return {key.subtopology: partitions for key, partitions in tasks.items() if key.role is role}
