"""Where a broker listens, and why it cannot. Imports next to nothing: whoever starts brokers as
processes needs no more of them."""

import errno
import os
import socket
from dataclasses import dataclass
from typing import Final

from goqueue.model.errors import GoQueueError

KAFKA_OPTION: Final = "--kafka-port"
HTTP_OPTION: Final = "--http-port"


class StartFailed(GoQueueError):
    """The broker cannot start; the message says why and what to do next."""

    code = "start_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a broker listens."""

    kafka_host: str
    kafka_port: int
    http_host: str
    http_port: int
    has_tls: bool = False

    @property
    def bootstrap_servers(self) -> str:
        return f"{reachable(self.kafka_host)}:{self.kafka_port}"

    @property
    def http_url(self) -> str:
        scheme = "https" if self.has_tls else "http"
        return f"{scheme}://{reachable(self.http_host)}:{self.http_port}"


def listen_failure(name: str, option: str, host: str, port: int, error: OSError) -> StartFailed:
    """`option` is the one to choose another port with."""
    where = f"{name} port {port} on {host}"
    if error.errno == errno.EADDRINUSE:
        return StartFailed(
            f"{where} is in use by another program; stop that program "
            f"or choose another port with {option} (0 picks a free one)"
        )
    if error.errno == errno.EACCES:
        return StartFailed(f"{where} needs more rights; choose a port above 1023 with {option}")
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return StartFailed(f"{where}: this machine has no such address; choose another with --host")
    reason = os.strerror(error.errno) if error.errno else str(error)
    return StartFailed(f"{where}: {reason}; choose another with --host or {option}")


def reachable(host: str) -> str:
    """The address a program on this machine connects to."""
    if host in ("0.0.0.0", ""):
        return "127.0.0.1"
    if host == "::":
        return "[::1]"
    return f"[{host}]" if ":" in host else host
