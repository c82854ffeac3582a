"""Listens for Kafka clients."""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from goqueue.doors.kafka.call_room import CallRoom
from goqueue.doors.kafka.connection import Connection
from goqueue.doors.kafka.fetch_sessions import FetchSessions
from goqueue.doors.kafka.frame_reader import SCRATCH_BYTES
from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.kafka.open_connections import OpenConnections
from goqueue.doors.kafka.operation import DoorServices
from goqueue.doors.kafka.request_limits import RequestLimits
from goqueue.doors.kafka.request_memory import RequestMemory
from goqueue.doors.kafka.sasl.connection import SecuredConnection
from goqueue.doors.kafka.sasl.sessions import SaslSessions
from goqueue.doors.kafka.share_sessions import ShareSessions
from goqueue.doors.kafka.turn import Turn
from goqueue.doors.listening import Listeners
from goqueue.doors.places import Places
from goqueue.model.broker_config import BrokerConfig
from goqueue.service.broker_service import BrokerService

if TYPE_CHECKING:
    from goqueue.doors.tls.entrance import TlsEntrance

log = logging.getLogger(__name__)

# Running requests get this long to finish at shutdown; the whole process has two seconds.
FINISH_TIMEOUT_SECONDS: Final = 0.5
LISTEN_BACKLOG: Final = 1024
# Idle connections are looked for this many times per idle time-out, within the limits below.
IDLE_SWEEPS_PER_TIMEOUT: Final = 4
IDLE_SWEEP_MIN_SECONDS: Final = 0.1
IDLE_SWEEP_MAX_SECONDS: Final = 30.0


class KafkaDoor:
    def __init__(
        self, service: BrokerService, config: BrokerConfig, *, tls: "TlsEntrance | None" = None
    ) -> None:
        self._config = config
        self._tls = tls
        self._memory = RequestMemory(
            config.queued_max_request_bytes,
            lambda: [each for each in self.connections if not each.is_brokers],
        )
        calls_memory = RequestMemory(
            config.queued_max_request_bytes,
            lambda: [each for each in self.connections if each.is_brokers],
        )
        self._services = DoorServices(
            service=service,
            config=config,
            operations=OPERATIONS,
            fetch_sessions=FetchSessions(
                config.max_incremental_fetch_session_cache_slots,
                max_parts=config.max_incremental_fetch_session_partitions,
            ),
            share_sessions=ShareSessions(
                config.group_share_max_share_sessions, service.share_groups.connection_lost
            ),
            limits=RequestLimits(config, OPERATIONS),
            memory=self._memory,
            call_room=CallRoom(calls_memory),
            sasl=SaslSessions(service.log_ins, service.measuring.traffic.kafka),
            traffic=service.measuring.traffic.kafka,
        )
        self._kind = SecuredConnection if service.log_ins.is_on else Connection
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.connections: OpenConnections[Connection] = OpenConnections(
            config.max_connections,
            service.measuring.traffic.kafka.connections,
            limit_per_host=config.max_connections_per_ip,
            places=self._places(config) if service.log_ins.is_on else None,
        )
        self._turn = Turn(service.quotas.parties)
        service.administration.follow_settings(self._use_settings)
        self._listeners: Listeners | None = None
        self._idle_sweep: asyncio.Task[None] | None = None

    @staticmethod
    def _places(config: BrokerConfig) -> Places[Connection]:
        return Places(
            config.max_connections,
            # One that waits for messages is in use.
            worth=lambda each: (each.is_busy, each.last_active_seconds),
            hang_up=lambda each: each.cut_off(
                "max.connections are open, and most of them are of its tenant or user"
            ),
        )

    def _use_settings(self, config: BrokerConfig) -> None:
        """Those that are open beyond a lower limit stay."""
        self.connections.limit_to(config.max_connections, per_host=config.max_connections_per_ip)
        self._idle_seconds = config.connections_max_idle_ms / 1000

    async def start(self) -> tuple[str, int]:
        """Listen, and return the address listened on."""
        loop = asyncio.get_running_loop()
        connect = self._connection if self._tls is None else self._tls.around(self._connection)
        self._listeners = await Listeners.open(
            connect, self._config.host, self._config.kafka_port, backlog=LISTEN_BACKLOG
        )
        self._idle_sweep = loop.create_task(self._close_idle())
        self._services.sasl.start()
        return self.address

    @property
    def address(self) -> tuple[str, int]:
        assert self._listeners is not None
        return self._config.host, self._listeners.address[1]

    def _connection(self) -> Connection:
        return self._kind(self._services, self._memory, self._scratch, self.connections, self._turn)

    def send_away(self) -> None:
        """Close every connection: others lead what this broker led. Who comes again is told so."""
        for connection in self.connections:
            connection.finish()

    async def stop(self) -> None:
        """Stop listening, let running requests finish briefly, close every connection."""
        if self._listeners is not None:
            self._listeners.close()
        if self._idle_sweep is not None:
            self._idle_sweep.cancel()
            self._services.sasl.stop()
        for connection in self.connections:
            connection.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_TIMEOUT_SECONDS):
                await self.connections.wait_none_open()
        for connection in self.connections:
            connection.abort()
        self._listeners = None

    async def _close_idle(self) -> None:
        stalled_seconds = self._config.connections_max_stalled_ms / 1000
        loop = asyncio.get_running_loop()
        while True:
            idle_seconds = self._idle_seconds
            interval = min(idle_seconds, stalled_seconds) / IDLE_SWEEPS_PER_TIMEOUT
            await asyncio.sleep(min(max(interval, IDLE_SWEEP_MIN_SECONDS), IDLE_SWEEP_MAX_SECONDS))
            now = loop.time()
            for connection in self.connections:
                if connection.look_for_progress(now) < now - stalled_seconds:
                    connection.cut_off("no byte of a request or an answer moved for too long")
                elif connection.last_active_seconds < now - idle_seconds and not connection.is_busy:
                    log.debug("connection from %s closed: idle", connection.client_host)
                    connection.abort()
