"""Calls of another broker on one connection. Each is answered when it is done, in any order."""

import asyncio
import logging
import struct
from collections.abc import Callable
from typing import Final

from goqueue.doors.kafka.request_memory import RequestMemory
from goqueue.doors.kafka.wire.reading import Malformed
from goqueue.doors.kafka.wire.request_header import RequestHeader
from goqueue.doors.kafka.wire.writing import Chunks, framed
from goqueue.model.caller import Caller
from goqueue.model.calls import CALL, FORGET
from goqueue.model.errors import GoQueueError
from goqueue.service.calls import BrokerCall, CallService

log = logging.getLogger(__name__)

# On one connection. Most of them wait for messages on behalf of clients.
CALLS_MAX: Final = 50_000
_NUMBER: Final = struct.Struct(">i")


class BrokerCalls:
    def __init__(
        self,
        service: CallService,
        memory: RequestMemory,
        write: Callable[[Chunks], None],
        fail: Callable[[str], None],
    ) -> None:
        self._service = service
        self._memory = memory
        self._write = write
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._running: dict[int, asyncio.Task[None]] = {}
        # Of those that may be forgotten.
        self._waits: set[int] = set()

    def __len__(self) -> int:
        return len(self._running)

    def take(self, caller: Caller, header: RequestHeader, frame: memoryview) -> None:
        """What is in the frame, whose bytes are already counted; not those of a malformed one."""
        number = header.correlation_id
        if header.version == FORGET:
            self._memory.give_back(len(frame))
            self._forget(number)
            return
        if header.version != CALL or number in self._running:
            raise Malformed(f"call {number} of a broker in version {header.version}")
        if len(self) >= CALLS_MAX:
            raise Malformed(f"more than {CALLS_MAX} calls of a broker at once")
        try:
            call = self._service.read(caller, bytes(frame[header.end :]))
        except GoQueueError as error:
            raise Malformed(error.message) from error
        if call.waits:
            self._waits.add(number)
        task = self._loop.create_task(self._run(number, call))
        self._running[number] = task
        task.add_done_callback(lambda _: self._done(number, len(frame)))

    async def _run(self, number: int, call: BrokerCall) -> None:
        try:
            body = await call.run()
        except Exception:
            log.exception("a call of another broker failed, and its connection is closed")
            self._fail("internal error")
            return
        self._write(framed([_NUMBER.pack(number), body]))

    def _done(self, number: int, size_bytes: int) -> None:
        self._memory.give_back(size_bytes)
        self._running.pop(number, None)
        self._waits.discard(number)

    def _forget(self, number: int) -> None:
        if number in self._waits:
            self._running[number].cancel()

    def forget_all(self) -> None:
        """Nobody waits for them; what changes something is finished all the same."""
        for number in tuple(self._waits):
            self._forget(number)
