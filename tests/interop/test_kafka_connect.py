"""Kafka Connect and MirrorMaker: clients of their own kind, started as their scripts start them."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from confluent_kafka import Consumer, KafkaError

from goqueue.testing.ports import free_port
from tests.interop.kafka_bin.commands import alone
from tests.interop.servers import NewServer, Server

# A worker takes half a minute to start on a busy machine.
WAIT_SECONDS = 120.0
AS_JSON = {"Content-Type": "application/json"}
LINES = ["one", "two", "three"]
TEXT = "org.apache.kafka.connect.storage.StringConverter"
FILE_CONNECTOR = "org.apache.kafka.connect.file.FileStream{}Connector"

pytestmark = pytest.mark.slow


def properties(path: Path, settings: Mapping[str, object]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


@contextmanager
def running(name: str, *files: str, folder: Path) -> Iterator[None]:
    with alone(name, files, folder) as process:
        yield
        assert process.poll() is None, process.communicate()[0]


def values(bootstrap: str, topic: str) -> list[str]:
    """What the topic has, once it has as much as was sent."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-of-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": 1000,
        }
    )
    consumer.subscribe([f"^{topic}$"])
    found: list[str] = []
    limit = time.monotonic() + WAIT_SECONDS
    while len(found) < len(LINES):
        assert time.monotonic() < limit, found
        for message in consumer.consume(len(LINES), timeout=0.5):
            error, value = message.error(), message.value()
            if error is not None:
                # It is not there yet.
                assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART, error
                continue
            assert value is not None
            found.append(value.decode())
    consumer.close()
    return found


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "in.txt"
    file.write_text("".join(f"{line}\n" for line in LINES))
    return file


def source_of(lines: Path, topic: str) -> dict[str, str]:
    kind = FILE_CONNECTOR.format("Source")
    return {"connector.class": kind, "tasks.max": "1", "file": str(lines), "topic": topic}


def worker(server: Server, port: int) -> dict[str, object]:
    return {
        "bootstrap.servers": server.bootstrap_servers,
        "listeners": f"http://127.0.0.1:{port}",
        "key.converter": TEXT,
        "value.converter": TEXT,
        "offset.flush.interval.ms": 1000,
    }


def make_connector(url: str, connector: dict[str, Any]) -> None:
    """Wait for the worker first: its port is open before it knows what is asked for."""
    limit = time.monotonic() + WAIT_SECONDS
    told = ""
    while time.monotonic() < limit:
        try:
            made = requests.post(
                url, data=json.dumps(connector), headers=AS_JSON, timeout=WAIT_SECONDS
            )
        except requests.ConnectionError as error:
            told = str(error)
        else:
            if made.status_code == requests.codes.created:
                return
            told = made.text
        time.sleep(0.2)
    pytest.fail(told)


def test_a_worker_alone_copies_a_file_through_a_topic(
    server: Server, lines: Path, topic: str, tmp_path: Path
) -> None:
    copy = tmp_path / "out.txt"
    sink = {"name": "sink", "connector.class": FILE_CONNECTOR.format("Sink"), "topics": topic}
    files = (
        properties(
            tmp_path / "worker.properties",
            {**worker(server, free_port()), "offset.storage.file.filename": tmp_path / "offsets"},
        ),
        properties(tmp_path / "source.properties", {"name": "s", **source_of(lines, topic)}),
        properties(tmp_path / "sink.properties", {**sink, "file": copy}),
    )
    with running("connect-standalone", *files, folder=tmp_path):
        assert values(server.bootstrap_servers, topic) == LINES
        limit = time.monotonic() + WAIT_SECONDS
        while not copy.exists() or copy.read_text() != lines.read_text():
            assert time.monotonic() < limit
            time.sleep(0.1)


def test_a_group_of_workers_copies_exactly_once(
    server: Server, lines: Path, topic: str, tmp_path: Path
) -> None:
    port = free_port()
    stored = {
        f"{kind}.storage.{name}": value
        for kind in ("config", "offset", "status")
        for name, value in (("topic", f"{topic}-{kind}"), ("replication.factor", 1))
    }
    file = properties(
        tmp_path / "worker.properties",
        {
            **worker(server, port),
            **stored,
            "group.id": topic,
            "exactly.once.source.support": "enabled",
        },
    )
    with running("connect-distributed", file, folder=tmp_path):
        url = f"http://127.0.0.1:{port}/connectors"
        make_connector(url, {"name": "s", "config": source_of(lines, topic)})
        assert values(server.bootstrap_servers, topic) == LINES
        status = requests.get(f"{url}/s/status", timeout=WAIT_SECONDS).json()
        assert status["connector"]["state"] == "RUNNING"


def test_a_topic_is_mirrored_to_another_cluster(
    server: Server, new_server: NewServer, lines: Path, topic: str, tmp_path: Path
) -> None:
    with new_server(tmp_path / "other") as other:
        source = properties(
            tmp_path / "source.properties", {"name": "s", **source_of(lines, topic)}
        )
        alone_worker = properties(
            tmp_path / "worker.properties",
            {**worker(server, free_port()), "offset.storage.file.filename": tmp_path / "offsets"},
        )
        with running("connect-standalone", alone_worker, source, folder=tmp_path):
            assert values(server.bootstrap_servers, topic) == LINES
        mirror = properties(
            tmp_path / "mirror.properties",
            {
                "clusters": "here,there",
                "here.bootstrap.servers": server.bootstrap_servers,
                "there.bootstrap.servers": other.bootstrap_servers,
                "here->there.enabled": "true",
                "here->there.topics": topic,
                "replication.factor": 1,
                **{
                    f"{name}.replication.factor": 1
                    for name in (
                        *("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic"),
                        *("offset.storage", "status.storage", "config.storage"),
                    )
                },
            },
        )
        with running("connect-mirror-maker", mirror, folder=tmp_path):
            assert values(other.bootstrap_servers, f"here.{topic}") == LINES
