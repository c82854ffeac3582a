"""Apache Kafka: one node in KRaft mode, with the JVM options of its own start script."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.artifacts import KAFKA, KAFKA_VERSION, find_java, maven_class_path, run_tool
from bench.brokers.kafka_speaker import Fsync
from bench.child_process import ChildProcess, free_port
from bench.kafka_wire import answers_kafka

# Heap and collector as kafka-server-start.sh sets them.
JVM_OPTIONS: Final = (
    *("-server", "-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    "-Djava.awt.headless=true",
)
CLUSTER_ID: Final = "YmVuY2gtYmVuY2gtYmVuYw"

# Settings that a single node needs, plus the flush check: Kafka looks at flush.ms only as often
# as this says, and never by default.
_PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.flush.scheduler.interval.ms=1000
"""


class Kafka:
    name = "Apache Kafka"

    def __init__(self) -> None:
        self.port = 0
        self.process: ChildProcess

    def version(self) -> str:
        return f"{KAFKA_VERSION}, KRaft, 1 GB heap"

    def start(self, folder: Path) -> None:
        """The time to format the storage is not counted as start-up."""
        java = find_java()
        class_path = maven_class_path(KAFKA)
        self.port = free_port()
        properties = folder / "server.properties"
        properties.write_text(self.properties(folder))
        run_tool(
            [
                *(java, "-Xmx256m", "-cp", class_path, "kafka.tools.StorageTool", "format"),
                *("--standalone", "-t", CLUSTER_ID, "-c", str(properties)),
            ]
        )
        self.process = ChildProcess(
            [java, *JVM_OPTIONS, "-cp", class_path, "kafka.Kafka", str(properties)],
            log_path=folder / "kafka.log",
        )
        self.process.wait_ready(lambda: answers_kafka(self.port))

    def properties(self, folder: Path) -> str:
        return _PROPERTIES.format(port=self.port, controller_port=free_port(), folder=folder)

    def stop(self) -> None:
        self.process.stop()

    def topic_config(self, fsync: Fsync) -> Mapping[str, str]:
        return {"flush.ms": "1000"} if fsync is Fsync.INTERVAL else {}
