"""What real clients talk to: one broker, or with `--goqueue-cluster` one that leads nothing."""

from pathlib import Path
from typing import Protocol

from goqueue.testing.cluster_as_server import ClusterAsServer
from goqueue.testing.server_process import ServerProcess

Server = ServerProcess | ClusterAsServer
# Tests write messages of years ago, and servers of many tests live to see old ones deleted.
KEEPS_OLD_MESSAGES = ("--set", "retention.check.interval.ms=86400000")


class NewServer(Protocol):
    """Makes a server that is started by `with`."""

    def __call__(
        self, data_dir: Path | str, *options: str, environment: dict[str, str] | None = None
    ) -> Server: ...


def asked_broker(server: Server) -> ServerProcess:
    """The process that clients talk to."""
    return server if isinstance(server, ServerProcess) else server.door


def http_urls_of(server: Server) -> list[str]:
    """Of all brokers."""
    return [server.http_url] if isinstance(server, ServerProcess) else server.cluster.http_urls
