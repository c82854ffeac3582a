"""Calls of another broker on one connection. Each is answered when it is done, in any order."""

import asyncio
import logging
import struct
from typing import Final, Protocol

from goqueue.doors.kafka.call_room import ConnectionRoom
from goqueue.doors.kafka.wire.reading import Malformed
from goqueue.doors.kafka.wire.request_header import RequestHeader
from goqueue.doors.kafka.wire.writing import Chunks, framed
from goqueue.model.caller import Caller
from goqueue.model.calls import CALL, FORGET
from goqueue.model.errors import GoQueueError, Overloaded, ShuttingDown
from goqueue.service.cluster.calls import BrokerCall, CallService

log = logging.getLogger(__name__)

_NUMBER: Final = struct.Struct(">i")


class Line(Protocol):
    """The connection that they come on."""

    @property
    def unsent_bytes(self) -> int: ...
    def write(self, chunks: Chunks) -> None: ...
    def end(self, reason: str) -> None: ...
    def cut_off(self, reason: str) -> None: ...
    def close_if_over(self) -> None: ...


class BrokerCalls:
    def __init__(
        self,
        service: CallService,
        room: ConnectionRoom,
        line: Line,
    ) -> None:
        self._service = service
        self._room = room
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._running: dict[int, asyncio.Task[None]] = {}
        # Of those that may be forgotten.
        self._waits: set[int] = set()
        self._is_ending = False

    def __len__(self) -> int:
        return len(self._running)

    def take(self, caller: Caller, header: RequestHeader, frame: memoryview) -> None:
        """What is in the frame, whose bytes are already counted; not those of a malformed one."""
        number, size_bytes = header.correlation_id, len(frame)
        if header.version == FORGET:
            self._room.drop(size_bytes)
            self._forget(number)
            return
        if header.version != CALL or number in self._running:
            raise Malformed(f"call {number} of a broker in version {header.version}")
        try:
            call = self._service.read(caller, bytes(frame[header.end :]))
        except GoQueueError as error:
            raise Malformed(error.message) from error
        if self._is_ending or not self._room.admits(size_bytes, waits=call.waits):
            self._room.drop(size_bytes)
            self._refuse(number)
            return
        if call.waits:
            self._waits.add(number)
        task = self._loop.create_task(self._run(number, call))
        self._running[number] = task
        task.add_done_callback(lambda _: self._done(number, size_bytes))

    def _refuse(self, number: int) -> None:
        told: GoQueueError = ShuttingDown("the broker is shutting down")
        if not self._is_ending:
            told = Overloaded(f"calls of other brokers hold all they may; {self._room.bound}")
        self._answer(number, self._service.refusal(told))

    def finish(self) -> None:
        """Those that are under way are the last ones, and nothing waits any more."""
        self._is_ending = True
        self.forget_all()

    async def _run(self, number: int, call: BrokerCall) -> None:
        try:
            body = await call.run()
        except Exception:
            log.exception("a call of another broker failed, and its connection is closed")
            self._line.end("internal error")
            return
        self._answer(number, body)

    def _answer(self, number: int, body: bytes) -> None:
        self._line.write(framed([_NUMBER.pack(number), body]))
        unread_bytes = self._line.unsent_bytes
        if self._room.is_choked_by(unread_bytes):
            # All that were begun are answered, however many answers are unsent.
            self._line.cut_off(f"{unread_bytes} bytes of answers to its calls were not read")

    def _done(self, number: int, size_bytes: int) -> None:
        waits = number in self._waits
        self._waits.discard(number)
        self._running.pop(number, None)
        self._room.leaves(size_bytes, waits=waits)
        self._line.close_if_over()

    def _forget(self, number: int) -> None:
        if number in self._waits:
            self._running[number].cancel()

    def forget_all(self) -> None:
        """Nobody waits for them; what changes something is finished all the same."""
        for number in tuple(self._waits):
            self._forget(number)
