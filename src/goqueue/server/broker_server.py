"""A broker with its doors, on the event loop that runs it."""

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.broker.node import Node
from goqueue.doors.http import HttpDoor
from goqueue.doors.kafka import KafkaDoor
from goqueue.doors.registry import RegistryDoor
from goqueue.doors.sqs import SqsDoor
from goqueue.doors.web.mounting import Mount
from goqueue.metadata.store import MetadataStore
from goqueue.model.broker_config import BrokerConfig
from goqueue.server.addresses import (
    HTTP_OPTION,
    KAFKA_OPTION,
    Addresses,
    StartFailed,
    listen_failure,
)
from goqueue.server.exposure import check_exposure
from goqueue.server.loop_lag import LoopLagProbe
from goqueue.server.tls.settings import check_settings
from goqueue.service.broker_service import BrokerService

if TYPE_CHECKING:
    from goqueue.server.tls.reloading import Certificates

log = logging.getLogger(__name__)

_WILDCARD_HOSTS: Final = ("0.0.0.0", "::", "")

# Of the five seconds a shutdown may take, connections get this long to end by themselves.
DOOR_STOP_TIMEOUT_SECONDS: Final = 1.0


class _Door(Protocol):
    async def start(self) -> tuple[str, int]: ...
    async def stop(self) -> None: ...


class BrokerServer:
    """Opens a broker and its doors, and closes them in the opposite order."""

    def __init__(self, config: BrokerConfig, *, store: MetadataStore | None = None) -> None:
        """`store` makes it one of several workers: they have their metadata and their HTTP port in
        common."""
        self.config = config
        self._store = store
        self._broker: Node | None = None
        self._service: BrokerService | None = None
        self._doors: list[tuple[str, _Door]] = []
        self._loop_lag: LoopLagProbe | None = None
        self._certificates: Certificates | None = None

    @property
    def service(self) -> BrokerService:
        if self._service is None:
            raise StartFailed("the broker is not running; call start first")
        return self._service

    async def start(self) -> Addresses:
        check_exposure(self.config)
        if self._store is None and self.config.workers > 1:
            raise StartFailed(
                f"workers: {self.config.workers} processes are started by `goqueue serve` only; "
                "within a process there is one"
            )
        try:
            self._broker = await Node.open(self.config, store=self._store)
        except OSError as error:
            raise StartFailed(
                f"data directory {self.config.data_dir}: {error.strerror or error}; "
                "choose another with --data-dir, or correct its owner and permissions"
            ) from error
        try:
            return await self._open_doors(self._broker)
        except BaseException:
            await self.stop()
            raise

    async def _open_doors(self, broker: Node) -> Addresses:
        self._service = service = BrokerService(broker)
        tls = await self._load_certificates(service)
        mounts: list[Mount] = [SqsDoor(service), RegistryDoor(service)]
        shares_port = self._store is not None
        http_door = HttpDoor(
            service,
            self.config,
            mounts=mounts,
            shares_port=shares_port,
            tls=tls.entrance("HTTP") if tls is not None else None,
        )
        # HTTP first: its readiness answer turns positive only after `announce`. Where others answer
        # at the same port, one that is not ready yet must not.
        http = self.config.host, self.config.http_port
        if not shares_port:
            http = await self._open("HTTP", HTTP_OPTION, http_door)
        kafka_door = KafkaDoor(
            service, self.config, tls=tls.entrance("Kafka") if tls is not None else None
        )
        kafka = await self._open("Kafka", KAFKA_OPTION, kafka_door)
        if broker.cluster is not None:
            broker.cluster.stepped_down = kafka_door.send_away
        self._loop_lag = LoopLagProbe(service.measuring.traffic.loop_lag)
        self._loop_lag.start()
        host, port = self._advertised(*kafka)
        await broker.announce(host, port, http[1])
        if shares_port:
            http = await self._open("HTTP", HTTP_OPTION, http_door)
        http_door.load_app_soon()
        return Addresses(
            kafka_host=kafka[0],
            kafka_port=kafka[1],
            http_host=http[0],
            http_port=http[1],
            has_tls=tls is not None,
        )

    async def _load_certificates(self, service: BrokerService) -> "Certificates | None":
        check_settings(self.config)
        if not self.config.tls_certificate_file:
            return None
        from goqueue.server.tls.reloading import Certificates  # without TLS, none of it is needed

        self._certificates = await Certificates.load(self.config, service.measuring.traffic.tls)
        self._certificates.start()
        return self._certificates

    def reload_certificates(self) -> None:
        """Look at their files now."""
        if self._certificates is not None:
            self._certificates.reload_soon()

    async def _open(self, name: str, option: str, door: _Door) -> tuple[str, int]:
        try:
            address = await door.start()
        except OSError as error:
            port = self.config.http_port if option == HTTP_OPTION else self.config.kafka_port
            raise listen_failure(name, option, self.config.host, port, error) from error
        self._doors.append((name, door))
        return address

    def _advertised(self, host: str, port: int) -> tuple[str, int]:
        advertised = self.config.advertised_host
        if not advertised and host in _WILDCARD_HOSTS:
            advertised = _own_name()
            log.warning(
                "listening on every address, and clients are told to connect to %s; "
                "set advertised.host if they reach this machine by another name",
                advertised,
            )
        return advertised or host, self.config.advertised_kafka_port or port

    async def stop(self) -> bool:
        """Close the doors, then the broker; False if something is left to the next start."""
        if self._loop_lag is not None:
            self._loop_lag.stop()
        if self._certificates is not None:
            await self._certificates.stop()
        if self._broker is not None:
            await self._broker.hand_over()
        doors, self._doors = self._doors, []
        await asyncio.gather(*(_stop_door(name, door) for name, door in doors))
        broker, self._broker, self._service = self._broker, None, None
        return broker is None or await broker.close()


async def _stop_door(name: str, door: _Door) -> None:
    try:
        async with asyncio.timeout(DOOR_STOP_TIMEOUT_SECONDS):
            await door.stop()
    except TimeoutError:
        log.warning(
            "%s connections did not end within %g s; dropped", name, DOOR_STOP_TIMEOUT_SECONDS
        )
    except Exception:
        # The broker must still be closed, or the next start has to recover.
        log.exception("%s door failed while stopping", name)


def _own_name() -> str:
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "127.0.0.1"
    return name
