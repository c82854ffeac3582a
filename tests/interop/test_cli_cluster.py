"""`goqueue cluster` against real server processes: a node of one, and a cluster of two."""

import os
import time
from collections.abc import Callable

import pytest

from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
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


def test_settings_of_a_running_broker(cli: Cli) -> None:
    none = cli("cluster", "settings")
    assert (none.stdout, none.stderr.count(b"\n")) == (b"", 1)
    changed = ("--set", "log.retention.ms=3d", "--set", "num.partitions=5")
    rows = rows_of(cli, "cluster", "settings", *changed)
    assert {row["name"]: row["value"] for row in rows} == {
        "log.retention.ms": "259200000",
        "num.partitions": "5",
        "topic.retention.ms": "259200000",
    }
    rows = rows_of(cli, "cluster", "settings", "num.part", "--node", "0")
    assert all("num.part" in str(row["name"]) for row in rows)
    (row,) = (row for row in rows if row["name"] == "num.partitions")
    assert (row["value"], row["source"]) == ("5", "dynamic_default_broker")
    refused = cli("cluster", "settings", "--node", "0", "--set", "kafka.port=1", code=1).stderr
    assert b"kafka.port: cannot be changed at run time" in refused
    cli("cluster", "settings", "--unset", "log.retention.ms", "--unset", "num.partitions")
    assert cli("cluster", "settings").stdout == b""


@pytest.mark.parametrize("command", [("elect",), ("leave", "1", "--yes")])
def test_a_node_of_one_says_that_it_is_one(cli: Cli, command: tuple[str, ...]) -> None:
    error = cli("cluster", *command, code=1).stderr.decode()
    assert "a node of one" in error
    assert error.count("\n") == 1


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + stretched(60)
    while not is_so():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.2)


def test_a_broker_stops_comes_back_and_leaves() -> None:
    settings = {
        "default.replication.factor": "2",
        "topic.min.insync.replicas": "1",
        "auto.leader.rebalance.enable": "false",
    }
    options = [word for name, text in settings.items() for word in ("--set", f"{name}={text}")]
    with GoQueueCluster(*options, brokers=2) as cluster:
        cli = Cli({**os.environ, "GOQUEUE_BOOTSTRAP": cluster.server(2).bootstrap_servers})

        def health() -> str:
            status = cli.json("cluster", "status")
            assert isinstance(status, dict)
            return str(status["status"])

        def leaders() -> list[object]:
            return [row["leader"] for row in rows_of(cli, "cluster", "partitions", "-t", "orders")]

        cli("topics", "create", "orders", "-p", "2")
        assert leaders() == [1, 2]
        assert b"2 of 2 nodes are alive" in cli("cluster", "status", "--check").stdout
        assert b"stop it first" in cli("cluster", "leave", "1", "--yes", code=1).stderr

        first = Cli({**os.environ, "GOQUEUE_BOOTSTRAP": cluster.server(1).bootstrap_servers})

        def held_by_first() -> dict[object, object]:
            rows = rows_of(first, "cluster", "settings", "--node", "1")
            return {row["name"]: row["value"] for row in rows}

        cli("cluster", "settings", "--set", "max.connections=777", "--set", "num.partitions=4")
        cli("cluster", "settings", "--node", "1", "--set", "num.partitions=5")
        wait_until(lambda: held_by_first()["num.partitions"] == "5")
        assert held_by_first()["max.connections"] == "777"
        first("topics", "create", "of-five")
        assert len(rows_of(cli, "cluster", "partitions", "-t", "of-five")) == 5
        cli("topics", "create", "of-four")
        assert len(rows_of(cli, "cluster", "partitions", "-t", "of-four")) == 4
        cli("topics", "delete", "of-five", "of-four", "--yes")

        cluster.stop(1)
        wait_until(lambda: health() == "degraded")
        assert b"nodes that are down: 1" in cli("cluster", "status", "--check", code=1).stdout
        behind = rows_of(cli, "cluster", "partitions", "--problem", "under-replicated")
        assert [(row["topic"], row["leader"], row["isr"]) for row in behind] == [
            ("orders", 2, [2]),
            ("orders", 2, [2]),
        ]

        # Of several addresses the first that answers is asked, and what is gone is not.
        both = Cli({**os.environ, "GOQUEUE_BOOTSTRAP": cluster.bootstrap_servers})
        for command in ("topics list", "groups list", "transactions list", "cluster nodes"):
            both(*command.split())
        urls = ",".join(cluster.http_urls)
        both("cluster", "nodes", "--http", urls)

        cluster.restart(1)
        wait_until(lambda: health() == "healthy")
        assert held_by_first()["num.partitions"] == "5"
        assert leaders() == [2, 2]
        elected = cli("cluster", "elect", "--topic", "orders").stdout
        assert elected == b"1 partitions have another leader now\n"
        wait_until(lambda: leaders() == [1, 2])

        cluster.stop(1)
        wait_until(lambda: health() == "degraded")
        assert b"no node 7" in cli("cluster", "leave", "7", "--yes", code=1).stderr
        assert b"not part of the cluster" in cli("cluster", "leave", "1", "--yes").stdout
        assert [node["nodeId"] for node in rows_of(cli, "cluster", "nodes")] == [2]
