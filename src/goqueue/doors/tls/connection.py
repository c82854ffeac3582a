"""One connection by TLS: the protocol of its socket, and the transport of what speaks behind it.

What is written is encrypted as the socket takes it, a slice at a time. So an answer of any size is
held once, and `get_write_buffer_size` tells all of it.
"""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from goqueue.doors.tls.failures import NO_TLS_ALERT, speaks_tls

if TYPE_CHECKING:
    from goqueue.doors.tls.entrance import TlsEntrance

Bytes = bytes | bytearray | memoryview

# Encrypted bytes are read into it, by all connections of a port: each takes them out at once.
SCRATCH_BYTES: Final = 256 * 1024
# From connecting to the end of the handshake. A few round trips; slow ones of far away take one.
HANDSHAKE_SECONDS: Final = 10.0
# Encrypted at a time: a tenth of a millisecond.
SLICE_BYTES: Final = 256 * 1024
# The largest record of TLS (RFC 8446, 5.1). Smaller pieces are put together: each record costs 22
# bytes and some microseconds at either end.
RECORD_BYTES: Final = 16 * 1024


class TlsConnection(asyncio.Transport, asyncio.BufferedProtocol):
    def __init__(
        self, entrance: "TlsEntrance", make_protocol: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        super().__init__()
        self._entrance = entrance
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._socket: asyncio.Transport | None = None
        self._host = "local"
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = entrance.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        # With a buffer to fill it returns how many bytes it put there.
        self._read_into = cast(Callable[[int, memoryview], int], self._tls.read)
        self._first_bytes = b""
        self._timer: asyncio.TimerHandle | None = None
        # None until the handshake is done.
        self._protocol: asyncio.BaseProtocol | None = None
        self._is_buffered = False
        self._is_closing = False
        self._reading_is_paused = False
        self._socket_is_full = False
        self._writing_is_paused = False
        # To be encrypted.
        self._backlog: deque[Bytes] = deque()
        self._backlog_bytes = 0

    # --- the socket's side ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self._host = str(peer[0])
        self._timer = self._loop.call_later(
            HANDSHAKE_SECONDS,
            self.give_up,
            f"the TLS handshake took longer than {HANDSHAKE_SECONDS:g} s",
        )
        self._entrance.began(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        # One byte tells whether it is TLS; who does not speak it must be given no more at once.
        is_unknown = self._entrance.is_optional and not self._first_bytes
        return self._entrance.scratch[:1] if is_unknown else self._entrance.scratch

    def buffer_updated(self, nbytes: int) -> None:
        arrived = self._entrance.scratch[:nbytes]
        if self._entrance.is_optional and not self._first_bytes and not speaks_tls(bytes(arrived)):
            self._step_aside(bytes(arrived))
            return
        self._incoming.write(arrived)
        if self._protocol is None:
            self._first_bytes = self._first_bytes or bytes(arrived[:1])
            self._shake_hands()
        else:
            self._deliver()

    def eof_received(self) -> bool:
        if self._protocol is not None and not self._is_closing:
            cast(asyncio.Protocol, self._protocol).eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._end_handshake()
        self._socket = None
        self._backlog.clear()
        self._backlog_bytes = 0
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._socket_is_full = True
        if self._protocol is not None and not self._writing_is_paused:
            self._writing_is_paused = True
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._socket_is_full = False
        self._encrypt()
        if self._is_closing:
            self._close_when_sent()
        if self._writing_is_paused and not self._socket_is_full:
            self._writing_is_paused = False
            if self._protocol is not None:
                self._protocol.resume_writing()

    # --- the handshake --------------------------------------------------------------------

    def _shake_hands(self) -> None:
        if self._is_closing:
            return
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._entrance.failed_by(self._host, error, self._first_bytes)
            # The alert tells the client why.
            self._flush()
            if not speaks_tls(self._first_bytes) and self._socket is not None:
                self._socket.write(NO_TLS_ALERT)
            self._hang_up()
            return
        self._flush()
        self._end_handshake()
        protocol = self._protocol = self._make_protocol()
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)
        protocol.connection_made(self)
        self._deliver()

    def _step_aside(self, first_byte: bytes) -> None:
        """The socket belongs to what would have spoken behind this."""
        self._end_handshake()
        transport, protocol = self._socket, self._make_protocol()
        assert transport is not None
        self._is_closing, self._socket = True, None
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if isinstance(protocol, asyncio.BufferedProtocol):
            cast(memoryview, protocol.get_buffer(1))[:1] = first_byte
            protocol.buffer_updated(1)
        else:
            cast(asyncio.Protocol, protocol).data_received(first_byte)

    def give_up(self, reason: str) -> None:
        """On a handshake that is not over."""
        self._entrance.failed(self._host, reason)
        self.abort()

    def _end_handshake(self) -> None:
        self._entrance.is_over(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- reading --------------------------------------------------------------------------

    def pause_reading(self) -> None:
        self._reading_is_paused = True
        if self._socket is not None and not self._socket.is_closing():
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        if not self._reading_is_paused:
            return
        self._reading_is_paused = False
        if self._socket is not None and not self._is_closing:
            self._socket.resume_reading()
            # What arrived before the pause, and not within the call of whoever resumes.
            self._loop.call_soon(self._deliver)

    def is_reading(self) -> bool:
        return not self._reading_is_paused and not self._is_closing

    def _deliver(self) -> None:
        """Decrypt what is there, and pass it on, until the protocol does not want more."""
        try:
            while not self._reading_is_paused and not self._is_closing and self._has_more():
                if not (self._fill() if self._is_buffered else self._pass_on()):
                    break
        except ssl.SSLError:
            # Damaged, or not of this client.
            self.abort()
            return
        if self._outgoing.pending:
            # A new key, or an alert.
            self._flush()

    def _has_more(self) -> bool:
        return bool(self._incoming.pending) or self._tls.pending() > 0

    def _fill(self) -> bool:
        """False if there is not a whole record."""
        protocol = cast(asyncio.BufferedProtocol, self._protocol)
        buffer = cast(memoryview, protocol.get_buffer(-1))
        read, incoming, size = self._read_into, self._incoming, len(buffer)
        filled, count, is_whole = 0, -1, True
        try:
            # A call takes one record, or as much of it as there is room for.
            while not filled or (filled < size and incoming.pending):
                count = read(size - filled, buffer[filled:])
                if not count:
                    is_whole = False
                    break
                filled += count
        except ssl.SSLWantReadError:
            is_whole, count = False, -1
        if filled:
            protocol.buffer_updated(filled)
        if not count:
            self._client_ended()
        return is_whole

    def _pass_on(self) -> bool:
        protocol = cast(asyncio.Protocol, self._protocol)
        pieces: list[bytes] = []
        piece: bytes | None = None
        held_bytes = 0
        try:
            while held_bytes < SCRATCH_BYTES and self._has_more():
                piece = self._tls.read(SCRATCH_BYTES)
                if not piece:
                    break
                pieces.append(piece)
                held_bytes += len(piece)
        except ssl.SSLWantReadError:
            piece = None
        if pieces:
            protocol.data_received(b"".join(pieces))
        if piece == b"":
            self._client_ended()
        return bool(piece)

    def _client_ended(self) -> None:
        """It said that it sends no more (RFC 8446, 6.1)."""
        if self._protocol is not None and not self._is_closing:
            cast(asyncio.Protocol, self._protocol).eof_received()
            self.close()

    # --- writing --------------------------------------------------------------------------

    def write(self, data: Bytes) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Bytes]) -> None:
        if self._is_closing:
            return
        for data in list_of_data:
            if data:
                self._backlog.append(data)
                self._backlog_bytes += len(data)
        self._encrypt()

    def _encrypt(self) -> None:
        """As much as the socket takes; the rest when it takes more."""
        while self._backlog and not self._socket_is_full and self._socket is not None:
            sliced_bytes = 0
            while self._backlog and sliced_bytes < SLICE_BYTES:
                piece = self._next_piece(SLICE_BYTES - sliced_bytes)
                self._tls.write(piece)
                sliced_bytes += len(piece)
            self._flush()

    def _next_piece(self, max_bytes: int) -> Bytes:
        piece = self._backlog.popleft()
        if len(piece) < RECORD_BYTES and self._backlog:
            small, small_bytes = [piece], len(piece)
            while self._backlog and small_bytes + len(self._backlog[0]) <= RECORD_BYTES:
                small.append(self._backlog.popleft())
                small_bytes += len(small[-1])
            if len(small) > 1:
                piece = b"".join(small)
        if len(piece) > max_bytes and len(piece) > RECORD_BYTES:
            rest = memoryview(piece)
            size = max(max_bytes, RECORD_BYTES)
            piece = rest[:size]
            self._backlog.appendleft(rest[size:])
        self._backlog_bytes -= len(piece)
        return piece

    def _flush(self) -> None:
        if self._outgoing.pending and self._socket is not None and not self._socket.is_closing():
            self._socket.write(self._outgoing.read())

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        held_bytes = self._backlog_bytes + self._outgoing.pending
        return held_bytes if self._socket is None else held_bytes + _unsent(self._socket)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (0, 0) if self._socket is None else self._socket.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._socket is not None:
            self._socket.set_write_buffer_limits(high, low)

    # --- what else a transport is asked ---------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """`client_name`: who the client is by its certificate; None if it showed none."""
        match name:
            case "client_name":
                certificate = self._tls.getpeercert(binary_form=True)
                return None if certificate is None else self._entrance.client_name(certificate)
            case "ssl_object":
                return self._tls
            case "sslcontext":
                return self._tls.context
            case _ if self._socket is not None:
                return self._socket.get_extra_info(name, default)
        return default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None, "asked before the handshake was done"
        return self._protocol

    # --- ending ---------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """What was written is sent first."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._socket is not None and not self._socket.is_closing():
            self._socket.pause_reading()
        self._close_when_sent()

    def _close_when_sent(self) -> None:
        if self._backlog or self._socket is None or self._socket.is_closing():
            return
        with contextlib.suppress(ssl.SSLError):
            # Says that nothing follows. The client's own word is not waited for (RFC 8446, 6.1).
            self._tls.unwrap()
        self._flush()
        self._hang_up()

    def _hang_up(self) -> None:
        self._is_closing = True
        if self._socket is not None:
            self._socket.close()

    def abort(self) -> None:
        self._is_closing = True
        if self._socket is not None:
            self._socket.abort()


def _unsent(socket: asyncio.Transport) -> int:
    return int(socket.get_write_buffer_size())
