"""Where connections of one port come in by TLS."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from cryptography.x509 import Certificate
from OpenSSL import SSL

from goqueue.doors.closing_lines import ClosingLines
from goqueue.doors.tls.connection import SCRATCH_BYTES, TlsConnection
from goqueue.doors.tls.failures import words
from goqueue.doors.tls.records import SLICE_BYTES, ReceiveBuffer, SendBuffer
from goqueue.model.measuring.tls import TlsFigures

log = logging.getLogger(__name__)

# At a time. Who connects and then says nothing holds a file and some KB until its time is over;
# beyond this the oldest goes, and those who speak need a few milliseconds only.
HANDSHAKES_MAX: Final = 1_024


class TlsSource(Protocol):
    """What new connections use; it changes while the broker runs."""

    @property
    def context(self) -> SSL.Context: ...

    @property
    def figures(self) -> TlsFigures: ...

    def client_name(self, certificate: Certificate) -> str | None:
        """Who a client is, by the certificate that it showed; None: nobody."""
        ...

    def refusal(self, chain: Sequence[Certificate]) -> str | None:
        """Why the certificate of a client no longer counts."""
        ...


class TlsEntrance:
    def __init__(self, source: TlsSource, door: str, *, is_optional: bool = False) -> None:
        """`is_optional`: who does not speak TLS is let in as it is."""
        self.is_optional = is_optional
        self._source = source
        self._door = door
        self._lines = ClosingLines(log)
        self.arriving = ReceiveBuffer(SCRATCH_BYTES)
        # Likewise for all: what protocols without buffers are given, and what sockets take at once.
        self.decrypted = memoryview(bytearray(SLICE_BYTES))
        self.leaving = SendBuffer()
        # In the order in which they began.
        self._handshaking: dict[TlsConnection, None] = {}
        # Open ones whose clients showed a certificate, with those up to the CA.
        self._certified: dict[TlsConnection, Sequence[Certificate]] = {}

    def around(
        self, make: Callable[[], asyncio.BaseProtocol]
    ) -> Callable[[], asyncio.BaseProtocol]:
        """For `create_server`."""
        return lambda: TlsConnection(self, make)

    @property
    def context(self) -> SSL.Context:
        return self._source.context

    def client_name(self, certificate: Certificate) -> str | None:
        return self._source.client_name(certificate)

    def began(self, connection: TlsConnection) -> None:
        self._handshaking[connection] = None
        if len(self._handshaking) > HANDSHAKES_MAX:
            oldest = next(iter(self._handshaking))
            # Not when it hears that its socket is closed: several come in one turn of the loop.
            self.is_over(oldest)
            oldest.give_up("too many others connect at the same time")

    def is_over(self, connection: TlsConnection) -> None:
        self._handshaking.pop(connection, None)

    def certified(self, connection: TlsConnection, chain: Sequence[Certificate]) -> None:
        self._certified[connection] = chain

    def ended(self, connection: TlsConnection) -> None:
        self._certified.pop(connection, None)

    def close_refused(self) -> None:
        """CAs or lists of revoked certificates have changed."""
        for connection, chain in list(self._certified.items()):
            refusal = self._source.refusal(chain)
            if refusal is not None:
                self._log(connection.host, refusal)
                connection.abort()

    def failed(self, host: str, reason: str) -> None:
        self._source.figures.handshake_failures += 1
        self._log(host, reason)

    def failed_by(
        self, host: str, error: SSL.Error, refusal: str | None, first_bytes: bytes
    ) -> None:
        self.failed(host, words(error, refusal, first_bytes))

    def _log(self, host: str, reason: str) -> None:
        self._lines.write(
            logging.INFO, host, "%s connection from %s closed: %s", self._door, host, reason
        )
