"""A whole cluster in the place of one server, for suites of tests that know one address.

Tests talk to a broker that leads and holds nothing: whatever they ask for is somewhere else.
"""

import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from goqueue.client.http_api import HttpApi, HttpRefused, HttpUnreachable
from goqueue.testing.lifetime import Lifetime
from goqueue.testing.server_cluster import GoQueueCluster
from goqueue.testing.server_process import START_TIMEOUT_SECONDS, ServerNotReady, ServerProcess

_POLL_SECONDS: Final = 0.05


class ClusterAsServer(Lifetime):
    """Used like a `ServerProcess`. What ends the server ends all brokers: they have what is stored.

    `cluster` is what stands behind it, for tests that do something to single brokers.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        *options: str,
        environment: dict[str, str] | None = None,
    ) -> None:
        """`options` are passed to each `goqueue serve`: `"--set", "num.partitions=1"`."""
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="goqueue-")
            data_dir = self._temporary.name
        self.data_dir = Path(data_dir)
        self.cluster = GoQueueCluster(
            *options, brokers=3, cordoned=1, folder=data_dir, environment=environment
        )

    @property
    def door(self) -> ServerProcess:
        """The broker that clients talk to."""
        return self.cluster.server(self.cluster.cordoned_ids[0])

    @property
    def bootstrap_servers(self) -> str:
        return self.door.bootstrap_servers

    @property
    def http_url(self) -> str:
        return self.door.http_url

    @property
    def pid(self) -> int:
        return self.door.pid

    @property
    def is_running(self) -> bool:
        return self.door.is_running

    @property
    def log_text(self) -> str:
        """Everything that all brokers wrote, one after the other."""
        return "".join(self.cluster.server(node).log_text for node in self.cluster.node_ids)

    def create_topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> str:
        """Make a topic (with a name of its own if none is given) and return its name."""
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        body = {"name": name, "partitions": partitions, "config": dict(config or {})}
        HttpApi(self.http_url).post("topics", body=body)
        return name

    def delete_topic(self, name: str) -> None:
        HttpApi(self.http_url).delete("topics", name)

    # --- life -----------------------------------------------------------------------------

    def start(self) -> Self:
        """Start everything and return once all that is stored can be used."""
        if self.cluster.etcd.is_running:
            for node in self.cluster.node_ids:
                self.cluster.launch(node)
            for node in self.cluster.node_ids:
                self.cluster.server(node).wait_ready()
            self.cluster.wait_complete()
        else:
            self.cluster.start()
        self._wait_until_led()
        return self

    def _wait_until_led(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._is_led():
            if time.monotonic() > deadline:
                raise ServerNotReady(
                    f"not all is led after {START_TIMEOUT_SECONDS:g} s:\n{self.log_text}"
                )
            time.sleep(_POLL_SECONDS)

    def _is_led(self) -> bool:
        try:
            health = HttpApi(self.http_url).get("cluster", "health")
            return str(health["status"]) != "unavailable"
        except (HttpUnreachable, HttpRefused):
            return False

    def sigterm(self) -> int:
        """Ask all brokers for a clean end, wait for it, and return the worst exit code."""
        return self.cluster.stop_all()

    def sigkill(self) -> None:
        """End all brokers as a crash does."""
        self.cluster.kill_all()

    def restart(self) -> Self:
        """Start again on the same data and ports; ends the brokers cleanly if they still run."""
        if self.is_running:
            self.sigterm()
        return self.start()

    def close(self) -> None:
        self.cluster.close()
        if self._temporary is not None:
            self._temporary.cleanup()
