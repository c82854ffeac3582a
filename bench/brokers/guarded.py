"""GoQueue with something on that costs: certificates, log-ins, rules.

It makes topics on first use.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient

from bench.brokers.goqueue import GoQueue, source_environment
from bench.child_process import ChildProcess, free_port
from goqueue.client.blocking_connection import BlockingConnection
from goqueue.client.errors import BrokerUnreachable
from goqueue.client.writing_cluster import WritingCluster
from goqueue.model.client_security import NO_SECURITY, ClientSecurity


class GuardedGoQueue(GoQueue):
    def __init__(
        self,
        name: str,
        settings: Mapping[str, str] | None = None,
        client_settings: Mapping[str, str] | None = None,
        security: ClientSecurity = NO_SECURITY,
    ) -> None:
        """`settings` are the broker's; those of clients are librdkafka's, and in `security` once
        more for GoQueue's own."""
        super().__init__()
        self.name = name
        self.http_port = 0
        self._settings = settings or {}
        self._client_settings = client_settings or {}
        self._security = security

    def start(self, folder: Path) -> None:
        self.port, self.http_port = free_port(), free_port()
        folder.mkdir()
        settings = {"num.partitions": "1", **self._settings}
        self.process = ChildProcess(
            [
                *(sys.executable, "-m", "goqueue", "serve", "--data-dir", str(folder / "data")),
                *("--kafka-port", str(self.port), "--http-port", str(self.http_port)),
                *set_options(settings),
            ],
            log_path=folder / "goqueue.log",
            env=source_environment(),
        )
        self.process.wait_ready(self._answers)

    def _answers(self) -> bool:
        try:
            BlockingConnection("127.0.0.1", self.port).close()
        except BrokerUnreachable:
            return False
        return True

    def make_topic(self, name: str) -> None:
        with WritingCluster(f"127.0.0.1:{self.port}", self._security) as cluster:
            cluster.topic(name)

    def delete_topic(self, name: str) -> None:
        where = {"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": "3"}
        admin = AdminClient({**where, **self._client_settings})
        admin.delete_topics([name])[name].result(30)

    @property
    def client_options(self) -> Sequence[str]:
        """For the C client."""
        return set_options(self._client_settings)


def set_options(settings: Mapping[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
