"""One client's connection: bytes to requests, and answers to bytes in the order of the requests.

Requests of a connection run one after another, as Kafka runs them, so a pipelined request sees
what the one before it did. Only operations that overlap (produce: it appends before it first
waits) run side by side. What arrives is worked on in turns that all connections share (`turn`);
a request that need not wait is answered in the turn in which it is read, without a task.
A connection on which another broker sends its calls carries nothing else.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Final, cast

from goqueue.doors.kafka import holds
from goqueue.doors.kafka.broker_calls import BrokerCalls
from goqueue.doors.kafka.connection_quota import ConnectionQuota
from goqueue.doors.kafka.exchange import Exchange
from goqueue.doors.kafka.frame_reader import OWN_BUFFER_FROM_BYTES, FrameReader
from goqueue.doors.kafka.large_requests import LARGE_ELEMENTS
from goqueue.doors.kafka.low_water import LowWater
from goqueue.doors.kafka.open_connections import OpenConnections
from goqueue.doors.kafka.operation import (
    CloseConnection,
    DoorServices,
    RequestContext,
    recognised,
)
from goqueue.doors.kafka.request_memory import RequestMemory
from goqueue.doors.kafka.turn import Turn
from goqueue.doors.kafka.unsent_answers import UnsentAnswers
from goqueue.doors.kafka.wire.reading import Malformed
from goqueue.doors.kafka.wire.request_header import RequestHeader, read_request_header
from goqueue.doors.kafka.wire.writing import Chunks
from goqueue.doors.loop_time import timed
from goqueue.eager import begin
from goqueue.model.caller import ANONYMOUS, Caller, Door
from goqueue.model.calls import CALL_API_KEY
from goqueue.model.security.quotas import LimitReached

# Unsent answer bytes from which on they are counted, and no further request is started.
WRITE_HIGH_WATER_BYTES: Final = 64 * 1024

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
        self._memory = memory
        self._limits = services.limits
        self._frames = FrameReader(scratch, memory, services.limits)
        self._low_water = LowWater()
        self._connections = connections
        self._max_in_flight = services.config.max_requests_in_flight_per_connection
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        # Lists, as they are short: a deque takes ten times as much while it is empty.
        self._unanswered: list[Exchange] = []
        self._queued: list[Exchange] = []
        self._running: set[Exchange] = set()
        self._runs_overlapping = False
        # None: it is no broker's.
        self._calls: BrokerCalls | None = None
        self._turn = turn
        self._has_joined = False
        self._hurry: Callable[[], None] | None = None
        self._holds: set[str] = set()
        self._is_paused = False
        self._failure: str | None = None
        self._is_ending = False
        self._unsent = UnsentAnswers(memory)
        self.quota = ConnectionQuota(services.service.quotas, self._hold, self._go_on)
        self._partial_since_seconds = 0.0
        self.client_host = ""
        self._caller = Caller(principal=ANONYMOUS, door=Door.KAFKA)
        self.last_active_seconds = self._loop.time()

    @property
    def is_busy(self) -> bool:
        return bool(self._running) or bool(self._calls)

    @property
    def is_brokers(self) -> bool:
        return self._calls is not None

    @contextmanager
    def hurrying(self, hurry: Callable[[], None]) -> Iterator[None]:
        """Call `hurry` when a further request arrives meanwhile."""
        self._hurry = hurry
        if self._queued:
            hurry()
        try:
            yield
        finally:
            self._hurry = None

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    # --- asyncio's side -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client_host, port = peer[:2] if isinstance(peer, tuple) else ("local", 0)
        self._caller = replace(self._caller, address=self.client_host, port=port)
        refusal = self._connections.refusal(self, self.client_host)
        if refusal is not None:
            self._write_line(logging.WARNING, "connection from %s closed: %s", refusal)
            self._connections.refuse()
            self._is_ending = True
            self._transport.abort()
            return
        self._connections.add(self, self.client_host)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self.quota.connected(self.client_host)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._is_ending = True
        self._transport = None
        # The rest when there is time for it: thousands may be lost at once.
        self._services.lost.add(self._end_lost)

    def _end_lost(self) -> None:
        self._connections.discard(self, self.client_host)
        self.quota.end()
        self._memory.forget(self)
        self._unsent.count(0)
        self._frames.drop()
        self._drop_queued()
        for exchange in self._running:
            if exchange.ends_with_client and exchange.task is not None:
                exchange.task.cancel()
        if self._calls is not None:
            self._calls.forget_all()
        # After cancelling: a share fetch that was waiting acquires nothing any more.
        ended = self._services.share_sessions.connection_lost(self)
        self._services.service.share_groups.connection_lost(ended)

    def pause_writing(self) -> None:
        self._unsent.since_seconds = self._loop.time()
        self._hold(holds.UNSENT_ANSWERS)
        self._unsent.count(self.unsent_bytes)

    def resume_writing(self) -> None:
        self._unsent.since_seconds = 0.0
        self._unsent.count(0)
        self._go_on(holds.UNSENT_ANSWERS)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active_seconds = self._loop.time()
        if self._is_ending and self._calls is None:
            return
        if not self._frames.is_still_partial(nbytes):
            self._take(nbytes)
        self._low_water.expect(self._frames.missing_bytes, self._transport)

    def _take(self, nbytes: int) -> None:
        frame = None if self._holds else self._frames.only_frame(nbytes)
        if frame is None:
            self._read_frames(nbytes)
        else:
            try:
                self._accept(frame)
            except Malformed as error:
                self._fail(str(error))
        self._proceed()

    # --- bytes to requests ----------------------------------------------------------------

    def _read_frames(self, nbytes: int) -> None:
        self._frames.arrived(nbytes)
        try:
            while not self._holds and (frame := self._frames.next_frame()) is not None:
                self._accept(frame)
        except Malformed as error:
            self._fail(str(error))
        self._frames.keep()
        partial_bytes = self._frames.partial_bytes
        if not partial_bytes:
            self._partial_since_seconds = 0.0
            return
        self._partial_since_seconds = self._partial_since_seconds or self._loop.time()
        if partial_bytes >= OWN_BUFFER_FROM_BYTES and self._memory.is_tight:
            # It is large, and read on when there is room for more of it.
            self._hold(holds.MEMORY)
            self._memory.wait(self)

    def _accept(self, frame: memoryview) -> None:
        """Queue the request in `frame`, whose bytes are already counted."""
        try:
            header = read_request_header(frame)
            if header.api_key == CALL_API_KEY:
                self._take_call(header, frame)
                return
            if self._calls is not None:
                raise Malformed("a request of a client among calls of a broker")
            operation = recognised(self._services.operations, header)
        except Malformed:
            self._memory.give_back(len(frame))
            raise
        self._queue(Exchange(header, operation, frame))

    def _queue(self, exchange: Exchange) -> None:
        self._unanswered.append(exchange)
        self._queued.append(exchange)
        if self._hurry is not None:
            self._hurry()
        if len(self._unanswered) >= self._max_in_flight:
            self._hold(holds.REQUESTS_IN_FLIGHT)
        if self._memory.is_full:
            self._hold(holds.MEMORY)
            self._memory.wait(self)

    def _take_call(self, header: RequestHeader, frame: memoryview) -> None:
        if self._calls is None:
            if self._unanswered:
                raise Malformed("a call of a broker behind requests of a client")
            room = self._services.call_room
            self._memory = room.take_over(self._memory, len(frame), self._frames, self._unsent)
            self._calls = BrokerCalls(self._services.service.calls, room.of_a_connection(), self)
        self._calls.take(self._caller, header, frame)

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
                self._read(exchange)
            if not exchange.overlaps:
                # What cannot start yet stays bytes: decoded it can take many times as much.
                return

    def _read(self, exchange: Exchange) -> None:
        try:
            exchange.read(self._limits)
        except Malformed as error:
            exchange.failure = exchange.refusal(self._limits, error)
        except Exception:
            exchange.failure = self._internal_error(exchange)

    def start_requests(self) -> None:
        if self._unanswered and self._unanswered[0].is_done:
            # Answers may be large: no further one is made before these are on their way.
            self.send_answers()
        # What arrived since the turn began is for the next one.
        elements = 0
        while self._may_start() and self._queued[0].is_read and elements <= LARGE_ELEMENTS:
            exchange = self._queued.pop(0)
            elements += exchange.elements
            if exchange.failure is not None:
                self._done(exchange)
                return
            self._running.add(exchange)
            self._runs_overlapping = exchange.overlaps
            if exchange.operation.starts_at_once:
                exchange.task = begin(self._run(exchange))
            else:
                exchange.task = self._loop.create_task(self._run(exchange))
                exchange.task.add_done_callback(partial(self._never_ran, exchange))
            if not self._runs_overlapping:
                return

    def _may_start(self) -> bool:
        if not self._queued or self._is_ending or not self._holds.isdisjoint(holds.STANDING_STILL):
            return False
        return not self._running or (self._runs_overlapping and self._queued[0].overlaps)

    async def _run(self, exchange: Exchange) -> None:
        services, header, caller = self._services, exchange.header, self._caller
        client_id = header.client_id or ""
        if client_id != caller.client_id:
            # Clients hardly ever change what they call themselves.
            caller = self._caller = replace(caller, client_id=client_id)
        services.service.tracing.asked_by(caller)
        context = RequestContext(
            services, exchange.version, header.correlation_id, caller, self, exchange.size_bytes
        )
        try:
            context.quota = self.quota.of(caller)
            if exchange.is_decoded:
                await self._handle(exchange, context)
            else:
                decode = partial(exchange.decode_in_slices, self._limits)
                async with services.large_requests_like(exchange.operation).in_hand(decode):
                    await self._handle(exchange, context)
        except (Malformed, CloseConnection, LimitReached) as error:
            exchange.failure = exchange.refusal(self._limits, error)
        except asyncio.CancelledError:
            # The client is gone or the broker is going: no use in waiting on.
            exchange.failure = CANCELLED
        except Exception:
            exchange.failure = self._internal_error(exchange)
        self._running.discard(exchange)
        self._done(exchange)

    async def _handle(self, exchange: Exchange, context: RequestContext) -> None:
        request, exchange.request = exchange.request, None
        exchange.is_handled = True
        work, quota = exchange.operation.answer(context, request), context.quota
        if quota is not None and quota.requests:
            work = timed(work, quota.spent)
        message = await work
        exchange.message = message if quota is None else quota.told(message)
        exchange.is_handled = False
        if exchange.has_large_answer:
            # Some take a hundred megabytes, and until they are written few (`Rows`).
            async with self._services.large_answers:
                await exchange.encode_in_slices()

    def _never_ran(self, exchange: Exchange, _: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step does nothing of what `_run` says."""
        if exchange in self._running:
            exchange.failure = CANCELLED
            self._running.discard(exchange)
            self._done(exchange)

    def _done(self, exchange: Exchange) -> None:
        exchange.is_done = True
        self._memory.give_back(exchange.size_bytes)
        if exchange.task is not None:
            self._proceed()

    def _internal_error(self, exchange: Exchange) -> str:
        message = "a request from %s failed, and its connection is closed: %s"
        self._write_line(logging.ERROR, message, exchange.operation.name)
        return "internal error"

    def _write_line(self, level: int, message: str, reason: str) -> None:
        host, is_ours = self.client_host, level == logging.ERROR
        self._services.lines.write(level, host, message, host, reason, with_trace=is_ours)

    def send_answers(self) -> None:
        unanswered, traffic = self._unanswered, self._services.traffic
        ready: Chunks = []
        while unanswered and unanswered[0].is_done:
            exchange = unanswered.pop(0)
            name = exchange.operation.name
            if exchange.failure is None:
                try:
                    ready += exchange.answer()
                except Exception:
                    exchange.failure = self._internal_error(exchange)
            if exchange.failure is not None:
                if exchange.failure is not CANCELLED:
                    traffic.failures[name] += 1
                self.write(ready)
                self.end(exchange.failure)
                return
            traffic.latencies[name].observe(perf_counter() - exchange.arrived_seconds)
        self.write(ready)
        if self._failure is not None and not unanswered:
            self.end(self._failure)
        elif self._is_ending:
            self.close_if_over()
        elif self._holds and len(unanswered) < self._max_in_flight:
            self._release(holds.REQUESTS_IN_FLIGHT)
        if self._may_start():
            self._proceed()

    def write(self, chunks: Chunks) -> None:
        if chunks and self._transport is not None and not self._transport.is_closing():
            self.last_active_seconds = self._loop.time()
            self._transport.writelines(chunks)
            if holds.UNSENT_ANSWERS in self._holds:
                self._unsent.count(self.unsent_bytes)

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
        self._read_frames(0)
        if not self._holds:
            self._is_paused = False
            self._transport.resume_reading()

    def _go_on(self, reason: str) -> None:
        self._release(reason)
        self._proceed()

    @property
    def stalled_bytes(self) -> int:
        """What is held until the client sends on, reads on, or gets what it waits for."""
        held_bytes = self._frames.partial_bytes + self._unsent.counted_bytes
        if holds.QUOTA in self._holds or any(each.operation.waits for each in self._running):
            held_bytes += sum(exchange.size_bytes for exchange in self._unanswered)
        return held_bytes

    @property
    def stalled_since_seconds(self) -> float:
        first = self._unanswered[0].arrived_seconds if self._unanswered else 0.0
        since = (self._partial_since_seconds, self._unsent.since_seconds, first)
        return min(filter(None, since), default=self._loop.time())

    def look_for_progress(self, now: float) -> float:
        """When a byte of a half-read request or answer last moved; `now` if there is none."""
        counted_bytes, unsent_bytes = self._unsent.counted_bytes, self.unsent_bytes
        if not self._frames.partial_bytes and not counted_bytes:
            return now
        self._low_water.expect_anything(self._transport)
        if 0 < unsent_bytes < counted_bytes:
            self._unsent.count(unsent_bytes)
            self.last_active_seconds = now
        elif holds.QUOTA in self._holds:
            self.last_active_seconds = now
        return self.last_active_seconds

    def memory_freed(self) -> None:
        self._go_on(holds.MEMORY)

    # --- ending ---------------------------------------------------------------------------

    def _fail(self, reason: str) -> None:
        """No way to go on reading: answer what came before, then close."""
        self._failure = reason
        self._frames.drop()
        self._hold(holds.FAILURE)
        if not self._unanswered:
            self.end(reason)

    def end(self, reason: str) -> None:
        if not self._is_ending:
            self._write_line(logging.INFO, "connection from %s closed: %s", reason)
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
        """Stop reading, or refuse calls; end what only waits, let the rest finish, then close."""
        self._is_ending = True
        if self._calls is not None:
            self._calls.finish()
        else:
            self._hold(holds.SHUTDOWN)
            self._drop_queued()
            for exchange in self._running:
                if exchange.operation.waits and exchange.task is not None:
                    exchange.task.cancel()
        # Closes when nothing is running, after what is answered.
        self.send_answers()

    def close_if_over(self) -> None:
        if self._is_ending and not self.is_busy:
            self._close_transport()

    def cut_off(self, reason: str) -> None:
        """Close at once: what it holds is needed for others."""
        self.end(reason)
        self.abort()
        # Not when the socket is closed, but now.
        self._frames.drop()
        self._unsent.count(0)

    def abort(self) -> None:
        self._is_ending = True
        if self._transport is not None:
            self._transport.abort()
