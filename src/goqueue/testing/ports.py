"""Ports for child processes that come back to them after a kill."""

import contextlib
import random
import socket
from typing import Final

from goqueue.model.errors import GoQueueError

# Below the ports that Linux gives to outgoing connections: while a killed broker is down, one of
# those could take its port, even a client's own attempt to connect to it.
_PORTS: Final = range(20_000, 32_000)
# All of them taken would mean that nearly every port of the machine is.
_ATTEMPTS: Final = 100


class NoFreePort(GoQueueError):
    code = "no_free_port"


def free_port() -> int:
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of so many, one after the other."""
    for first in random.SystemRandom().sample(_PORTS, _ATTEMPTS):
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            for port in range(first, first + count):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise NoFreePort(f"{_ATTEMPTS} random ports from {_PORTS.start} on are all in use")
