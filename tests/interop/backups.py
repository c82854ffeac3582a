"""What tests of backups share: the command, and what real clients see of a broker."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from typer.testing import CliRunner

from goqueue.cli.main import app
from tests.busy_machine import stretched

COMMAND = (sys.executable, "-m", "goqueue")
WAIT_SECONDS = 60.0
# Partition, offset, key, value, time.
Message = tuple[int, int, bytes | None, bytes | None, int]


def goqueue(*arguments: str | Path, code: int = 0, bootstrap: str = "") -> str:
    """Run the command in this process; returns what it printed, errors included."""
    words = list(map(str, arguments))
    result = CliRunner().invoke(app, words, env={"GOQUEUE_BOOTSTRAP": bootstrap or None})
    assert result.exit_code == code, result.output + str(result.exception)
    # Anything else would be a traceback.
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result.output


def goqueue_json(*arguments: str | Path, bootstrap: str = "", code: int = 0) -> Any:
    return json.loads(goqueue(*arguments, "-o", "json", bootstrap=bootstrap, code=code))


def launch(
    *arguments: str | Path, bootstrap: str = "", stderr: int | None = None
) -> "subprocess.Popen[bytes]":
    """The command as a process that can be killed."""
    environment = {**os.environ, "GOQUEUE_BOOTSTRAP": bootstrap}
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
    )


def make_topic(
    bootstrap: str, name: str, partitions: int = 1, *, replicas: int = 1, **config: str
) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(
        [NewTopic(name, partitions, replicas, config=settings)]
    ).values():
        future.result(stretched(WAIT_SECONDS))


def produce(bootstrap: str, topic: str, values: list[bytes], partition: int = 0) -> None:
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for value in values:
        producer.produce(
            topic,
            value,
            key=value[:4],
            partition=partition,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(stretched(WAIT_SECONDS)) == 0
    assert not failures


def read(bootstrap: str, topic: str, *, committed: bool = False) -> list[Message]:
    """Everything that a topic has, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "check.crcs": True,
        }
    )
    try:
        found = consumer.list_topics(topic, stretched(WAIT_SECONDS)).topics[topic].partitions
        left = set(found)
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in found])
        return sorted(_until_the_end(consumer, left))
    finally:
        consumer.close()


def _until_the_end(consumer: Consumer, left: set[int]) -> Iterator[Message]:
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while left:
        assert time.monotonic() < deadline, f"partitions {left} have no end"
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            left.discard(message.partition())
            continue
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        yield partition, offset, message.key(), message.value(), message.timestamp()[1]


def committed_offsets(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        wanted = [TopicPartition(topic, each) for each in range(partitions)]
        found = consumer.committed(wanted, stretched(WAIT_SECONDS))
        return [each.offset for each in found]
    finally:
        consumer.close()


def commit(bootstrap: str, group: str, topic: str, offsets: list[int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        wanted = [TopicPartition(topic, each, offset) for each, offset in enumerate(offsets)]
        consumer.commit(offsets=wanted, asynchronous=False)
    finally:
        consumer.close()


def delayed(http_url: str, topic: str) -> list[tuple[str, int, str]]:
    answer = requests.get(f"{http_url}/topics/{topic}/delayed", timeout=WAIT_SECONDS)
    assert answer.status_code == 200, answer.text
    return [(each["id"], each["deliverAt"], each["value"]) for each in answer.json()["messages"]]


def publish(http_url: str, topic: str, value: str, **more: Any) -> Any:
    body = {"value": value, **more}
    answer = requests.post(f"{http_url}/topics/{topic}/messages", json=body, timeout=WAIT_SECONDS)
    assert answer.status_code < 300, answer.text
    return answer.json()


def topic_ids(http_url: str) -> dict[str, str]:
    answer = requests.get(f"{http_url}/topics", timeout=WAIT_SECONDS)
    assert answer.status_code == 200, answer.text
    return {each["name"]: each["id"] for each in answer.json()["topics"]}
