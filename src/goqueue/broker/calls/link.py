"""A connection to another broker. Each call is answered when it is done, in whatever order."""

import asyncio
import struct
from typing import Final

from goqueue.client.frame_link import FrameLink
from goqueue.model.calls import CALL, CALL_API_KEY, FORGET
from goqueue.model.client_security import NO_SECURITY, ClientSecurity
from goqueue.model.errors import BrokerUnreachable, Overloaded, RequestTimedOut
from goqueue.model.security.errors import AuthenticationFailed, not_let_in

# The length, then Kafka's header of a request, without a client id.
_REQUEST: Final = struct.Struct(">ihhih")
_HEADER_BYTES: Final = _REQUEST.size - 4
_NO_CLIENT_ID: Final = -1
_NUMBER: Final = struct.Struct(">i")
_NUMBERS: Final = 2**31
# Of calls that the other broker does not read. It reads at once, so it is stuck, or the line is
# slow: some tenths of a second of a fast one. The last call that is sent may go beyond.
UNSENT_MAX_BYTES: Final = 32 * 1024 * 1024


class CallLink:
    def __init__(self, frames: FrameLink) -> None:
        self._frames = frames
        self._loop = asyncio.get_running_loop()
        self._next_number = 0
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._failure: BrokerUnreachable | None = None
        self._used_at = self._loop.time()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, host: str, port: int, security: ClientSecurity = NO_SECURITY) -> "CallLink":
        try:
            return cls(await FrameLink.open(host, port, security))
        except AuthenticationFailed as error:
            raise not_let_in((host, port), error) from error

    @property
    def is_open(self) -> bool:
        return self._failure is None

    @property
    def idle_seconds(self) -> float:
        return 0.0 if self._waiting else self._loop.time() - self._used_at

    async def call(self, body: bytes, *, timeout_s: float, waits: bool) -> bytes:
        """The answer's bytes. If it fails, the call may have been carried out all the same; not if
        it fails with `Overloaded`, which is said before anything is sent."""
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if self._frames.unsent_bytes >= UNSENT_MAX_BYTES:
            raise Overloaded(
                f"{UNSENT_MAX_BYTES} bytes are on their way to the broker at "
                f"{self._frames.address}, which does not take them"
            )
        number = self._next_number
        self._next_number = (number + 1) % _NUMBERS
        answered: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting[number] = answered
        self._send(CALL, number, body)
        giving_up = self._loop.call_later(timeout_s, self._give_up, answered, timeout_s)
        try:
            return await answered
        finally:
            giving_up.cancel()
            self._used_at = self._loop.time()
            if self._waiting.pop(number, None) is not None and waits and self.is_open:
                self._send(FORGET, number, b"")

    def close(self, reason: str) -> None:
        """Whoever waits is told that."""
        self._fail(BrokerUnreachable(reason))
        self._reading.cancel()
        self._frames.close()

    def _send(self, what: int, number: int, body: bytes) -> None:
        header = _REQUEST.pack(_HEADER_BYTES + len(body), CALL_API_KEY, what, number, _NO_CLIENT_ID)
        self._frames.send(header + body)

    async def _read(self) -> None:
        try:
            while True:
                frame = await self._frames.receive()
                (number,) = _NUMBER.unpack_from(frame)
                answered = self._waiting.pop(number, None)
                if answered is not None and not answered.done():
                    answered.set_result(bytes(frame[_NUMBER.size :]))
        except BrokerUnreachable as error:
            self._fail(error)
        except struct.error:
            self._fail(BrokerUnreachable(f"what listens at {self._frames.address} is no broker"))
        self._frames.close()

    def _give_up(self, answered: "asyncio.Future[bytes]", timeout_s: float) -> None:
        if not answered.done():
            answered.set_exception(
                RequestTimedOut(
                    f"the broker at {self._frames.address} did not answer within {timeout_s:g} s"
                )
            )

    def _fail(self, error: BrokerUnreachable) -> None:
        if self._failure is not None:
            return
        self._failure = error
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(error)
