"""`goqueue cluster` against a real server process that is a node of one."""

import os

import pytest

from tests.interop.test_cli import Cli


@pytest.fixture
def cli(bootstrap: str) -> Cli:
    return Cli({**os.environ, "GOQUEUE_BOOTSTRAP": bootstrap})


def rows_of(cli: Cli, *arguments: str) -> list[dict[str, object]]:
    rows = cli.json(*arguments)
    assert isinstance(rows, list)
    return rows


def test_status_nodes_and_partitions(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-p", "2")
    shown = cli("cluster", "status", "--check").stdout.decode()
    assert shown.startswith("healthy: a node of one, cluster id ")
    assert " partitions, 0 offline, " in shown
    status = cli.json("cluster", "status")
    assert isinstance(status, dict)
    assert (status["status"], status["isCluster"], status["reasons"]) == ("healthy", False, [])
    assert "alive" in cli("cluster", "nodes").stdout.decode()
    nodes = rows_of(cli, "cluster", "nodes")
    assert [(node["nodeId"], node["isController"]) for node in nodes] == [(0, True)]
    rows = rows_of(cli, "cluster", "partitions", "--topic", topic)
    assert [(row["partition"], row["leader"], row["isr"]) for row in rows] == [
        (0, 0, [0]),
        (1, 0, [0]),
    ]
    assert topic in cli("cluster", "partitions", "-t", topic).stdout.decode()
    none = cli("cluster", "partitions", "--problem", "offline")
    assert (none.stdout, none.stderr) == (b"", b"no such partitions\n")


@pytest.mark.parametrize("command", [("elect",), ("leave", "1", "--yes")])
def test_a_node_of_one_says_that_it_is_one(cli: Cli, command: tuple[str, ...]) -> None:
    error = cli("cluster", *command, code=1).stderr.decode()
    assert "a node of one" in error
    assert error.count("\n") == 1
