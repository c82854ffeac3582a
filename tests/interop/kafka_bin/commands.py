"""The commands of Apache Kafka's `bin/`, each by the class that its script starts.

The jars come from where the benchmarks have their peers from; the scripts themselves, which set
heap and log files and start the class, are not among them.
"""

import os
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Timer
from types import MappingProxyType
from typing import Final

from bench.artifacts import KAFKA, KAFKA_VERSION, MavenArtifact, find_java, maven_class_path

_TOOLS: Final = "org.apache.kafka.tools"
_CONNECT: Final = "org.apache.kafka.connect"
CLASSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "connect-distributed": f"{_CONNECT}.cli.ConnectDistributed",
        "connect-mirror-maker": f"{_CONNECT}.mirror.MirrorMaker",
        "connect-standalone": f"{_CONNECT}.cli.ConnectStandalone",
        "kafka-acls": f"{_TOOLS}.AclCommand",
        "kafka-broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
        "kafka-client-metrics": f"{_TOOLS}.ClientMetricsCommand",
        "kafka-cluster": f"{_TOOLS}.ClusterTool",
        "kafka-configs": "kafka.admin.ConfigCommand",
        "kafka-console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
        "kafka-console-producer": f"{_TOOLS}.ConsoleProducer",
        "kafka-console-share-consumer": f"{_TOOLS}.consumer.ConsoleShareConsumer",
        "kafka-consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
        "kafka-consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
        "kafka-delegation-tokens": f"{_TOOLS}.DelegationTokenCommand",
        "kafka-delete-records": f"{_TOOLS}.DeleteRecordsCommand",
        "kafka-dump-log": f"{_TOOLS}.DumpLogSegments",
        "kafka-e2e-latency": f"{_TOOLS}.EndToEndLatency",
        "kafka-features": f"{_TOOLS}.FeatureCommand",
        "kafka-get-offsets": f"{_TOOLS}.GetOffsetShell",
        "kafka-groups": f"{_TOOLS}.GroupsCommand",
        "kafka-leader-election": f"{_TOOLS}.LeaderElectionCommand",
        "kafka-log-dirs": f"{_TOOLS}.LogDirsCommand",
        "kafka-metadata-quorum": f"{_TOOLS}.MetadataQuorumCommand",
        "kafka-producer-perf-test": f"{_TOOLS}.ProducerPerformance",
        "kafka-reassign-partitions": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
        "kafka-replica-verification": f"{_TOOLS}.ReplicaVerificationTool",
        "kafka-share-consumer-perf-test": f"{_TOOLS}.ShareConsumerPerformance",
        "kafka-share-groups": f"{_TOOLS}.consumer.group.ShareGroupCommand",
        "kafka-streams-application-reset": f"{_TOOLS}.StreamsResetter",
        "kafka-streams-groups": f"{_TOOLS}.streams.StreamsGroupCommand",
        "kafka-topics": f"{_TOOLS}.TopicCommand",
        "kafka-transactions": f"{_TOOLS}.TransactionsCommand",
        "kafka-verifiable-consumer": f"{_TOOLS}.VerifiableConsumer",
        "kafka-verifiable-producer": f"{_TOOLS}.VerifiableProducer",
        "kafka-verifiable-share-consumer": f"{_TOOLS}.VerifiableShareConsumer",
    }
)
# The heap is small, and code is compiled quickly rather than well.
_JVM_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_ARTIFACTS: Final = ("kafka-tools", "connect-mirror", "connect-file")
_PROGRAM: Final = Path(__file__).with_name("Commands.java")
# The tools' own patience is a minute in places.
TIMEOUT_SECONDS: Final = 150.0


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    output: str


@cache
def class_path() -> str:
    places = [
        maven_class_path(
            MavenArtifact(group="org.apache.kafka", artifact=name, version=KAFKA_VERSION)
        )
        for name in _ARTIFACTS
    ]
    return os.pathsep.join([*places, maven_class_path(KAFKA)])


@contextmanager
def alone(name: str, arguments: Sequence[str], folder: Path) -> "Iterator[subprocess.Popen[str]]":
    """A command in a process of its own, while it is looked at; it is stopped then."""
    process = subprocess.Popen(
        [find_java(), *_JVM_OPTIONS, "-cp", class_path(), CLASSES[name], *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    ending = Timer(TIMEOUT_SECONDS, process.kill)
    ending.start()
    try:
        yield process
    finally:
        ending.cancel()
        process.kill()
        process.communicate()


class Commands:
    """A process that runs one command after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        limit_ms = round(TIMEOUT_SECONDS * 1000)
        self._process = subprocess.Popen(
            [
                *(find_java(), *_JVM_OPTIONS, "-cp", class_path()),
                *(str(_PROGRAM), str(limit_ms)),
            ],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def begin(self, name: str, arguments: Sequence[str], stdin: str = "") -> None:
        assert self._process.stdin is not None
        words = [CLASSES[name], stdin, *arguments]
        line = " ".join(b64encode(word.encode()).decode() for word in words)
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def ended(self) -> Ended:
        """How the command ended that was begun last."""
        assert self._process.stdout is not None
        code, _, printed = self._process.stdout.readline().partition(" ")
        assert code, "a command ended the process of all of them"
        lines = b64decode(printed).decode().splitlines()
        # There is no logging, and its library says so.
        told = [line.rstrip() for line in lines if not line.startswith("SLF4J: ")]
        return Ended(int(code), "\n".join(told))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
