"""Opens and closes the HTTP door on the running event loop."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from goqueue.doors.http.body import BODIES_HELD_MAX_BYTES
from goqueue.doors.http.connection import CONNECTIONS_MAX, KEEP_ALIVE_SECONDS, HttpConnection
from goqueue.doors.http.entry import Entry
from goqueue.doors.http.readiness import Readiness
from goqueue.doors.http.reserve import Reserve
from goqueue.doors.http.traffic import Traffic
from goqueue.doors.http.unsent import UnsentAnswers
from goqueue.doors.listening import Listeners
from goqueue.doors.lost_connections import LostConnections
from goqueue.doors.places import Places
from goqueue.doors.web.asgi import Application
from goqueue.doors.web.bodies import BodyReader
from goqueue.doors.web.late_app import LateApp
from goqueue.doors.web.mounting import Mount
from goqueue.doors.web.site_guard import SiteGuard
from goqueue.doors.web.turns import Turns
from goqueue.model.broker_config import BrokerConfig
from goqueue.service.broker_service import BrokerService

if TYPE_CHECKING:
    from goqueue.doors.tls.entrance import TlsEntrance

# Connections waiting to be accepted, as many as Linux keeps by default (net.core.somaxconn).
BACKLOG: Final = 4_096
# Requests under way get this long to end by themselves; the whole stop stays below one second.
STOP_GRACE_SECONDS: Final = 0.4
# What still waits then, such as for a leader, is refused; clients get this long to take it.
STOP_REFUSAL_SECONDS: Final = 0.2
# After a cancelled request was hung up on, its task needs a few turns of the loop.
STOP_SETTLE_SECONDS: Final = 0.2


# What a client does wrong is answered, and counted in the metrics; a line for each would let it
# fill the log.
logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


class HttpDoor:
    """uvicorn's connections without uvicorn's server: no signal handlers, no polling loop."""

    def __init__(
        self,
        service: BrokerService,
        config: BrokerConfig,
        *,
        mounts: Sequence[Mount] = (),
        shares_port: bool = False,
        tls: "TlsEntrance | None" = None,
    ) -> None:
        """`shares_port`: other processes listen at the same port, and the kernel deals connections
        out among them."""
        self._service = service
        self._shares_port = shares_port
        self._tls = tls
        self._mounts = mounts
        self._host = config.host
        self._port = config.http_port
        self._closing = asyncio.Event()
        self._connections = ServerState()
        self._traffic = Traffic(self._connections.connections)
        self._bodies = BodyReader(
            max_bytes=config.http_request_max_bytes, held_max_bytes=BODIES_HELD_MAX_BYTES
        )
        # Now: it tells by what changes from here on that the broker has announced itself.
        self._readiness = Readiness(service.administration, self._closing)
        self._app = LateApp(self._build_app)
        self._entry = Entry(
            service,
            app=self._app,
            bodies=self._bodies,
            traffic=self._traffic,
            guard=SiteGuard(_own_names(config)),
            closing=self._closing,
            mounts=mounts,
        )
        self._reserve = Reserve(self._entry)
        self._unsent = UnsentAnswers()
        self._turns = Turns(is_on=service.web_logins.is_on)
        # None: nobody logs in, and who comes last is refused.
        self._places: Places[HttpConnection] | None = None
        if service.web_logins.is_on:
            self._places = Places(
                CONNECTIONS_MAX,
                worth=lambda each: (each.is_busy, 0.0),
                hang_up=HttpConnection.make_room,
            )
        self._lost = LostConnections()
        self._body_min_bytes_per_second = config.http_request_min_bytes_per_second
        self._uvicorn = Config(
            self._entry,
            interface="asgi3",
            http=HttpConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self._listeners: Listeners | None = None
        self._drained = asyncio.Event()
        self._clock: asyncio.TimerHandle | None = None

    def _build_app(self) -> Application:
        """Runs in a thread; what it imports is needed for nothing else."""
        from goqueue.doors.http.app import build_app
        from goqueue.doors.http.metrics import Exposition

        return build_app(
            self._service,
            bodies=self._bodies,
            readiness=self._readiness,
            exposition=Exposition(self._service, self._traffic),
            closing=self._closing,
        )

    async def start(self) -> tuple[str, int]:
        """Listen; returns the address bound. `OSError` if it cannot be."""
        self._uvicorn.load()
        self._set_date()
        try:
            self._listeners = await Listeners.open(
                self._connect if self._tls is None else self._tls.around(self._connect),
                self._host,
                self._port,
                backlog=BACKLOG,
                shares_port=self._shares_port,
            )
        except OSError:
            self._stop_clock()
            raise
        return self._listeners.address

    def load_app_soon(self) -> None:
        """Once the broker is ready: nobody should have to wait for the web framework."""
        self._app.begin_soon()

    async def stop(self) -> None:
        """Refuse new requests, end the waiting ones, hang up; takes less than a second."""
        if self._listeners is None:
            return
        self._listeners.close()
        self._listeners = None
        self._closing.set()
        for mount in self._mounts:
            mount.close()
        for connection in tuple(self._connections.connections):
            connection.shutdown()
        await self._drain(STOP_GRACE_SECONDS)
        for connection in tuple(self._connections.connections):
            if isinstance(connection, HttpConnection):
                connection.send_away()
        await self._drain(STOP_REFUSAL_SECONDS)
        for connection in tuple(self._connections.connections):
            connection.transport.abort()
        self._turns.stop()
        unfinished = tuple(self._connections.tasks)
        for task in unfinished:
            task.cancel()
        if unfinished:
            await asyncio.wait(unfinished, timeout=STOP_SETTLE_SECONDS)
        await self._app.stop()
        self._stop_clock()

    async def _drain(self, seconds: float) -> None:
        """Wait until every connection has had its answers, or for as long as we may."""
        if not self._connections.connections:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._drained.wait()
        except TimeoutError:
            return

    def _connect(self) -> HttpConnection:
        return HttpConnection(
            on_lost=self._drained_with_last,
            lost=self._lost,
            reserve=self._reserve,
            unsent=self._unsent,
            turns=self._turns,
            parties=self._service.quotas.parties,
            places=self._places,
            body_min_bytes_per_second=self._body_min_bytes_per_second,
            config=self._uvicorn,
            server_state=self._connections,
            app_state={},
        )

    def _drained_with_last(self) -> None:
        if self._closing.is_set() and not self._connections.connections:
            self._drained.set()

    def _set_date(self) -> None:
        """Keep the Date header of answers (RFC 9110, 6.6.1) right to the second."""
        self._connections.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        self._clock = asyncio.get_running_loop().call_later(1, self._set_date)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None


def _own_names(config: BrokerConfig) -> list[str]:
    """The machine's own name is advertised by a broker that listens on every address."""
    return [config.host, config.advertised_host, socket.gethostname(), *config.http_allowed_hosts]
