"""kafka-acls.sh of Apache Kafka: rules are made, listed and removed as its users know it."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.broker_config import broker_config
from goqueue.service.broker_service import BrokerService
from tests.interop.kafka_bin.commands import Commands
from tests.rules import ActingAs

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(600)]

# Options, the code that it ends with, and what the list of all rules shows then: kind of the
# resource, name, pattern, principal, operation, permission.
STEPS: list[tuple[str, set[tuple[str, ...]]]] = [
    (
        "--add --allow-principal User:alice --producer --topic orders",
        {
            ("TOPIC", "orders", "LITERAL", "User:alice", "WRITE", "ALLOW"),
            ("TOPIC", "orders", "LITERAL", "User:alice", "DESCRIBE", "ALLOW"),
            ("TOPIC", "orders", "LITERAL", "User:alice", "CREATE", "ALLOW"),
        },
    ),
    (
        "--add --allow-principal User:bob --consumer --topic ord --group g"
        " --resource-pattern-type prefixed",
        {
            ("TOPIC", "ord", "PREFIXED", "User:bob", "READ", "ALLOW"),
            ("TOPIC", "ord", "PREFIXED", "User:bob", "DESCRIBE", "ALLOW"),
            ("GROUP", "g", "PREFIXED", "User:bob", "READ", "ALLOW"),
        },
    ),
    (
        "--add --deny-principal User:* --operation All --topic * --deny-host 10.0.0.1",
        {("TOPIC", "*", "LITERAL", "User:*", "ALL", "DENY")},
    ),
    (
        "--add --allow-principal User:alice --producer --idempotent --transactional-id t"
        " --topic tx",
        {
            ("TOPIC", "tx", "LITERAL", "User:alice", "WRITE", "ALLOW"),
            ("TOPIC", "tx", "LITERAL", "User:alice", "DESCRIBE", "ALLOW"),
            ("TOPIC", "tx", "LITERAL", "User:alice", "CREATE", "ALLOW"),
            ("TRANSACTIONAL_ID", "t", "LITERAL", "User:alice", "WRITE", "ALLOW"),
            ("TRANSACTIONAL_ID", "t", "LITERAL", "User:alice", "DESCRIBE", "ALLOW"),
            ("CLUSTER", "kafka-cluster", "LITERAL", "User:alice", "IDEMPOTENT_WRITE", "ALLOW"),
        },
    ),
]


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[KafkaDoor]:
    texts = {
        "data.dir": str(tmp_path / "data"),
        "kafka.port": "0",
        "http.port": "0",
        "super.users": "User:root",
    }
    node = await Node.open(broker_config(texts))
    rules = ActingAs(node.security.rules, "root")
    opened = KafkaDoor(BrokerService(node, rules), node.config)
    await node.announce(*await opened.start(), 0)
    yield opened
    await opened.stop()
    await node.close()


async def test_as_its_users_know_it(door: KafkaDoor, tmp_path: Path) -> None:
    host, port = door.address
    with closing(Commands(tmp_path)) as commands:

        async def run(options: str) -> str:
            words = ["--bootstrap-server", f"{host}:{port}", *options.split()]
            commands.begin("kafka-acls", words)
            ended = await asyncio.to_thread(commands.ended)
            assert ended.code == 0, ended.output
            return ended.output

        expected: set[tuple[str, ...]] = set()
        for options, adds in STEPS:
            await run(options)
            expected |= adds
            assert listed(await run("--list")) == expected
        assert listed(await run("--list --topic orders --resource-pattern-type match")) == {
            each for each in expected if each[:2] in {("TOPIC", n) for n in ("orders", "ord", "*")}
        }
        assert listed(await run("--list --principal User:bob")) == {
            each for each in expected if each[3] == "User:bob"
        }
        for options, removes in STEPS:
            remove = options.replace("--add", "--remove --force")
            await run(remove)
            expected -= removes
            assert listed(await run("--list")) == expected


def listed(output: str) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    place: tuple[str, ...] = ()
    for line in output.splitlines():
        if named := re.search(r"resourceType=(\w+), name=([^,]+), patternType=(\w+)", line):
            place = named.groups()
        if said := re.search(
            r"principal=([^,]+), host=([^,]+), operation=(\w+), permissionType=(\w+)", line
        ):
            found.add((*place, said[1], said[3], said[4]))
    return found
