"""Where connections of one port come in by TLS."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final, Protocol

from goqueue.doors.closing_lines import ClosingLines
from goqueue.doors.tls.connection import SCRATCH_BYTES, TlsConnection
from goqueue.doors.tls.failures import words
from goqueue.model.measuring.tls import TlsFigures

log = logging.getLogger(__name__)

# At a time. Who connects and then says nothing holds a file and some KB until its time is over;
# beyond this the oldest goes, and those who speak need a few milliseconds only.
HANDSHAKES_MAX: Final = 1_024


class TlsSource(Protocol):
    """What new connections use; it changes while the broker runs."""

    @property
    def context(self) -> ssl.SSLContext: ...

    @property
    def figures(self) -> TlsFigures: ...

    def client_name(self, certificate: bytes) -> str | None:
        """Who a client is, by the certificate that it showed; None: nobody."""
        ...


class TlsEntrance:
    def __init__(self, source: TlsSource, door: str, *, is_optional: bool = False) -> None:
        """`is_optional`: who does not speak TLS is let in as it is."""
        self.is_optional = is_optional
        self._source = source
        self._door = door
        self._lines = ClosingLines(log)
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        # In the order in which they began.
        self._handshaking: dict[TlsConnection, None] = {}

    def around(
        self, make: Callable[[], asyncio.BaseProtocol]
    ) -> Callable[[], asyncio.BaseProtocol]:
        """For `create_server`."""
        return lambda: TlsConnection(self, make)

    @property
    def context(self) -> ssl.SSLContext:
        return self._source.context

    def client_name(self, certificate: bytes) -> str | None:
        return self._source.client_name(certificate)

    def began(self, connection: TlsConnection) -> None:
        self._handshaking[connection] = None
        if len(self._handshaking) > HANDSHAKES_MAX:
            next(iter(self._handshaking)).give_up("too many others connect at the same time")

    def is_over(self, connection: TlsConnection) -> None:
        self._handshaking.pop(connection, None)

    def failed(self, host: str, reason: str) -> None:
        self._source.figures.handshake_failures += 1
        self._lines.write(
            logging.INFO, host, "%s connection from %s closed: %s", self._door, host, reason
        )

    def failed_by(self, host: str, error: ssl.SSLError, first_bytes: bytes) -> None:
        self.failed(host, words(error, first_bytes))
