"""One connection by TLS: the protocol of its socket, and the transport of what speaks behind it.

What is written is encrypted as the socket takes it, a slice at a time. So an answer of any size is
held once, and `get_write_buffer_size` tells all of it.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from cryptography.x509 import Certificate
from OpenSSL import SSL

from goqueue.doors.tls.failures import NO_TLS_ALERT, speaks_tls
from goqueue.doors.tls.records import RECORD_BYTES, SLICE_BYTES, Bytes, SendBuffer, TlsRecords

if TYPE_CHECKING:
    from goqueue.doors.tls.entrance import TlsEntrance

# Encrypted bytes are read into it, by all connections of a port: each takes them out at once.
SCRATCH_BYTES: Final = 256 * 1024
# From connecting to the end of the handshake. A few round trips; slow ones of far away take one.
HANDSHAKE_SECONDS: Final = 10.0
# Of what a protocol writes, a socket has its high-water mark (64 KB) and a slice more at most. More
# are answers to requests for new keys (RFC 8446, 4.6.3) from a client that reads none of them.
OWN_ANSWERS_MAX_BYTES: Final = 1024 * 1024
# Of what arrived at once, records of a byte or so: others have their turn before more is read.
# uvloop reads up to 32 times without looking at any other socket, and what arrives at once may be
# 10,000 such records, a microsecond each. librdkafka's small ones are fewer.
READS_PER_TURN: Final = 1024


class TlsConnection(asyncio.Transport, asyncio.BufferedProtocol):
    def __init__(
        self, entrance: "TlsEntrance", make_protocol: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        super().__init__()
        self._entrance = entrance
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._socket: asyncio.Transport | None = None
        self.host = "local"
        # None when the connection is lost: what OpenSSL holds of it goes at once.
        self._records: TlsRecords | None = TlsRecords(entrance.context)
        self._first_bytes = b""
        # The certificate that the client showed, and those up to the CA.
        self._client_chain: Sequence[Certificate] = ()
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
            self.host = str(peer[0])
        self._timer = self._loop.call_later(
            HANDSHAKE_SECONDS,
            self.give_up,
            f"the TLS handshake took longer than {HANDSHAKE_SECONDS:g} s",
        )
        self._entrance.began(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        # One byte tells whether it is TLS; who does not speak it must be given no more at once.
        is_unknown = self._entrance.is_optional and not self._first_bytes
        view = self._entrance.arriving.view
        return view[:1] if is_unknown else view

    def buffer_updated(self, nbytes: int) -> None:
        buffer, records = self._entrance.arriving, self._records
        if not self._first_bytes:
            self._first_bytes = bytes(buffer.view[:1])
            if self._entrance.is_optional and not speaks_tls(self._first_bytes):
                self._step_aside(self._first_bytes)
                return
        if records is None:
            return
        records.arrived(buffer, nbytes)
        if self._protocol is None:
            self._shake_hands()
        else:
            self._deliver()
        # The buffer is somebody else's next.
        records.keep()
        if records.reads > READS_PER_TURN:
            self._let_others_read()

    def eof_received(self) -> bool:
        if self._protocol is not None and not self._is_closing:
            cast(asyncio.Protocol, self._protocol).eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._end_handshake()
        self._socket = None
        self._records = None
        self._entrance.ended(self)
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
        records = self._records
        if self._is_closing or records is None:
            return
        try:
            is_done = records.shake_hands()
        except SSL.Error as error:
            self._entrance.failed_by(self.host, error, records.refusal(), self._first_bytes)
            # The alert tells the client why.
            self._flush()
            if not speaks_tls(self._first_bytes) and self._socket is not None:
                self._socket.write(NO_TLS_ALERT)
            self._hang_up()
            return
        self._flush()
        if not is_done:
            return
        self._end_handshake()
        self._client_chain = records.client_chain()
        if self._client_chain:
            self._entrance.certified(self, self._client_chain)
        protocol = self._protocol = self._make_protocol()
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)
        protocol.connection_made(self)
        self._deliver()

    def _step_aside(self, first_byte: bytes) -> None:
        """The socket belongs to what would have spoken behind this."""
        self._end_handshake()
        transport, protocol = self._socket, self._make_protocol()
        assert transport is not None
        self._is_closing, self._socket, self._records = True, None, None
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if isinstance(protocol, asyncio.BufferedProtocol):
            cast(memoryview, protocol.get_buffer(1))[:1] = first_byte
            protocol.buffer_updated(1)
        else:
            cast(asyncio.Protocol, protocol).data_received(first_byte)

    def give_up(self, reason: str) -> None:
        """On a handshake that is not over."""
        self._entrance.failed(self.host, reason)
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

    def _let_others_read(self) -> None:
        if self._socket is not None and not self._is_closing:
            self._socket.pause_reading()
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._socket is not None and self.is_reading():
            self._socket.resume_reading()

    def is_reading(self) -> bool:
        return not self._reading_is_paused and not self._is_closing

    def _deliver(self) -> None:
        """Decrypt what is there, and pass it on, until the protocol does not want more."""
        records = self._records
        if records is None:
            return
        try:
            while not self._reading_is_paused and not self._is_closing:
                if not (self._fill(records) if self._is_buffered else self._pass_on(records)):
                    break
        except SSL.Error:
            # Damaged, or not of this client.
            self.abort()
            return
        # A new key, or an alert.
        self._flush()
        if self._socket is not None and _unsent(self._socket) > OWN_ANSWERS_MAX_BYTES:
            self.abort()

    def _fill(self, records: TlsRecords) -> bool:
        """False if there is no whole record left."""
        protocol = cast(asyncio.BufferedProtocol, self._protocol)
        buffer = cast(memoryview, protocol.get_buffer(-1))
        filled = records.read_into(buffer)
        if filled:
            protocol.buffer_updated(filled)
        if records.has_ended:
            self._client_ended()
        return filled == len(buffer)

    def _pass_on(self, records: TlsRecords) -> bool:
        protocol = cast(asyncio.Protocol, self._protocol)
        buffer = self._entrance.decrypted
        filled = records.read_into(buffer)
        if filled:
            protocol.data_received(bytes(buffer[:filled]))
        if records.has_ended:
            self._client_ended()
        return filled == len(buffer)

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
        records = self._records
        while self._backlog and not self._socket_is_full and records is not None:
            sliced_bytes = 0
            while self._backlog and sliced_bytes < SLICE_BYTES:
                piece = self._next_piece(SLICE_BYTES - sliced_bytes)
                records.write(piece)
                sliced_bytes += len(piece)
            # At once: the client decrypts this while the next is encrypted.
            self._flush()
            records = self._records

    def _next_piece(self, max_bytes: int) -> Bytes:
        """Small ones are put together: a record costs 22 bytes and a microsecond at either end."""
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
        socket, records = self._socket, self._records
        if socket is None or records is None or socket.is_closing():
            return
        while (count := records.take(buffer := self._entrance.leaving)) > 0:
            if count < RECORD_BYTES:
                socket.write(bytes(buffer.view[:count]))
                continue
            socket.write(buffer.view[:count])
            if _unsent(socket):
                # The socket has it for a while.
                self._entrance.leaving = SendBuffer()

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self._backlog_bytes + (0 if self._socket is None else _unsent(self._socket))

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
                chain = self._client_chain
                return self._entrance.client_name(chain[0]) if chain else None
            case "sslcontext":
                # Whoever asks wants to know whether there is TLS.
                return self._entrance.context
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
        if self._records is not None:
            with contextlib.suppress(SSL.Error):
                self._records.end()
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
