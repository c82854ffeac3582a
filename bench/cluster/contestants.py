"""Clusters of three: how they are started, and how one of their brokers is killed."""

from pathlib import Path
from typing import Final, Protocol

from bench.artifacts import KAFKA, KAFKA_VERSION, find_java, maven_class_path, run_tool
from bench.brokers.kafka import CLUSTER_ID, JVM_OPTIONS
from bench.child_process import ChildProcess, free_port
from bench.kafka_wire import answers_kafka
from goqueue.testing import GoQueueCluster

NODES: Final = (1, 2, 3)


class Contestant(Protocol):
    name: str
    bootstrap_servers: str

    def topic_config(self) -> dict[str, str]:
        """So that both sync what they wrote every second."""

    def start(self, folder: Path) -> None: ...
    def kill(self, node: int) -> None: ...
    def ask_to_stop(self, node: int) -> None: ...
    def restart(self, node: int) -> None: ...
    def stop(self) -> None: ...


class GoQueueContestant:
    name = "GoQueue, 3 brokers and etcd"

    def topic_config(self) -> dict[str, str]:
        return {"fsync.policy": "interval", "flush.ms": "1000"}

    def start(self, folder: Path) -> None:
        self._cluster = GoQueueCluster(brokers=len(NODES), folder=folder)
        self._cluster.start()
        self.bootstrap_servers = self._cluster.bootstrap_servers

    def kill(self, node: int) -> None:
        self._cluster.kill(node)

    def ask_to_stop(self, node: int) -> None:
        self._cluster.stop(node)

    def restart(self, node: int) -> None:
        self._cluster.restart(node)

    def stop(self) -> None:
        self._cluster.close()


# Kafka's defaults, but for what three nodes on one machine need, and the flush check: Kafka looks
# at flush.ms only as often as this says, and never by default.
_PROPERTIES: Final = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
log.flush.scheduler.interval.ms=1000
"""


class KafkaContestant:
    name = f"Apache Kafka {KAFKA_VERSION}, 3 KRaft nodes"

    def topic_config(self) -> dict[str, str]:
        return {"flush.ms": "1000"}

    def start(self, folder: Path) -> None:
        self._java, self._class_path = find_java(), maven_class_path(KAFKA)
        self._ports = {node: free_port() for node in NODES}
        controllers = {node: free_port() for node in NODES}
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in controllers.items())
        self._folders = {node: folder / f"node-{node}" for node in NODES}
        self._processes: dict[int, ChildProcess] = {}
        for node, own in self._folders.items():
            own.mkdir(parents=True)
            (own / "server.properties").write_text(
                _PROPERTIES.format(
                    node=node,
                    voters=voters,
                    port=self._ports[node],
                    controller_port=controllers[node],
                    folder=own,
                )
            )
            run_tool(
                [
                    *(self._java, "-Xmx256m", "-cp", self._class_path, "kafka.tools.StorageTool"),
                    *("format", "-t", CLUSTER_ID, "-c", str(own / "server.properties")),
                ]
            )
        for node in NODES:
            self._launch(node)
        for node in NODES:
            self._wait(node)
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def kill(self, node: int) -> None:
        self._processes[node].kill()

    def ask_to_stop(self, node: int) -> None:
        self._processes[node].stop()

    def restart(self, node: int) -> None:
        self._launch(node)
        self._wait(node)

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()

    def _launch(self, node: int) -> None:
        own = self._folders[node]
        self._processes[node] = ChildProcess(
            [
                *(self._java, *JVM_OPTIONS, "-cp", self._class_path),
                *("kafka.Kafka", str(own / "server.properties")),
            ],
            log_path=own / "kafka.log",
        )

    def _wait(self, node: int) -> None:
        self._processes[node].wait_ready(lambda: answers_kafka(self._ports[node]))
