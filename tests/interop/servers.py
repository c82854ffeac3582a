"""What real clients talk to: one broker, or with `--goqueue-cluster` one that leads nothing."""

from pathlib import Path
from typing import Protocol

from goqueue.testing.cluster_as_server import ClusterAsServer
from goqueue.testing.server_process import ServerProcess

Server = ServerProcess | ClusterAsServer


class NewServer(Protocol):
    """Makes a server that is started by `with`."""

    def __call__(
        self, data_dir: Path | str, *options: str, environment: dict[str, str] | None = None
    ) -> Server: ...


def brokers_of(server: Server) -> list[ServerProcess]:
    """Those that hold something: a server by itself, or the cluster behind it."""
    if isinstance(server, ServerProcess):
        return [server]
    cluster = server.cluster
    return [cluster.server(node) for node in cluster.node_ids if node not in cluster.cordoned_ids]
