"""Ports for child processes that come back to them after a kill."""

import contextlib
import random
import socket
from collections import deque
from typing import Final

from goqueue.model.errors import GoQueueError

# Below the ports that Linux gives to outgoing connections: while a killed broker is down, one of
# those could take its port, even a client's own attempt to connect to it.
_PORTS: Final = range(20_000, 32_000)
# All of them taken would mean that nearly every port of the machine is.
_ATTEMPTS: Final = 100
# A port that was given out is not given to another until so many more were: its server may not have
# started yet, or is killed just now. A large cluster takes twenty. Each costs an open file.
_KEPT_MAX: Final = 100
# Sockets that hold the same numbers in UDP, which no server here speaks: other processes that look
# for ports see them, too.
_kept: Final[deque[socket.socket]] = deque()


class NoFreePort(GoQueueError):
    code = "no_free_port"


def free_port() -> int:
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of so many, one after the other, that nobody else is given meanwhile."""
    for first in random.SystemRandom().sample(_PORTS, _ATTEMPTS):
        with contextlib.ExitStack() as marks, contextlib.suppress(OSError):
            found = [_marked(port, marks) for port in range(first, first + count)]
            marks.pop_all()
            _kept.extend(found)
            while len(_kept) > _KEPT_MAX:
                _kept.popleft().close()
            return first
    raise NoFreePort(f"{_ATTEMPTS} random ports from {_PORTS.start} on are all in use")


def _marked(port: int, marks: contextlib.ExitStack) -> socket.socket:
    """What marks a free port as given out."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
    mark = marks.enter_context(socket.socket(type=socket.SOCK_DGRAM))
    mark.bind(("127.0.0.1", port))
    return mark
