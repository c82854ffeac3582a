"""Gives tasks to members: evenly, where they were, and standbys away from what they stand by for.

No two members have more than one active task more or less than each other. Of members that have
equally many, those of the process with fewer tasks per member come first. A task stays where it was
active, else it goes to where it stood by, as far as that leaves the numbers even.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from goqueue.model.groups.assignment import assignment
from goqueue.model.groups.tasks import TaskKey, TaskRole, Tasks
from goqueue.state.groups.streams.topology import ConfiguredSubtopology


class MemberSpec(NamedTuple):
    process_id: str
    # What it should have had so far.
    target: Tasks


class Task(NamedTuple):
    """In the order in which members are filled: partitions of one subtopology side by side."""

    subtopology: str
    partition: int


def assign(
    members: Mapping[str, MemberSpec],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    standby_replicas: int,
) -> dict[str, Tasks]:
    if not members:
        return {}
    tasks = [
        Task(name, number)
        for name in sorted(subtopologies)
        for number in range(subtopologies[name].tasks)
    ]
    stateful = [task for task in tasks if subtopologies[task.subtopology].is_stateful]
    places = _Places(members)
    _assign_active(places, tasks)
    if standby_replicas:
        _assign_standbys(places, stateful, standby_replicas)
    return places.result()


@dataclass(slots=True)
class _Places:
    """Who has what, while it is given out."""

    members: Mapping[str, MemberSpec]
    # Who had a task, by its role, in the order of the members' names.
    had: dict[TaskRole, dict[Task, list[str]]] = field(init=False)
    given: dict[str, dict[TaskKey, set[int]]] = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)
    process_sizes: Counter[str] = field(init=False)
    process_counts: Counter[str] = field(default_factory=Counter)
    processes_of: defaultdict[Task, set[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.had = {role: {} for role in TaskRole}
        for name in sorted(self.members):
            for key, partitions in self.members[name].target.items():
                for partition in partitions:
                    task = Task(key.subtopology, partition)
                    self.had[key.role].setdefault(task, []).append(name)
        self.given = {name: {} for name in self.members}
        self.process_sizes = Counter(spec.process_id for spec in self.members.values())
        self.processes_of = defaultdict(set)

    def give(self, task: Task, name: str, role: TaskRole) -> None:
        process = self.members[name].process_id
        self.given[name].setdefault(TaskKey(role, task.subtopology), set()).add(task.partition)
        self.counts[name] += 1
        self.process_counts[process] += 1
        self.processes_of[task].add(process)

    def load(self, name: str) -> tuple[int, float, str]:
        """The least first: by its tasks, then by those per member of its process, then by name."""
        return self.counts[name], self.process_load(self.members[name].process_id), name

    def process_load(self, process: str) -> float:
        return self.process_counts[process] / self.process_sizes[process]

    def has_process(self, task: Task, name: str) -> bool:
        return self.members[name].process_id in self.processes_of[task]

    def result(self) -> dict[str, Tasks]:
        return {name: assignment(given.items()) for name, given in self.given.items()}


class _LeastLoadedMembers:
    """Loads only grow, so that an entry which is out of date is put back with what holds now."""

    def __init__(self, places: _Places) -> None:
        self._places = places
        self._heap = [places.load(name) for name in places.members]
        heapq.heapify(self._heap)

    def take(self, task: Task) -> None:
        while (now := self._places.load(self._heap[0][2])) != self._heap[0]:
            heapq.heapreplace(self._heap, now)
        name = now[2]
        self._places.give(task, name, TaskRole.ACTIVE)
        heapq.heapreplace(self._heap, self._places.load(name))


class _LeastLoadedProcesses:
    """As above; within a process the member with the fewest tasks comes first."""

    def __init__(self, places: _Places) -> None:
        self._places = places
        self._members: dict[str, list[tuple[int, str]]] = {}
        for name, spec in places.members.items():
            self._members.setdefault(spec.process_id, []).append((places.counts[name], name))
        for members in self._members.values():
            heapq.heapify(members)
        self._heap = [(places.process_load(process), process) for process in self._members]
        heapq.heapify(self._heap)

    def take(self, task: Task) -> None:
        """Nothing, if all processes have the task."""
        having = []
        while self._heap and self._heap[0][1] in self._places.processes_of[task]:
            having.append(heapq.heappop(self._heap))
        if self._heap:
            process = self._heap[0][1]
            count, name = self._members[process][0]
            self._places.give(task, name, TaskRole.STANDBY)
            heapq.heapreplace(self._members[process], (count + 1, name))
            heapq.heapreplace(self._heap, (self._places.process_load(process), process))
        for entry in having:
            heapq.heappush(self._heap, entry)


def _assign_active(places: _Places, tasks: list[Task]) -> None:
    """Everybody gets `low` of them or one more; `above` is how many may get one more."""
    low, above = divmod(len(tasks), len(places.members))
    for role in (TaskRole.ACTIVE, TaskRole.STANDBY):
        had = places.had[role]
        waiting = []
        # By partition, so that a member keeps the same partitions of several subtopologies.
        for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology)):
            keeper = _keeper(places, had.get(task, ()), low, above)
            if keeper is None:
                waiting.append(task)
                continue
            places.give(task, keeper, TaskRole.ACTIVE)
            above -= places.counts[keeper] == low + 1
        tasks = waiting
    least = _LeastLoadedMembers(places)
    for task in sorted(tasks):
        least.take(task)


def _keeper(places: _Places, names: Iterable[str], low: int, above: int) -> str | None:
    """Who of these, that have had a task, may have one more; the least loaded of them."""
    room = [n for n in names if places.counts[n] < low or (places.counts[n] == low and above > 0)]
    return min(room, key=places.load, default=None)


def _assign_standbys(places: _Places, tasks: list[Task], replicas: int) -> None:
    replicas = min(replicas, len(places.process_sizes) - 1)
    total = sum(places.counts.values()) + replicas * len(tasks)
    quota = -(-total // len(places.members))
    waiting: list[Task] = []
    for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology)):
        # Who had it active has all its state.
        names = [name for role in TaskRole for name in places.had[role].get(task, ())]
        missing = replicas
        for name in names:
            if missing and places.counts[name] < quota and not places.has_process(task, name):
                places.give(task, name, TaskRole.STANDBY)
                missing -= 1
        waiting += [task] * missing
    least = _LeastLoadedProcesses(places)
    for task in sorted(waiting):
        least.take(task)
