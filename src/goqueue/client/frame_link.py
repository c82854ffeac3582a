"""A connection that carries frames as they are. What arrives is read in place and not copied."""

import asyncio
from typing import Final, cast

from goqueue.client.errors import BrokerUnreachable
from goqueue.client.framing import (
    CONNECT_TIMEOUT_SECONDS,
    FRAME_LENGTH,
    RESPONSE_TIMEOUT_SECONDS,
    not_answered,
    not_connected,
    parse_response,
    request_frame,
    response_length,
)
from goqueue.client.tls import tls_context
from goqueue.model.client_security import NO_SECURITY, ClientSecurity

# Most answers fit in; a larger one gets a buffer of its size.
BUFFER_BYTES: Final = 256 * 1024


class FrameLink(asyncio.BufferedProtocol):
    def __init__(self, address: str) -> None:
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(BUFFER_BYTES)
        # What arrived and was not taken yet.
        self._start = 0
        self._end = 0
        # Whether somebody works with bytes of the buffer.
        self._is_lent = False
        self._arrived: asyncio.Future[None] | None = None
        self._lost: Exception | None = None

    @classmethod
    async def open(
        cls, host: str, port: int, security: ClientSecurity = NO_SECURITY
    ) -> "FrameLink":
        """Logged in, where `security` says how."""
        address = f"{host}:{port}"
        context = tls_context(security)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                _, link = await loop.create_connection(
                    lambda: cls(address), host, port, ssl=context
                )
        except OSError as error:
            raise not_connected(address, error) from error
        if security.sasl_mechanism is not None:
            try:
                async with asyncio.timeout(RESPONSE_TIMEOUT_SECONDS):
                    await link._log_in(security)
            except TimeoutError as error:
                link.close()
                raise not_answered(address, error) from error
            except BaseException:
                link.close()
                raise
        return link

    async def _log_in(self, security: ClientSecurity) -> None:
        from goqueue.client.sasl import first_question, log_in, next_question

        login = log_in(security)
        question = first_question(login)
        number = 0
        while question is not None:
            number += 1
            request, response_type = question
            self.send(request_frame(request, number))
            frame = bytes(await self.receive())
            answer = parse_response(frame, response_type, number, self._address)
            question = next_question(login, answer)

    @property
    def address(self) -> str:
        return self._address

    @property
    def unsent_bytes(self) -> int:
        """Of frames that the broker has not taken yet. Whoever sends on bounds them."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self, frame: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame)

    async def receive(self) -> memoryview:
        """The next frame, without its length. Valid until the next call."""
        self._is_lent = False
        while (frame := self._take()) is None:
            if self._lost is not None:
                raise self._lost
            self._arrived = asyncio.get_running_loop().create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None
        self._is_lent = True
        return frame

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio's side -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._fail(BrokerUnreachable(f"the broker at {self._address} closed the connection"))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        if self._start == self._end and not self._is_lent:
            self._start = self._end = 0
        needed = self._needed_bytes()
        if len(self._buffer) - self._start < needed or self._end == len(self._buffer):
            # A whole frame may stand there that nobody has taken yet: more comes behind it.
            waiting_bytes = self._end - self._start
            self._move(max(needed, waiting_bytes + BUFFER_BYTES))
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        try:
            is_whole = self._end - self._start >= self._needed_bytes()
        except BrokerUnreachable as error:
            self._fail(error)
            self.close()
            return
        if is_whole and self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    # --- the buffer -----------------------------------------------------------------------

    def _needed_bytes(self) -> int:
        """Of the frame that begins at `_start`, as far as it is known how long it is."""
        if self._end - self._start < FRAME_LENGTH.size:
            return FRAME_LENGTH.size
        prefix = self._buffer[self._start : self._start + FRAME_LENGTH.size]
        return FRAME_LENGTH.size + response_length(prefix, self._address)

    def _take(self) -> memoryview | None:
        needed = self._needed_bytes()
        if needed == FRAME_LENGTH.size or self._end - self._start < needed:
            return None
        begin, self._start = self._start + FRAME_LENGTH.size, self._start + needed
        return memoryview(self._buffer)[begin : self._start]

    def _move(self, size_bytes: int) -> None:
        """To the beginning of a buffer that has room for so many bytes."""
        left = bytes(memoryview(self._buffer)[self._start : self._end])
        is_too_large = len(self._buffer) > 4 * size_bytes
        if self._is_lent or len(self._buffer) < size_bytes or is_too_large:
            self._buffer = bytearray(size_bytes)
        self._buffer[: len(left)] = left
        self._start, self._end = 0, len(left)

    def _fail(self, error: Exception) -> None:
        self._lost = self._lost or error
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)
