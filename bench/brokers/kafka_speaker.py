"""Brokers that speak Kafka's protocol, all driven by the same C client."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

import msgspec
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.artifacts import kafka_load
from bench.child_process import ChildProcess
from bench.load_run import Finished, Latency, LoadFailed, Throughput, run_generator

_ADMIN_LIMIT_S: Final = 30.0


class Fsync(StrEnum):
    """How often acknowledged data is forced to disk; GoQueue and Kafka are set to the same."""

    INTERVAL = "every 1000 ms"
    NEVER = "never (left to the operating system)"


class KafkaSpeaker(Protocol):
    name: str
    port: int
    process: ChildProcess

    def version(self) -> str: ...
    def start(self, folder: Path) -> None: ...
    def stop(self) -> None: ...
    def topic_config(self, fsync: Fsync) -> Mapping[str, str]: ...


def create_topic(broker: KafkaSpeaker, topic: str, partitions: int, fsync: Fsync) -> None:
    wanted = NewTopic(
        topic,
        num_partitions=partitions,
        replication_factor=1,
        config=dict(broker.topic_config(fsync)),
    )
    _admin(broker).create_topics([wanted])[topic].result(_ADMIN_LIMIT_S)


def delete_topic(broker: KafkaSpeaker, topic: str) -> None:
    _admin(broker).delete_topics([topic])[topic].result(_ADMIN_LIMIT_S)


def _admin(broker: KafkaSpeaker) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})


def run_throughput(
    broker: KafkaSpeaker, mode: str, topic: str, *arguments: str
) -> tuple[Throughput, Finished]:
    finished = _run(broker, mode, topic, arguments)
    result = msgspec.json.decode(finished.output, type=Throughput)
    result.check()
    return result, finished


def run_latency(broker: KafkaSpeaker, mode: str, topic: str, *arguments: str) -> Latency:
    result = msgspec.json.decode(_run(broker, mode, topic, arguments).output, type=Latency)
    if result.failed:
        raise LoadFailed(f"{result.failed} of {result.messages} messages failed")
    return result


def _run(broker: KafkaSpeaker, mode: str, topic: str, arguments: tuple[str, ...]) -> Finished:
    broker.process.check_alive()
    target = ("--brokers", f"127.0.0.1:{broker.port}", "--topic", topic)
    return run_generator([kafka_load(), mode, *target, *arguments])


def librdkafka_version() -> str:
    output = run_generator([kafka_load(), "version"]).output
    return str(msgspec.json.decode(output, type=dict[str, str])["librdkafka"])
