"""A group machine with its log, as the runtime would run it, and words to talk to it."""

from collections.abc import Iterable
from uuid import UUID

from goqueue.model.groups.assignment import Assignment, assignment
from goqueue.model.groups.viewer import Viewer
from goqueue.state.groups.coordinator import GroupMachine
from goqueue.state.groups.settings import GroupSettings
from goqueue.state.groups.topics import TopicInfo, Topics
from goqueue.state.machine import Outcome, Reply, StateRecord
from tests.unit.state.groups.group_moves import GroupWatch


def topic_id(name: str) -> UUID:
    """A topic's id, the same in every run."""
    return UUID(bytes=name.encode().ljust(16, b"\0"))


def topic_name(identity: UUID) -> str:
    return identity.bytes.rstrip(b"\0").decode()


def topics(**partition_counts: int) -> Topics:
    return Topics(
        TopicInfo(name, topic_id(name), count, name.startswith("__"))
        for name, count in partition_counts.items()
    )


def partitions(**numbers: Iterable[int]) -> Assignment:
    return assignment((topic_id(name), chosen) for name, chosen in numbers.items())


def table_of(records: Iterable[StateRecord]) -> dict[bytes, bytes]:
    """The last value of every key, in the order of the last change, as after compaction."""
    table: dict[bytes, bytes] = {}
    for key, value in records:
        table.pop(key, None)
        if value is not None:
            table[key] = value
    return table


class GroupWorld:
    def __init__(self, settings: GroupSettings | None = None, known: Topics | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.known = known or Topics()
        self.now_ms = 1_000_000
        self.log: list[StateRecord] = []
        self.ids_made = 0
        self.tickets = 0
        # Who sees only some topics.
        self.rights: dict[str, frozenset[str]] = {}
        self.watch = GroupWatch()
        self.machine = self._start()

    def _start(self) -> GroupMachine:
        machine = GroupMachine(self.settings, self.new_id, sees=self._sees)
        machine.on_topics_changed(self.known)
        for key, value in table_of(self.log).items():
            machine.replay(StateRecord(key, value))
        self.machine = machine
        self.watch.start(machine)
        self.take(machine.loaded(self.now_ms))
        return machine

    def _sees(self, viewer: Viewer, name: str) -> bool:
        return name in self.rights.get(viewer.name, self.known.by_name)

    def set_rights(self, user: str, seen: Iterable[str]) -> None:
        self.rights[user] = frozenset(seen)
        for _ in self.machine.catch_up(by_rights=True):
            pass

    def new_id(self) -> str:
        self.ids_made += 1
        return str(self.ids_made)

    def take(self, outcome: Outcome) -> list[Reply]:
        self.log += outcome.records
        for record in outcome.records:
            self.machine.replay(record)
        self.watch.look(self.machine)
        return outcome.replies

    def crash(self) -> None:
        self.machine = self._start()

    def set_topics(self, known: Topics) -> None:
        self.known = known
        self.take(self.machine.on_topics_changed(known))

    def advance(self, by_ms: int) -> list[tuple[int, Reply]]:
        """Let time pass, doing what comes due at its time. Returns answers with their time."""
        end_ms = self.now_ms + by_ms
        answers: list[tuple[int, Reply]] = []
        for _ in range(100_000):
            due_ms = self.machine.next_deadline_ms()
            if due_ms is None or due_ms > end_ms:
                self.now_ms = end_ms
                return answers
            self.now_ms = max(self.now_ms, due_ms)
            replies = self.take(self.machine.on_deadline(self.now_ms))
            answers += [(self.now_ms, reply) for reply in replies]
        raise AssertionError("timers come due without end")
