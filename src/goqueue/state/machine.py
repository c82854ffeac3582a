"""What every state machine has in common: records, replies, outcomes, and deadlines as data.

The runtime runs a machine by *decide, replay, append, wait for the commit, answer*: a command
returns an `Outcome`; the runtime replays its records into the machine at once, so that the next
command decides on what this one did; appends them to the machine's log, together with those of
other commands of the same turn of the event loop; and sends the replies once they are committed.
"""

import heapq
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)
R = TypeVar("R")
M_contra = TypeVar("M_contra", contravariant=True)
Q_contra = TypeVar("Q_contra", contravariant=True)


class Ticket(int, Generic[R]):
    """The number under which a request waits, typed by the answer that it waits for."""

    __slots__ = ()


class StateRecord(NamedTuple):
    """One entry of a machine's compacted log; a value of None deletes the key."""

    key: bytes
    value: bytes | None


class Reply(NamedTuple):
    """The answer to the request that came with `ticket`, perhaps many commands ago."""

    ticket: int
    response: object


@dataclass(slots=True)
class Outcome:
    """What a command decided. Its records are appended all or none, before any reply is sent."""

    records: list[StateRecord] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    effects: list[object] = field(default_factory=list)
    """What to do elsewhere once the records are committed, such as writing transaction markers."""

    def reply(self, ticket: Ticket[R], response: R) -> None:
        self.replies.append(Reply(ticket, response))


class Machine(Protocol):
    """Commands are further typed methods; they take `ticket` and `now_ms`, return an `Outcome`."""

    def replay(self, record: StateRecord) -> None:
        """Apply one record: the only way durable state changes, live and in recovery alike."""
        ...

    def loaded(self, now_ms: int) -> Outcome:
        """Called once after recovery: start the sessions and timeouts of what was replayed."""
        ...

    def next_deadline_ms(self) -> int | None:
        """When `on_deadline` must be called next, or None."""
        ...

    def on_deadline(self, now_ms: int) -> Outcome:
        """Do a bounded part of what is due; call again while `next_deadline_ms` has come."""
        ...


class TimedMethod(Protocol[M_contra, Q_contra, R]):
    """A machine's command, as the class names it: a request, its ticket, and the time."""

    def __call__(
        self, machine: M_contra, request: Q_contra, /, *, ticket: Ticket[R], now_ms: int
    ) -> Outcome: ...


class UntimedMethod(Protocol[M_contra, Q_contra, R]):
    """A command for which the time does not matter."""

    def __call__(
        self, machine: M_contra, request: Q_contra, /, *, ticket: Ticket[R]
    ) -> Outcome: ...


# Entries of cancelled or moved deadlines stay in the heap until their time; beyond this share (plus
# a floor that spares small heaps) the heap is rebuilt, which bounds it by the live deadlines.
_STALE_FACTOR: Final = 2
_STALE_FLOOR: Final = 64


class Deadlines(Generic[Key]):
    """A heap of deadlines by key with lazy deletion.

    Moving a deadline to a later time, as every heartbeat does, is one dictionary write: the heap
    entry stays where it is and is pushed back when it comes up.
    """

    __slots__ = ("_at", "_heap", "_queued", "_sequence")

    def __init__(self) -> None:
        self._at: dict[Key, int] = {}
        self._queued: dict[Key, int] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, key: Key) -> bool:
        return key in self._at

    def get(self, key: Key) -> int | None:
        return self._at.get(key)

    def set(self, key: Key, at_ms: int) -> None:
        """Set or move the deadline of `key`."""
        self._at[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._push(key, at_ms)

    def set_if_absent(self, key: Key, at_ms: int) -> None:
        if key not in self._at:
            self.set(key, at_ms)

    def cancel(self, key: Key) -> None:
        self._at.pop(key, None)

    def next_ms(self) -> int | None:
        """The earliest deadline, or None."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int, limit: int) -> list[Key]:
        """Remove and return up to `limit` keys whose deadline has come, earliest first."""
        due: list[Key] = []
        while len(due) < limit:
            self._settle()
            if not self._heap or self._heap[0][0] > now_ms:
                break
            _, _, key = heapq.heappop(self._heap)
            del self._at[key], self._queued[key]
            due.append(key)
        return due

    def _push(self, key: Key, at_ms: int) -> None:
        self._queued[key] = at_ms
        self._sequence += 1
        heapq.heappush(self._heap, (at_ms, self._sequence, key))
        if len(self._heap) > _STALE_FACTOR * len(self._at) + _STALE_FLOOR:
            self._rebuild()

    def _settle(self) -> None:
        """Bring a true deadline to the top of the heap."""
        while self._heap:
            queued_ms, _, key = self._heap[0]
            if self._queued.get(key) != queued_ms:
                heapq.heappop(self._heap)
                continue
            at_ms = self._at.get(key)
            if at_ms == queued_ms:
                return
            heapq.heappop(self._heap)
            del self._queued[key]
            if at_ms is not None:
                self._push(key, at_ms)

    def _rebuild(self) -> None:
        self._heap = [(at_ms, i, key) for i, (key, at_ms) in enumerate(self._at.items())]
        heapq.heapify(self._heap)
        self._sequence = len(self._heap)
        self._queued = dict(self._at)
