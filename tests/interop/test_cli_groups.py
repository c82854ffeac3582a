"""`goqueue groups`, `offsets` and `transactions` against a real server and real consumers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner

from goqueue.cli.main import app
from tests.interop.servers import Server

TIMEOUT_SECONDS = 60


class Cli:
    def __init__(self, bootstrap: str) -> None:
        self._environment = {"GOQUEUE_BOOTSTRAP": bootstrap, "TZ": "UTC"}

    def __call__(self, *arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, arguments, env=self._environment)
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))


@pytest.fixture
def cli(bootstrap: str) -> Cli:
    return Cli(bootstrap)


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:8]}"


@pytest.fixture
def filled(cli: Cli, bootstrap: str, topic: str) -> str:
    """A topic of two partitions with ten messages in each, a second apart."""
    cli("topics", "create", topic, "-p", "2")
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        for partition in range(2):
            producer.produce(
                topic, b"x", partition=partition, timestamp=1_600_000_000_000 + number * 1000
            )
    assert producer.flush(TIMEOUT_SECONDS) == 0
    return topic


@pytest.fixture
def member(bootstrap: str, group: str, filled: str) -> Iterator[Consumer]:
    """A running consumer that has committed offset 4 of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "worker",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([filled])
    while len(consumer.assignment()) < 2:
        consumer.poll(0.1)
    consumer.commit(offsets=[TopicPartition(filled, 0, 4)], asynchronous=False)
    yield consumer
    consumer.close()


def committed(cli: Cli, group: str) -> dict[int, int]:
    return {
        each["partition"]: each["committedOffset"] for each in cli.json("offsets", "list", group)
    }


def test_a_running_group(cli: Cli, group: str, filled: str, member: Consumer) -> None:
    [listed] = [each for each in cli.json("groups", "list") if each["group"] == group]
    assert listed == {
        "group": group,
        "type": "classic",
        "state": "Stable",
        "protocolType": "consumer",
    }
    assert group not in cli("groups", "list", "--state", "Empty")
    found = cli.json("groups", "describe", group)
    assert (found["state"], found["assignor"], found["lag"]) == ("Stable", "range", 6)
    assert [each["clientId"] for each in found["members"]] == ["worker"]
    assert [(each["partition"], each["lag"]) for each in found["partitions"]] == [(0, 6), (1, None)]
    table = cli("groups", "describe", group)
    assert "worker" in table
    assert "lag 6" in table
    assert yaml.safe_load(cli("groups", "describe", group, "-o", "yaml")) == found

    refusal = cli("offsets", "reset", group, "--to", "latest", "--yes", code=1)
    assert "has 1 member (Stable)" in refusal
    assert "stop them first" in refusal
    assert "stop them first" in cli("groups", "delete", group, "--yes", code=1)
    assert "stop it first" in cli("offsets", "delete", group, "--yes", code=1)
    assert committed(cli, group) == {0: 4}


def test_reset_in_every_way(
    cli: Cli, group: str, filled: str, member: Consumer, tmp_path: Path
) -> None:
    member.close()

    def reset(*arguments: str) -> dict[int, int]:
        cli("offsets", "reset", group, "--yes", *arguments)
        return committed(cli, group)

    shown = cli.json("offsets", "reset", group, "--to", "latest", "--dry-run")
    assert [(each["currentOffset"], each["newOffset"], each["lag"]) for each in shown] == [
        (4, 10, 0)
    ]
    assert "nothing was changed" in cli("offsets", "reset", group, "--to", "latest", "--dry-run")
    assert committed(cli, group) == {0: 4}

    assert reset("--to", "latest") == {0: 10}
    assert reset("--to", "earliest", "--topic", filled) == {0: 0, 1: 0}
    assert reset("--to", "offset=7", "--topic", f"{filled}:1") == {0: 0, 1: 7}
    assert reset("--to", "shift=-2") == {0: 0, 1: 5}
    assert reset("--to", "time=2020-09-13T12:26:43Z") == {0: 3, 1: 3}
    assert reset("--to", "time=now") == {0: 10, 1: 10}

    file = tmp_path / "offsets.csv"
    reset("--to", "offset=6")
    cli("offsets", "export", group, "--file", str(file))
    assert file.read_text() == f"{filled},0,6\n{filled},1,6\n"
    reset("--to", "latest")
    assert reset("--from-file", str(file)) == {0: 6, 1: 6}
    assert cli("offsets", "export", group) == file.read_text()

    for arguments, message in (
        (("--to", "latest", "--topic", "nonsense"), "there is no topic 'nonsense'"),
        (("--to", "latest", "--topic", f"{filled}:9"), "no partition 9"),
        (("--from-file", str(tmp_path / "none")), "cannot read"),
    ):
        assert message in cli("offsets", "reset", group, "--yes", *arguments, code=1)
    file.write_text("one,two\n")
    refusal = cli("offsets", "reset", group, "--yes", "--from-file", str(file), code=1)
    assert "line 1" in refusal

    before = committed(cli, group)
    assert "--yes" in cli("offsets", "reset", group, "--to", "earliest", code=1)
    assert "--yes" in cli("offsets", "delete", group, code=1)
    assert "--yes" in cli("groups", "delete", group, code=1)
    assert committed(cli, group) == before
    cli("offsets", "delete", group, "--topic", f"{filled}:0", "--yes")
    assert committed(cli, group) == {1: 6}
    assert "deleted group" in cli("groups", "delete", group, "--yes")
    assert f"no group {group!r}" in cli("groups", "describe", group, code=1)
    assert "no offsets" in cli("offsets", "export", group, code=1)
    assert "say with --topic" in cli("offsets", "reset", group, "--to", "latest", code=1)


def test_the_next_consumer_begins_where_the_reset_says(
    cli: Cli, bootstrap: str, group: str, filled: str
) -> None:
    cli("offsets", "reset", group, "--topic", f"{filled}:0", "--to", "offset=8", "--yes")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([filled])
    message = consumer.poll(TIMEOUT_SECONDS)
    assert message is not None
    assert (message.partition(), message.offset()) == (0, 8)
    consumer.close()


def test_transactions(cli: Cli, bootstrap: str, filled: str, server: Server) -> None:
    name = f"tx-{filled}"
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(TIMEOUT_SECONDS)
    empty = cli.json("transactions", "describe", name)
    assert (empty["state"], empty["startedAt"], empty["partitions"]) == ("Empty", None, [])
    assert f"{name}  Empty, producer" in cli("transactions", "describe", name)
    producer.begin_transaction()
    producer.produce(filled, b"x", partition=1)
    producer.flush(TIMEOUT_SECONDS)
    listed = cli.json("transactions", "list", "--state", "Ongoing")
    assert [each["transactionalId"] for each in listed] == [name]
    found = cli.json("transactions", "describe", name)
    assert found["state"] == "Ongoing"
    assert found["partitions"] == [{"topic": filled, "partition": 1}]
    assert "Ongoing, since 20" in cli("transactions", "describe", name)
    assert cli.json("transactions", "list", "--longer-than", "1h") == []
    producer.commit_transaction(TIMEOUT_SECONDS)
    assert "transactional id 'none'" in cli("transactions", "describe", "none", code=1)
    assert "no transaction state" in cli("transactions", "list", "--state", "Odd", code=1)
