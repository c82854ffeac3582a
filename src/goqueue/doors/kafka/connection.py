"""One client's connection: bytes to requests, and answers to bytes in the order of the requests.

Requests of a connection run one after another, as Kafka runs them, so a pipelined request sees
what the one before it did. Only operations that overlap (produce: it appends before it first
waits) run side by side. What arrives is worked on in turns that all connections share (`turn`);
a request that need not wait is answered in the turn in which it is read, without a task.
"""

import asyncio
import logging
from collections import deque
from dataclasses import replace
from time import perf_counter
from typing import Final, cast

from goqueue.doors.kafka.eager import begin
from goqueue.doors.kafka.exchange import Exchange
from goqueue.doors.kafka.frame_reader import FrameReader
from goqueue.doors.kafka.open_connections import OpenConnections
from goqueue.doors.kafka.operation import (
    CloseConnection,
    DoorServices,
    Operation,
    RequestContext,
)
from goqueue.doors.kafka.request_memory import RequestMemory
from goqueue.doors.kafka.turn import Turn
from goqueue.doors.kafka.wire.reading import Malformed
from goqueue.doors.kafka.wire.request_header import RequestHeader, read_request_header
from goqueue.doors.kafka.wire.writing import Chunks
from goqueue.model.caller import ANONYMOUS, Caller, Door

log = logging.getLogger(__name__)

# Unsent answer bytes from which on no further request of the connection is started.
WRITE_HIGH_WATER_BYTES: Final = 1024 * 1024

# Why a connection is not read from at the moment.
UNSENT_ANSWERS: Final = "unsent answers"
REQUESTS_IN_FLIGHT: Final = "requests in flight"
MEMORY: Final = "memory"
FAILURE: Final = "failure"
SHUTDOWN: Final = "shutdown"

CANCELLED: Final = "cancelled"


class Connection(asyncio.BufferedProtocol):
    def __init__(
        self,
        services: DoorServices,
        memory: RequestMemory,
        scratch: memoryview,
        connections: OpenConnections["Connection"],
        turn: Turn,
    ) -> None:
        self._services = services
        self._traffic = services.traffic
        self._memory = memory
        limit_bytes = services.config.socket_request_max_bytes
        self._frames = FrameReader(scratch, memory, limit_bytes)
        self._connections = connections
        self._max_in_flight = services.config.max_requests_in_flight_per_connection
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._unanswered: deque[Exchange] = deque()
        self._queued: deque[Exchange] = deque()
        self._running: set[Exchange] = set()
        self._runs_overlapping = False
        self._turn = turn
        self._has_joined = False
        self._holds: set[str] = set()
        self._is_paused = False
        self._failure: str | None = None
        self._is_ending = False
        self.client_host = ""
        self._caller = Caller(principal=ANONYMOUS, door=Door.KAFKA)
        self.last_active_seconds = self._loop.time()

    @property
    def is_busy(self) -> bool:
        return bool(self._running)

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    # --- asyncio's side -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if isinstance(peer, tuple) else "local"
        self._caller = replace(self._caller, address=self.client_host)
        if self._connections.is_full:
            log.warning(
                "connection from %s closed: max.connections is %d",
                self.client_host,
                self._connections.limit,
            )
            self._connections.refuse()
            self._is_ending = True
            self._transport.abort()
            return
        self._connections.add(self)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._is_ending = True
        self._transport = None
        self._connections.discard(self)
        self._memory.forget(self)
        self._frames.drop()
        self._drop_queued()
        self._cancel_waiting()
        # After cancelling: a share fetch that was waiting acquires nothing any more.
        ended = self._services.share_sessions.connection_lost(self)
        self._services.service.share_groups.connection_lost(ended)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._hold(UNSENT_ANSWERS)

    def resume_writing(self) -> None:
        self._release(UNSENT_ANSWERS)
        self._proceed()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active_seconds = self._loop.time()
        if self._is_ending:
            return
        frame = None if self._holds else self._frames.only_frame(nbytes)
        if frame is None:
            self._frames.arrived(nbytes)
            self._read_frames()
        else:
            try:
                self._accept(frame)
            except Malformed as error:
                self._fail(str(error))
        self._proceed()

    # --- bytes to requests ----------------------------------------------------------------

    def _read_frames(self) -> None:
        try:
            while not self._holds and (frame := self._frames.next_frame()) is not None:
                self._accept(frame)
        except Malformed as error:
            self._fail(str(error))
        self._frames.keep()

    def _accept(self, frame: memoryview) -> None:
        """Queue the request in `frame`, whose bytes are already counted."""
        try:
            header, operation = self._recognise(frame)
        except Malformed:
            self._memory.give_back(len(frame))
            raise
        exchange = Exchange(header, operation, frame)
        self._unanswered.append(exchange)
        self._queued.append(exchange)
        if len(self._unanswered) >= self._max_in_flight:
            self._hold(REQUESTS_IN_FLIGHT)
        if self._memory.is_full:
            self._hold(MEMORY)
            self._memory.wait(self)

    def _recognise(self, frame: memoryview) -> tuple[RequestHeader, Operation]:
        header = read_request_header(frame)
        operation = self._services.operations.get(header.api_key)
        if operation is None:
            raise Malformed(f"unknown API key {header.api_key}")
        if operation.min_version <= header.version <= operation.max_version:
            return header, operation
        if operation.answers_newer_versions and header.version > operation.max_version:
            return header, operation
        raise Malformed(f"{operation.name} version {header.version} is not served")

    # --- running --------------------------------------------------------------------------

    def _proceed(self) -> None:
        """Go on in the next turn."""
        if not self._has_joined:
            self._has_joined = True
            self._turn.join(self)

    def read_requests(self) -> None:
        self._has_joined = False
        for exchange in self._queued:
            if not exchange.is_read:
                try:
                    exchange.read()
                except Malformed as error:
                    exchange.failure = f"{exchange.operation.name}: {error}"
                except Exception:
                    exchange.failure = self._internal_error(exchange)
            if not exchange.operation.overlaps:
                # What cannot start yet stays bytes: decoded it can take many times as much.
                return

    def start_requests(self) -> None:
        if self._unanswered and self._unanswered[0].is_done:
            # Answers may be large: no further one is made before these are on their way.
            self.send_answers()
        # What arrived since the turn began is for the next one.
        while self._may_start() and self._queued[0].is_read:
            exchange = self._queued.popleft()
            operation = exchange.operation
            if exchange.failure is not None:
                self._done(exchange)
                return
            self._running.add(exchange)
            self._runs_overlapping = operation.overlaps
            if operation.starts_at_once:
                exchange.task = begin(self._run(exchange))
            else:
                exchange.task = self._loop.create_task(self._run(exchange))
            if not operation.overlaps:
                return

    def _may_start(self) -> bool:
        if not self._queued or self._is_ending or UNSENT_ANSWERS in self._holds:
            return False
        return not self._running or (self._runs_overlapping and self._queued[0].operation.overlaps)

    async def _run(self, exchange: Exchange) -> None:
        header, operation = exchange.header, exchange.operation
        caller = self._caller
        if header.client_id != caller.client_id:
            caller = self._caller_of(header.client_id or "")
        self._services.service.tracing.asked_by(caller)
        context = RequestContext(
            self._services, exchange.version, header.correlation_id, caller, self
        )
        request, exchange.request = exchange.request, None
        try:
            exchange.message = await operation.handle(context, request)
        except (Malformed, CloseConnection) as error:
            exchange.failure = f"{operation.name}: {error}"
        except asyncio.CancelledError:
            # The client is gone or the broker is going: no use in waiting on.
            exchange.failure = CANCELLED
        except Exception:
            exchange.failure = self._internal_error(exchange)
        self._running.discard(exchange)
        self._done(exchange)

    def _done(self, exchange: Exchange) -> None:
        exchange.is_done = True
        self._memory.give_back(exchange.size_bytes)
        if exchange.task is not None:
            self._proceed()

    def _internal_error(self, exchange: Exchange) -> str:
        log.exception(
            "%s from %s failed; its connection is closed",
            exchange.operation.name,
            self.client_host,
        )
        return "internal error"

    def _caller_of(self, client_id: str) -> Caller:
        """Clients hardly ever change what they call themselves."""
        if client_id != self._caller.client_id:
            self._caller = replace(self._caller, client_id=client_id)
        return self._caller

    def send_answers(self) -> None:
        unanswered = self._unanswered
        ready: Chunks = []
        while unanswered and unanswered[0].is_done:
            exchange = unanswered.popleft()
            name = exchange.operation.name
            if exchange.failure is None:
                try:
                    ready += exchange.answer()
                except Exception:
                    exchange.failure = self._internal_error(exchange)
            if exchange.failure is not None:
                if exchange.failure is not CANCELLED:
                    self._traffic.failures[name] += 1
                self._write(ready)
                self._end(exchange.failure)
                return
            self._traffic.latencies[name].observe(perf_counter() - exchange.arrived_seconds)
        self._write(ready)
        if self._failure is not None and not unanswered:
            self._end(self._failure)
        elif self._is_ending and not self._running:
            self._close_transport()
        elif self._holds and len(unanswered) < self._max_in_flight:
            self._release(REQUESTS_IN_FLIGHT)
        if self._may_start():
            self._proceed()

    def _write(self, chunks: Chunks) -> None:
        if chunks and self._transport is not None and not self._transport.is_closing():
            self.last_active_seconds = self._loop.time()
            self._transport.writelines(chunks)

    # --- holding back ---------------------------------------------------------------------

    def _hold(self, reason: str) -> None:
        self._holds.add(reason)
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def _release(self, reason: str) -> None:
        if reason not in self._holds:
            return
        self._holds.discard(reason)
        if self._holds or self._is_ending or self._transport is None:
            return
        self._frames.arrived(0)
        self._read_frames()
        if not self._holds:
            self._is_paused = False
            self._transport.resume_reading()

    def memory_freed(self) -> None:
        self._release(MEMORY)
        self._proceed()

    # --- ending ---------------------------------------------------------------------------

    def _fail(self, reason: str) -> None:
        """No way to go on reading: answer what came before, then close."""
        self._failure = reason
        self._frames.drop()
        self._hold(FAILURE)
        if not self._unanswered:
            self._end(reason)

    def _end(self, reason: str) -> None:
        if self._is_ending:
            self._close_transport()
            return
        log.info("connection from %s closed: %s", self.client_host, reason)
        self._is_ending = True
        self._drop_queued()
        self._close_transport()

    def _drop_queued(self) -> None:
        for exchange in self._queued:
            self._memory.give_back(exchange.size_bytes)
        self._queued.clear()

    def _close_transport(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """Stop reading, end what only waits, let the rest finish, then close."""
        self._is_ending = True
        self._hold(SHUTDOWN)
        self._drop_queued()
        self._cancel_waiting()
        # Closes when nothing is running, after what is answered.
        self.send_answers()

    def _cancel_waiting(self) -> None:
        for exchange in self._running:
            if exchange.operation.waits and exchange.task is not None:
                exchange.task.cancel()

    def abort(self) -> None:
        self._is_ending = True
        if self._transport is not None:
            self._transport.abort()
