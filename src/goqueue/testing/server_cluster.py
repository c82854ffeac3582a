"""Several brokers and their etcd as child processes, with switches for faults.

with GoQueueCluster(brokers=3) as cluster:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    cluster.kill(1)
    …
    cluster.restart(1)
"""

import asyncio
import contextlib
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, Self

from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.describe_cluster.v1.response import DescribeClusterResponse
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponsePartition

from goqueue.client.connection import Connection
from goqueue.client.errors import BrokerUnreachable
from goqueue.client.questions import metadata_request
from goqueue.model.client_security import NO_SECURITY, ClientSecurity
from goqueue.testing.cluster_links import ClusterLinks, Place
from goqueue.testing.etcd_process import EtcdProcess
from goqueue.testing.lifetime import Lifetime
from goqueue.testing.ports import free_port
from goqueue.testing.secured import Secured
from goqueue.testing.secured_clients import ADMIN, ADMIN_PASSWORD
from goqueue.testing.server_process import START_TIMEOUT_SECONDS, ServerNotReady, ServerProcess

ETCD: Final = "etcd"
_POLL_SECONDS: Final = 0.05


class GoQueueCluster(Lifetime):
    """Brokers are named by their node ids: 1, 2, 3. All keep data and addresses over restarts.

    With `cuts` (Linux only) everything between brokers and etcd goes through proxies, and so do
    clients; without, processes are connected directly.
    """

    def __init__(
        self,
        *options: str,
        brokers: int = 3,
        cordoned: int = 0,
        folder: Path | str | None = None,
        environment: dict[str, str] | None = None,
        cuts: bool = False,
        first_kafka_port: int | None = None,
        first_http_port: int | None = None,
        etcd_port: int | None = None,
        server_type: type[ServerProcess] = ServerProcess,
        security: ClientSecurity | bool = NO_SECURITY,
    ) -> None:
        """`options` are passed to each `goqueue serve`: `"--set", "num.partitions=6"`.

        `cordoned` brokers come behind the others: they lead and hold nothing, and serve all
        clients. Without `folder` the data are in a temporary one. Ports count up from those given.
        With `security=True` all speak TLS and log in, see `server(1).client_config()`; a
        `ClientSecurity` is how the brokers are asked for what they know.
        """
        self.node_ids = tuple(range(1, brokers + cordoned + 1))
        self.cordoned_ids = self.node_ids[brokers:]
        self._temporary = tempfile.TemporaryDirectory(prefix="goqueue-cluster-")
        self._folder = Path(self._temporary.name if folder is None else folder)
        self.etcd = EtcdProcess(self._folder / "etcd", port=etcd_port)
        self._links = ClusterLinks(self._pids) if cuts else None
        self._paused: set[Place] = set()
        self._servers: dict[int, ServerProcess] = {}
        secured = Secured.make(self._folder / "security") if security is True else None
        self._security = security if isinstance(security, ClientSecurity) else NO_SECURITY
        if secured is not None:
            self._security = secured.client_security(ADMIN, ADMIN_PASSWORD)
        for index, node in enumerate(self.node_ids):
            kafka_port = free_port() if first_kafka_port is None else first_kafka_port + index
            etcd = self.etcd.port
            advertised: list[str] = []
            if self._links is not None:
                etcd = self._links.port_to(ETCD, etcd, only_for=node)
                proxy = self._links.port_to(node, kafka_port)
                advertised = ["--set", f"advertised.kafka.port={proxy}"]
            self._servers[node] = server_type(
                self._folder / f"node-{node}",
                *("--node-id", str(node), "--cluster", f"etcd://127.0.0.1:{etcd}"),
                *advertised,
                *(("--set", "cordoned.log.dirs=*") if node in self.cordoned_ids else ()),
                *options,
                environment=environment,
                kafka_port=kafka_port,
                http_port=None if first_http_port is None else first_http_port + index,
                security=secured or False,
            )

    # --- what clients need ----------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(server.bootstrap_servers for server in self._servers.values())

    @property
    def http_urls(self) -> list[str]:
        return [server.http_url for server in self._servers.values()]

    def server(self, node: int) -> ServerProcess:
        """The process of one broker: its log, its pid, its addresses."""
        return self._servers[node]

    @property
    def running(self) -> list[int]:
        """Brokers that run and are not paused."""
        return [n for n, s in self._servers.items() if s.is_running and n not in self._paused]

    def leader(self, topic: str, partition: int = 0, seen_by: int | None = None) -> int | None:
        """Who leads a partition, as one broker sees it, or the first that answers."""
        found = self._partition(topic, partition, seen_by)
        return None if found is None or found.leader_id < 0 else int(found.leader_id)

    def in_sync(self, topic: str, partition: int = 0) -> set[int]:
        found = self._partition(topic, partition)
        return set() if found is None else set(map(int, found.isr_nodes))

    def controller(self, seen_by: int | None = None) -> int | None:
        """Who is controller, as one broker sees it, or the first that answers."""
        for answer in self._answers((), seen_by):
            if answer.controller_id >= 0:
                return int(answer.controller_id)
        return None

    def _partition(
        self, topic: str, partition: int, seen_by: int | None = None
    ) -> MetadataResponsePartition | None:
        for answer in self._answers([topic], seen_by):
            for found in answer.topics[0].partitions:
                if found.partition_index == partition:
                    return found
        return None

    def _answers(self, topics: Sequence[str], seen_by: int | None) -> Iterator[MetadataResponse]:
        for node in self.running if seen_by is None else [seen_by]:
            with contextlib.suppress(BrokerUnreachable):
                yield asyncio.run(
                    _metadata(self._servers[node].own_address, topics, self._security)
                )

    # --- faults ---------------------------------------------------------------------------

    def kill(self, place: Place) -> None:
        """End a broker, or "etcd", as a crash does; `restart` brings it back."""
        self._paused.discard(place)
        if place == ETCD:
            self.etcd.kill()
        else:
            self._servers[int(place)].sigkill()
        if self._links is not None:
            self._links.refuse(place)

    def stop(self, node: int) -> int:
        """Ask a broker for a clean end, wait for it, and return the exit code."""
        code = self._servers[node].sigterm()
        if self._links is not None:
            self._links.refuse(node)
        return code

    def kill_all(self) -> None:
        """End all brokers at once, as a crash of everything does; etcd stays."""
        self._end_all(signal.SIGKILL)

    def stop_all(self) -> int:
        """Ask all brokers for a clean end at once, and return the worst exit code."""
        return self._end_all(signal.SIGTERM)

    def _end_all(self, number: signal.Signals) -> int:
        running = self.running
        for node in running:
            self._servers[node].send_signal(number)
        codes = [self._servers[node].wait_ended() for node in running]
        if self._links is not None:
            for node in running:
                self._links.refuse(node)
        return max(codes, default=0)

    def restart(self, place: Place) -> None:
        """Start a broker, or "etcd", on its old data; one that runs is stopped cleanly before."""
        if place == ETCD:
            self.etcd.stop()
            self.etcd.start()
        elif self._servers[int(place)].is_running:
            self.stop(int(place))
        if place == ETCD:
            self._admit(place)
        else:
            self.launch(int(place))
            self._servers[int(place)].wait_ready()

    def launch(self, node: int) -> None:
        """Start a broker without waiting for it; `server(node).wait_ready()` does."""
        self._admit(node)
        self._servers[node].launch()

    def _admit(self, place: Place) -> None:
        if self._links is not None:
            self._links.admit(place)

    def pause(self, place: Place) -> None:
        """Stop a process in its tracks; it knows nothing of it when it is resumed."""
        self._signal(place, signal.SIGSTOP)
        self._paused.add(place)

    def resume(self, place: Place) -> None:
        self._signal(place, signal.SIGCONT)
        self._paused.discard(place)

    def cut(self, one: Place, other: Place, *, way: Literal["both", "there"] = "both") -> None:
        """Nothing that `one` sends reaches `other`, and where both ways are cut, nor back."""
        if self._links is None:
            raise ServerNotReady("connections can be cut in a GoQueueCluster(cuts=True)")
        self._links.cut(one, other)
        if way == "both":
            self._links.cut(other, one)

    def heal(self) -> None:
        """Mend all that was cut."""
        if self._links is not None:
            self._links.heal()

    def _signal(self, place: Place, number: signal.Signals) -> None:
        if place == ETCD:
            (self.etcd.pause if number == signal.SIGSTOP else self.etcd.resume)()
        else:
            self._servers[int(place)].send_signal(number)

    def _pids(self) -> dict[Place, int]:
        return {node: s.pid for node, s in self._servers.items() if s.is_running}

    # --- life -----------------------------------------------------------------------------

    def start(self) -> Self:
        """Start everything and return once each broker knows of all others."""
        self.etcd.start()
        for server in self._servers.values():
            server.launch()
        for server in self._servers.values():
            server.wait_ready()
        self.wait_complete()
        return self

    def wait_complete(self) -> None:
        """Wait until every broker that runs sees all that run."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        running = self.running
        while not self._all_see(running):
            if time.monotonic() > deadline:
                logs = "\n".join(self._servers[node].log_text for node in running)
                raise ServerNotReady(
                    f"brokers {running} do not all see each other after "
                    f"{START_TIMEOUT_SECONDS:g} s:\n{logs}"
                )
            time.sleep(_POLL_SECONDS)

    def _all_see(self, nodes: Iterable[int]) -> bool:
        wanted = set(nodes)
        for node in wanted:
            try:
                seen = asyncio.run(_brokers(self._servers[node].own_address, self._security))
            except BrokerUnreachable:
                return False
            if seen != wanted:
                return False
        return True

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self.etcd.kill()
        if self._links is not None:
            self._links.close()
        self._temporary.cleanup()


async def _metadata(
    address: str, topics: Sequence[str], security: ClientSecurity
) -> MetadataResponse:
    async with _connected(address, security) as connection:
        return await connection.call(metadata_request(topics), MetadataResponse)


async def _brokers(address: str, security: ClientSecurity) -> set[int]:
    """Those that are there; Metadata names some that are gone, too."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    async with _connected(address, security) as connection:
        answer = await connection.call(request, DescribeClusterResponse)
    return {int(broker.broker_id) for broker in answer.brokers}


@contextlib.asynccontextmanager
async def _connected(address: str, security: ClientSecurity) -> AsyncIterator[Connection]:
    host, port = address.split(":")
    connection = await Connection.open(host, int(port), security)
    try:
        yield connection
    finally:
        await connection.close()
