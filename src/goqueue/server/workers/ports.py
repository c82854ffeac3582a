"""Ports that are kept for the workers, also while one of them is being started again.

The supervisor binds each port and does not listen at it: to clients it is closed while no worker
listens, and no other program gets it. Workers bind the same port beside it, the HTTP port all of
them (SO_REUSEPORT).
"""

import contextlib
import socket
from typing import Final, Self

from goqueue.model.broker_config import BrokerConfig
from goqueue.model.errors import InvalidConfig
from goqueue.server.addresses import HTTP_OPTION, KAFKA_OPTION, listen_failure

_PORT_MAX: Final = 65_535


class KeptPorts:
    """Until `close`."""

    def __init__(self) -> None:
        self._sockets = contextlib.ExitStack()
        self.http = 0
        self.kafka: tuple[int, ...] = ()

    @classmethod
    def take(cls, config: BrokerConfig) -> Self:
        """`StartFailed` where another program has one of them."""
        wanted = kafka_ports(config)
        ports = cls()
        try:
            ports.kafka = tuple(
                ports._keep("Kafka", KAFKA_OPTION, config.host, port) for port in wanted
            )
            ports.http = ports._keep(
                "HTTP", HTTP_OPTION, config.host, config.http_port, is_shared=True
            )
        except BaseException:
            ports.close()
            raise
        return ports

    def close(self) -> None:
        self._sockets.close()

    def _keep(
        self, name: str, option: str, host: str, port: int, *, is_shared: bool = False
    ) -> int:
        try:
            for family, _, _, _, address in socket.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            ):
                where = (address[0], port, *address[2:])
                if port:
                    # Refused where anybody listens, also if they share their port as we do.
                    with _bound(family, where, is_shared=False):
                        pass
                kept = self._sockets.enter_context(_bound(family, where, is_shared=is_shared))
                # Of several addresses of a host, all have the port that the first one got.
                port = kept.getsockname()[1]
        except OSError as error:
            raise listen_failure(name, option, host, port, error) from error
        return port


def kafka_ports(config: BrokerConfig) -> tuple[int, ...]:
    """As they are wanted: one after the other, or any (0)."""
    first, count = config.kafka_port, config.workers
    if first == 0:
        return (0,) * count
    ports = tuple(range(first, first + count))
    if ports[-1] > _PORT_MAX:
        raise InvalidConfig(f"kafka.port: {count} workers need the ports {first} to {ports[-1]}")
    if config.http_port in ports:
        raise InvalidConfig(
            f"http.port: {config.http_port} is the Kafka port of worker "
            f"{config.http_port - first}: {count} workers have the ports {first} to {ports[-1]}"
        )
    return ports


def _bound(family: int, where: tuple[object, ...], *, is_shared: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(where)
    except BaseException:
        made.close()
        raise
    return made
