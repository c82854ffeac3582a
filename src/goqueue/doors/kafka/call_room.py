"""How much calls of other brokers may hold while they are under way.

They are counted apart from what clients hold, so that neither keeps the other from being read. A
call for which there is no room is refused at once, and has done nothing. Reading from its
connection goes on: two brokers that ask each other for things, each of which needs the other one
again, would else wait for each other; and a call could not be forgotten.
"""

from typing import Final, Protocol

from goqueue.doors.kafka.request_memory import RequestMemory

# Of the memory for calls. The rest is for half a frame, and for answers on their way.
IN_FLIGHT_PARTS: Final = 2
# One broker's calls take at most this part of that: others are served while one of them is stuck.
PER_CONNECTION_PARTS: Final = 2
# Calls that wait on behalf of clients leave a quarter of their room to those that do something.
WAITING_SHARE: Final = 3 / 4
# Of the memory for calls. Who leaves as much unread is cut off at once while all of it is taken.
UNREAD_PARTS: Final = 4
# Counted for a call beside its frame. Its task takes 3.8 KB; with these, some 20,000 clients of one
# broker can wait at another one by default, for 80 MB.
CALL_BYTES: Final = 1024


class CountsIn(Protocol):
    def count_in(self, memory: RequestMemory) -> None: ...


class Share:
    """Bytes of calls under way, and how many they may be."""

    __slots__ = ("_held_bytes", "_max_bytes", "_waiting_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._waiting_bytes = 0

    def has_room(self, size_bytes: int, *, waits: bool) -> bool:
        if self._held_bytes + size_bytes > self._max_bytes:
            # One may be as large as a frame can be, if it is the only one that does something.
            return not waits and self._held_bytes == self._waiting_bytes
        return not waits or self._waiting_bytes + size_bytes <= self._max_bytes * WAITING_SHARE

    def add(self, size_bytes: int, *, waits: bool) -> None:
        self._held_bytes += size_bytes
        if waits:
            self._waiting_bytes += size_bytes


class CallRoom:
    """Of all connections together; `memory` has their frames and answers, too."""

    def __init__(self, memory: RequestMemory) -> None:
        self.memory = memory
        self._in_flight_bytes = memory.limit_bytes // IN_FLIGHT_PARTS
        self._of_all = Share(self._in_flight_bytes)

    def take_over(
        self, memory: RequestMemory, frame_bytes: int, *counting: CountsIn
    ) -> RequestMemory:
        """What a connection holds from now on, beginning with this frame, is counted here."""
        memory.give_back(frame_bytes)
        self.memory.take(frame_bytes)
        for each in counting:
            each.count_in(self.memory)
        return self.memory

    def of_a_connection(self) -> "ConnectionRoom":
        share = Share(self._in_flight_bytes // PER_CONNECTION_PARTS)
        return ConnectionRoom(self.memory, self._of_all, share)


class ConnectionRoom:
    __slots__ = ("_memory", "_of_all", "_own")

    def __init__(self, memory: RequestMemory, of_all: Share, own: Share) -> None:
        self._memory = memory
        self._of_all = of_all
        self._own = own

    def admits(self, size_bytes: int, *, waits: bool) -> bool:
        """Whether a call of so many bytes is taken. If so, it is counted until it `leaves`."""
        size_bytes += CALL_BYTES
        if not self._own.has_room(size_bytes, waits=waits):
            return False
        if not self._of_all.has_room(size_bytes, waits=waits):
            return False
        self._own.add(size_bytes, waits=waits)
        self._of_all.add(size_bytes, waits=waits)
        self._memory.take(CALL_BYTES)
        return True

    def leaves(self, size_bytes: int, *, waits: bool) -> None:
        """With the frame, whose bytes were counted when it was read."""
        size_bytes += CALL_BYTES
        self._own.add(-size_bytes, waits=waits)
        self._of_all.add(-size_bytes, waits=waits)
        self._memory.give_back(size_bytes)

    def is_choked_by(self, unread_bytes: int) -> bool:
        """Whether brokers that do not read hold everything, and this one much of it."""
        memory = self._memory
        return memory.is_full and unread_bytes >= memory.limit_bytes // UNREAD_PARTS

    def drop(self, size_bytes: int) -> None:
        """A frame that is no call under way."""
        self._memory.give_back(size_bytes)

    @property
    def bound(self) -> str:
        return f"queued.max.request.bytes is {self._memory.limit_bytes}"
