"""One HTTP connection: uvicorn's parser, with the limits and time-outs that it leaves open."""

import asyncio
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Final, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from goqueue.doors.http.asked import Asked
from goqueue.doors.http.errors import Answer, answer
from goqueue.doors.http.reserve import OVERLOADED, RESERVE_HEAD_SECONDS, Reserve
from goqueue.doors.http.unsent import UnsentAnswers
from goqueue.doors.lost_connections import LostConnections
from goqueue.doors.places import Places
from goqueue.doors.web.asgi import Application
from goqueue.doors.web.bodies import LINGER_MAX_BYTES, LINGER_SECONDS
from goqueue.doors.web.callers import CLIENT_NAME, PARTY
from goqueue.doors.web.turns import ConnectionParty, Turns
from goqueue.model.fairness.headcount import Headcount

# Open at once. Each costs a file descriptor and a few KB, and Kafka connections need theirs too.
# More are asked how the broker is, and nothing else (reserve.py).
CONNECTIONS_MAX: Final = 4_096
# Request line and headers: far more than browsers and proxies send.
HEAD_MAX_BYTES: Final = 64 * 1024
# From a request's first byte to the end of its headers, and from connecting to the first byte.
HEAD_SECONDS: Final = 10.0
# Over which a body's pace is measured, as long as Apache's (mod_reqtimeout): a line may stand still
# for a while.
BODY_SILENCE_SECONDS: Final = 20.0
# Longer than the 60 s after which common load balancers drop an idle connection themselves: the
# side that opens requests should be the one that closes.
KEEP_ALIVE_SECONDS: Final = 75
# A client that takes nothing of its answer for this long does not want it; it holds megabytes here.
READER_SILENCE_SECONDS: Final = 30.0
# Requests that wait for the ones before them. They come in one piece of up to 256 KB, before we can
# stop reading, and each takes 3 KB however short it is. Clients that pipeline send a dozen.
PIPELINED_MAX: Final = 64
PIPELINED_BYTES: Final = 3 * 1024

_HEAD_BEGIN: Final = b"HTTP/1.1 "
_HEAD_END: Final = b"\r\n\r\n"


class _Stage(Enum):
    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    # The rest of a body whose request was answered already.
    UNREAD = "unread"


class HttpConnection(HttpToolsProtocol):
    def __init__(
        self,
        *,
        on_lost: Callable[[], None],
        lost: LostConnections,
        reserve: Reserve,
        unsent: UnsentAnswers,
        turns: Turns,
        parties: Headcount,
        places: "Places[HttpConnection] | None",
        body_min_bytes_per_second: int,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self._on_lost = on_lost
        self._lost = lost
        self._reserve = reserve
        self._unsent = unsent
        self._turns = turns
        self._parties = parties
        self._places = places
        self._body_min_bytes_per_second = body_min_bytes_per_second
        self._stage = _Stage.IDLE
        self._answering: RequestResponseCycle | None = None
        self._is_flooded = False
        # What the timer watches over: the stage, since when, and how much came since.
        self._timer: asyncio.TimerHandle | None = None
        self._timed: _Stage | None = None
        self._timed_from = 0.0
        self._timed_bytes = 0
        self._reader_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._written = _Written(transport, self.loop)
        self.transport = cast(asyncio.Transport, self._written)
        self.flow = _Flow(transport, self._start_measuring)
        address = self.client[0] if self.client else ""
        self._party = ConnectionParty(self._parties, address, on_known=self._known)
        self.app_state = {PARTY: self._party}
        client_name = transport.get_extra_info(CLIENT_NAME)
        if client_name is not None:
            self.app_state[CLIENT_NAME] = client_name
        if self._places is not None:
            self._places.take(self)
        elif len(self.connections) > CONNECTIONS_MAX:
            self.app = self._reserve
            self._reserve.take(self, self._refuse_overload)
            self._watch(RESERVE_HEAD_SECONDS)
            return
        self._watch(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._forget_reader()
        self._reserve.leave(self)
        self._leave_place()
        self._lost.add(lambda: self._end(exc))

    def _known(self, party: str) -> None:
        if self._places is not None:
            self._places.known(self, party)

    def _leave_place(self) -> None:
        self._party.end()
        if self._places is not None:
            self._places.leave(self)

    @property
    def is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def make_room(self) -> None:
        """Its place is somebody else's."""
        if self.is_busy:
            self.transport.close()
        else:
            self._refuse_overload()

    def _end(self, exc: Exception | None) -> None:
        # uvicorn tells only the last of several requests, and the others would go on for nobody.
        for cycle in (self._answering, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
                Asked.abandon(cycle.scope)
        self.pipeline.clear()
        super().connection_lost(exc)
        self._let_go()
        self._on_lost()

    def _let_go(self) -> None:
        """Of what refers back to this: circles of objects are freed only now and then.

        Requests that go on have their own references.
        """
        self._stage = _Stage.IDLE
        self._answering = None
        self.cycle = cast(RequestResponseCycle, None)
        self.flow = cast(FlowControl, None)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        stage = self._stage
        if self._is_flooded:
            self.transport.close()
        elif stage is _Stage.IDLE:
            self._disarm()
            if self.cycle is None or self.cycle.response_complete:
                # Empty lines between requests, or the end of a body that nobody wanted.
                self._watch(HEAD_SECONDS)
        else:
            if self._timed is not stage:
                self._watch(HEAD_SECONDS if stage is _Stage.HEAD else BODY_SILENCE_SECONDS)
            self._timed_bytes += len(data)
            if stage is _Stage.HEAD and self._timed_bytes > HEAD_MAX_BYTES:
                self._refuse(
                    answer(431, "headers_too_large", f"the limit is {HEAD_MAX_BYTES} bytes")
                )
            elif stage is _Stage.UNREAD and self._timed_bytes > LINGER_MAX_BYTES:
                self.transport.close()

    def on_message_begin(self) -> None:
        self._stage = _Stage.HEAD
        self._timed = None
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stage = _Stage.BODY
        if len(self.pipeline) >= PIPELINED_MAX:
            self._is_flooded = True
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._is_flooded:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._stage = _Stage.IDLE
        if not self._is_flooded:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._stage is _Stage.BODY and self.cycle.response_complete:
            # A client that sends before it listens should see its answer; then it has had its time.
            self._stage = _Stage.UNREAD
            self._watch(LINGER_SECONDS)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Application) -> None:
        self._answering = cycle
        self._reserve.leave(self)
        self._turns.take(self._party.name, partial(self._begin, cycle, app))

    def _begin(self, cycle: RequestResponseCycle, app: Application) -> None:
        # Else its client has gone while it waited for its turn.
        if not cycle.disconnected:
            super()._start_asgi_task(cycle, app)

    def send_400_response(self, msg: str) -> None:
        self._refuse(answer(400, "invalid_http", msg))

    @property
    def unsent_bytes(self) -> int:
        """With the requests that wait behind it."""
        waiting_bytes = len(self.pipeline) * PIPELINED_BYTES
        return self._written.held_bytes + waiting_bytes

    def send_away(self) -> None:
        """Answer at once, with a refusal, what is not answered yet: the door closes."""
        if self._answering is not None and not self._answering.response_complete:
            Asked.send_away(self._answering.scope)

    def hang_up(self) -> None:
        self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()
        self._unsent.add(self)

    def resume_writing(self) -> None:
        self._forget_reader()
        super().resume_writing()

    def _watch_reader(self) -> None:
        """Hang up unless the client takes something of what waits for it."""
        self._reader_timer = self.loop.call_later(
            READER_SILENCE_SECONDS, self._judge_reader, self.transport.get_write_buffer_size()
        )

    def _judge_reader(self, unsent_bytes: int) -> None:
        if self.transport.get_write_buffer_size() >= unsent_bytes:
            self.transport.abort()
        else:
            self._watch_reader()

    def _forget_reader(self) -> None:
        self._unsent.discard(self)
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _watch(self, seconds: float) -> None:
        """Begin to watch over the stage that the connection is in."""
        self._disarm()
        self._timed = self._stage
        self._start_measuring()
        self._timer = self.loop.call_later(seconds, self._time_out)

    def _start_measuring(self) -> None:
        self._timed_from = self.loop.time()
        self._timed_bytes = 0

    def _disarm(self) -> None:
        self._timed = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self._stage is _Stage.BODY:
            self._judge_pace()
        elif self.flow.read_paused:
            # We stopped listening, not the client talking: an earlier request is still answered.
            self._watch(BODY_SILENCE_SECONDS)
        elif self.app is self._reserve and self.cycle is None:
            self._refuse_overload()
        elif self._stage is _Stage.HEAD:
            self._refuse(
                answer(408, "header_timeout", f"the headers took longer than {HEAD_SECONDS:g} s")
            )
        else:
            self.transport.close()

    def _judge_pace(self) -> None:
        """A client that has gone, or sends a byte now and then, must not keep its place."""
        measured_seconds = self.loop.time() - self._timed_from
        if self.flow.read_paused or measured_seconds < BODY_SILENCE_SECONDS / 2:
            # We did not listen, or began again to only now.
            self._watch(BODY_SILENCE_SECONDS)
        elif self._timed_bytes < measured_seconds * self._body_min_bytes_per_second:
            self.transport.close()
        else:
            self._watch(BODY_SILENCE_SECONDS)

    def _refuse_overload(self) -> None:
        self._refuse(answer(503, "overloaded", OVERLOADED))

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


class _Written:
    """A transport that knows what its unsent bytes hold in memory, and sends heads with bodies.

    An answer that was sent but for its last byte is still there as a whole, and megabytes of it
    may wait in the kernel's buffers: the size of the write buffer says little.

    A head that goes out alone is taken for a whole answer by some clients (boto3) if the broker is
    killed before the body follows.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._bytes_since_empty = 0
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    @property
    def held_bytes(self) -> int:
        return self._bytes_since_empty if self._transport.get_write_buffer_size() else 0

    def write(self, data: bytes) -> None:
        if self._transport.is_closing():
            # Cut off for what it held, while its answer was being made: a write would raise.
            return
        head, self._head = self._head, b""
        if not head and data.startswith(_HEAD_BEGIN) and data.endswith(_HEAD_END):
            self._head = data
            # Some answers have no body.
            self._loop.call_soon(self._send_head)
            return
        self._bytes_since_empty = self.held_bytes + len(head) + len(data)
        if head:
            self._transport.writelines((head, data))
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._send_head()
        self._transport.close()

    def _send_head(self) -> None:
        if self._head:
            self.write(b"")


class _Flow(FlowControl):
    """Says when reading goes on, and asks nothing of a transport that closes: it would raise."""

    def __init__(self, transport: asyncio.Transport, on_resumed: Callable[[], None]) -> None:
        super().__init__(transport)
        self._on_resumed = on_resumed

    def pause_reading(self) -> None:
        if not self._transport.is_closing():
            super().pause_reading()

    def resume_reading(self) -> None:
        if self.read_paused and not self._transport.is_closing():
            super().resume_reading()
            self._on_resumed()
