"""One HTTP connection: uvicorn's parser, with the limits and time-outs that it leaves open."""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from goqueue.doors.http.errors import Answer, answer

# Open at once. Each costs a file descriptor and a few KB, and Kafka connections need theirs too.
CONNECTIONS_MAX: Final = 4_096
# Request line and headers: far more than browsers and proxies send.
HEAD_MAX_BYTES: Final = 64 * 1024
# From a request's first byte to the end of its headers, and from connecting to the first byte.
HEAD_SECONDS: Final = 10.0
# A client silent for this long in the middle of a body has gone, or means harm.
BODY_SILENCE_SECONDS: Final = 20.0
# Longer than the 60 s after which common load balancers drop an idle connection themselves: the
# side that opens requests should be the one that closes.
KEEP_ALIVE_SECONDS: Final = 75


class _Stage(Enum):
    IDLE = "idle"
    HEAD = "head"
    BODY = "body"


class HttpConnection(HttpToolsProtocol):
    def __init__(self, *, on_lost: Callable[[], None], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._on_lost = on_lost
        self._stage = _Stage.IDLE
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            self._refuse(answer(503, "overloaded", f"{CONNECTIONS_MAX} connections are open"))
            return
        self._arm(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)
        self._on_lost()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._stage is _Stage.HEAD:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_MAX_BYTES:
                self._refuse(
                    answer(431, "headers_too_large", f"the limit is {HEAD_MAX_BYTES} bytes")
                )
            elif self._timer is None:
                self._arm(HEAD_SECONDS)
            return
        self._disarm()
        if self._stage is _Stage.BODY:
            self._arm(BODY_SILENCE_SECONDS)

    def on_message_begin(self) -> None:
        self._stage = _Stage.HEAD
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stage = _Stage.BODY
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stage = _Stage.IDLE
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(answer(400, "invalid_http", msg))

    def _arm(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._time_out)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            # We stopped listening, not the client talking: an earlier request is still answered.
            self._arm(BODY_SILENCE_SECONDS)
        elif self._stage is _Stage.HEAD:
            self._refuse(
                answer(408, "header_timeout", f"the headers took longer than {HEAD_SECONDS:g} s")
            )
        else:
            self.transport.close()

    def _refuse(self, refusal: Answer) -> None:
        """Answer without a request, and hang up."""
        self._disarm()
        if self.cycle is None or self.cycle.response_complete:
            headers = b"".join(b"%s: %s\r\n" % pair for pair in self.server_state.default_headers)
            headers += b"".join(
                f"{name}: {value}\r\n".encode() for name, value in refusal.headers.items()
            )
            self.transport.write(
                STATUS_LINE[refusal.status]
                + headers
                + b"content-type: application/json\r\nconnection: close\r\n"
                + b"content-length: %d\r\n\r\n" % len(refusal.body)
                + refusal.body
            )
        self.transport.close()
