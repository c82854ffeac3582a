"""Brokers that speak Kafka's protocol, all driven by the same C client."""

import time
from collections.abc import Mapping
from concurrent.futures import Future
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.artifacts import kafka_load
from bench.child_process import READY_POLL_S, ChildProcess
from bench.kafka_wire import leads_partitions
from bench.load_run import Finished, Latency, LoadFailed, Throughput, run_generator

_ADMIN_LIMIT_S: Final = 30.0

# Without any linger librdkafka sends every message as a request of its own, and at 10,000 a
# second the client becomes what is measured.
SHORT_LINGER: Final = ("--set", "linger.ms=1")


class Fsync(StrEnum):
    """How often acknowledged data is forced to disk; GoQueue and Kafka are set to the same."""

    INTERVAL = "every 1000 ms"
    NEVER = "never"


class Reachable(Protocol):
    """For the C client."""

    @property
    def port(self) -> int: ...
    @property
    def process(self) -> ChildProcess: ...


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
    admin = _admin(broker)
    _finish(admin.create_topics([wanted])[topic])
    # Kafka answers before the partitions are there; a first batch that is refused and sent again
    # would arrive after the second.
    deadline = time.monotonic() + _ADMIN_LIMIT_S
    while not leads_partitions(broker.port, topic, partitions):
        if time.monotonic() > deadline:
            raise LoadFailed(f"topic {topic} has no leaders after {_ADMIN_LIMIT_S:.0f} s")
        time.sleep(READY_POLL_S)


def delete_topic(broker: KafkaSpeaker, topic: str) -> None:
    admin = _admin(broker)
    _finish(admin.delete_topics([topic])[topic])


def _admin(broker: KafkaSpeaker) -> AdminClient:
    """The caller keeps it until its answer is there: a client that is dropped gives none."""
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}", "log_level": 3})


def _finish(answer: Future[None]) -> None:
    try:
        answer.result(_ADMIN_LIMIT_S)
    except KafkaException as error:
        raise LoadFailed(str(error)) from error


def run_throughput(
    broker: Reachable, mode: str, topic: str, *arguments: str
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


def _run(broker: Reachable, mode: str, topic: str, arguments: tuple[str, ...]) -> Finished:
    broker.process.check_alive()
    target = ("--brokers", f"127.0.0.1:{broker.port}", "--topic", topic)
    return run_generator([kafka_load(), mode, *target, *arguments])


def librdkafka_version() -> str:
    output = run_generator([kafka_load(), "version"]).output
    return str(msgspec.json.decode(output, type=dict[str, str])["librdkafka"])
