"""One client's connection: bytes to requests, and answers to bytes in the order of the requests.

Requests of a connection run one after another, as Kafka runs them, so a pipelined request sees
what the one before it did. Only operations that overlap (produce: it appends before it first
waits) run side by side.
"""

import asyncio
import logging
import struct
from collections import deque
from dataclasses import replace
from time import perf_counter
from typing import Final, cast

from goqueue.doors.kafka.frame_reader import FrameReader
from goqueue.doors.kafka.open_connections import OpenConnections
from goqueue.doors.kafka.operation import (
    CloseConnection,
    DoorServices,
    Operation,
    RequestContext,
)
from goqueue.doors.kafka.request_memory import RequestMemory
from goqueue.doors.kafka.wire.reading import Malformed
from goqueue.doors.kafka.wire.request_header import RequestHeader, read_request_header
from goqueue.doors.kafka.wire.schema import Schema, load_schema
from goqueue.doors.kafka.wire.writing import Chunks, Message, join_small
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

_FRAME_LENGTH: Final = struct.Struct(">i")


class Exchange:
    """A request and, later, its answer."""

    __slots__ = (
        "answer",
        "arrived_seconds",
        "body",
        "failure",
        "header",
        "is_done",
        "operation",
        "size_bytes",
        "task",
    )

    def __init__(self, header: RequestHeader, operation: Operation, body: memoryview) -> None:
        self.arrived_seconds = perf_counter()
        self.header = header
        self.operation = operation
        self.body: memoryview | None = body
        self.size_bytes = len(body)
        self.task: asyncio.Task[None] | None = None
        self.answer: Chunks | None = None
        self.failure: str | None = None
        self.is_done = False


class Connection(asyncio.BufferedProtocol):
    def __init__(
        self,
        services: DoorServices,
        memory: RequestMemory,
        scratch: memoryview,
        connections: OpenConnections["Connection"],
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
        self._start_queued()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active_seconds = self._loop.time()
        if self._is_ending:
            return
        self._frames.arrived(nbytes)
        self._read_frames()
        self._start_queued()

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

    def _start_queued(self) -> None:
        while self._queued and not self._is_ending:
            exchange = self._queued[0]
            if self._running and not (self._runs_overlapping and exchange.operation.overlaps):
                return
            if UNSENT_ANSWERS in self._holds:
                return
            self._queued.popleft()
            self._running.add(exchange)
            self._runs_overlapping = exchange.operation.overlaps
            exchange.task = self._loop.create_task(self._run(exchange))

    async def _run(self, exchange: Exchange) -> None:
        try:
            exchange.answer = await self._answer(exchange)
        except (Malformed, CloseConnection) as error:
            exchange.failure = f"{exchange.operation.name}: {error}"
        except asyncio.CancelledError:
            # The client is gone or the broker is going: no use in waiting on.
            exchange.failure = CANCELLED
        except Exception:
            log.exception(
                "%s from %s failed; its connection is closed",
                exchange.operation.name,
                self.client_host,
            )
            exchange.failure = "internal error"
        self._count(exchange)
        exchange.is_done = True
        exchange.body = None
        self._running.discard(exchange)
        self._memory.give_back(exchange.size_bytes)
        self._send_answers()
        self._start_queued()

    def _count(self, exchange: Exchange) -> None:
        name = exchange.operation.name
        if exchange.failure is None:
            self._traffic.latencies[name].observe(perf_counter() - exchange.arrived_seconds)
        elif exchange.failure is not CANCELLED:
            self._traffic.failures[name] += 1

    async def _answer(self, exchange: Exchange) -> Chunks | None:
        header, operation = exchange.header, exchange.operation
        is_known = header.version <= operation.max_version
        version = header.version if is_known else 0
        schema = load_schema(operation.api_key, version, operation.max_version)
        request = None
        assert exchange.body is not None
        if is_known:
            position = header.body_position(exchange.body, schema.has_tagged_request_header)
            request = schema.read_request(exchange.body, position)
        # The handler holds the parts of the frame that it needs.
        exchange.body = None
        caller = self._caller_of(header.client_id or "")
        self._services.service.tracing.asked_by(caller)
        context = RequestContext(
            services=self._services,
            version=version,
            correlation_id=header.correlation_id,
            caller=caller,
            connection=self,
        )
        message = await operation.handle(context, request)
        if message is None:
            return None
        return _framed(schema, header.correlation_id, message)

    def _caller_of(self, client_id: str) -> Caller:
        """Clients hardly ever change what they call themselves."""
        if client_id != self._caller.client_id:
            self._caller = replace(self._caller, client_id=client_id)
        return self._caller

    def _send_answers(self) -> None:
        ready: Chunks = []
        while self._unanswered and self._unanswered[0].is_done:
            exchange = self._unanswered.popleft()
            if exchange.failure is not None:
                self._write(ready)
                self._end(exchange.failure)
                return
            if exchange.answer is not None:
                ready += exchange.answer
        self._write(ready)
        if self._failure is not None and not self._unanswered:
            self._end(self._failure)
        elif self._is_ending and not self._running:
            self._close_transport()
        elif len(self._unanswered) < self._max_in_flight:
            self._release(REQUESTS_IN_FLIGHT)

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
        self._start_queued()

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
        if not self._running:
            self._close_transport()

    def _cancel_waiting(self) -> None:
        for exchange in self._running:
            if exchange.operation.waits and exchange.task is not None:
                exchange.task.cancel()

    def abort(self) -> None:
        self._is_ending = True
        if self._transport is not None:
            self._transport.abort()


def _framed(schema: Schema, correlation_id: int, message: Message) -> Chunks:
    chunks = schema.write_response(correlation_id, message)
    size = sum(map(len, chunks))
    return join_small((_FRAME_LENGTH.pack(size), *chunks))
