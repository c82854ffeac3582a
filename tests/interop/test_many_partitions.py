"""Many more partitions than the process may have open files."""

import socket
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from goqueue.testing.server_process import ServerProcess
from tests.busy_machine import stretched

PER_TOPIC = 500
ROUNDS = 2


def create_topics(bootstrap: str, topics: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for name in topics:
        made = admin.create_topics([NewTopic(name, PER_TOPIC)], request_timeout=stretched(60))
        made[name].result(stretched(60))


def write(bootstrap: str, topics: list[str]) -> None:
    failures: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 100, "acks": "all"},
        on_delivery=lambda error, _: failures.append(error) if error else None,
    )
    for turn in range(ROUNDS):
        for topic in topics:
            for partition in range(PER_TOPIC):
                producer.produce(topic, f"{topic} {partition} {turn}", partition=partition)
        assert producer.flush(stretched(60)) == 0
    assert failures == []


def read(bootstrap: str, topics: list[str]) -> Counter[str]:
    expected = len(topics) * PER_TOPIC * ROUNDS
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "all"})
    try:
        consumer.assign(
            [TopicPartition(t, partition, 0) for t in topics for partition in range(PER_TOPIC)]
        )
        found: Counter[str] = Counter()
        while found.total() < expected:
            messages = consumer.consume(expected - found.total(), stretched(10))
            assert messages, f"{found.total()} of {expected} messages"
            for message in messages:
                assert message.error() is None
                text = (message.value() or b"").decode()
                topic, partition, turn = text.split()
                assert (topic, int(partition)) == (message.topic(), message.partition())
                assert int(turn) == message.offset()
                found[text] += 1
        return found
    finally:
        consumer.close()


def metric(server: ServerProcess, name: str) -> float:
    lines = httpx.get(f"{server.http_url}/metrics", timeout=stretched(30)).text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))


@pytest.mark.parametrize(
    ("partitions", "open_files"), [(1_000, 400), pytest.param(5_000, 1_024, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(stretched(180))
def test_more_partitions_than_open_files(tmp_path: Path, partitions: int, open_files: int) -> None:
    topics = [f"orders{number}" for number in range(partitions // PER_TOPIC)]
    with ServerProcess(tmp_path / "data", open_files_max=open_files) as server:
        create_topics(server.bootstrap_servers, topics)
        write(server.bootstrap_servers, topics)
        assert len(read(server.bootstrap_servers, topics)) == partitions * ROUNDS
        limit = metric(server, "goqueue_open_log_files_max")
        assert limit < open_files / 2
        assert 0 < metric(server, "goqueue_open_log_files") <= limit
        with ExitStack() as connections:
            host, port = server.bootstrap_servers.split(":")
            for _ in range(open_files // 4):
                connections.enter_context(socket.create_connection((host, int(port)), 5))
            held = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
            assert held < open_files
            assert httpx.get(f"{server.http_url}/readyz", timeout=stretched(10)).is_success
        assert server.sigterm() == 0
        assert "Too many open files" not in server.log_text
