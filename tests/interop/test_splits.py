"""Topics that are split while librdkafka's clients write and read them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaException, NewPartitions, NewTopic

from goqueue.testing import GoQueueCluster
from tests.crash.splits.kills import Kills
from tests.crash.splits.rounds import ALL_KINDS, DRAIN_MS, OPTIONS, SplitRound, until
from tests.interop.servers import NewServer, Server

WAIT_SECONDS = 120.0


@pytest.fixture(scope="module")
def server(new_server: NewServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with new_server(tmp_path_factory.mktemp("data"), *OPTIONS) as running:
        yield running


def test_a_split_keeps_the_order_of_keys_for_every_kind_of_group(server: Server) -> None:
    report = SplitRound(server, ALL_KINDS).run((6,))
    assert report.messages > 0


def test_a_split_survives_a_kill(server: Server) -> None:
    """It is there with all its partitions, or not at all; and no order is lost."""
    SplitRound(server, ("consumer", "range"), kills=Kills(server, seed=1)).run((6,))


@pytest.mark.slow
def test_one_split_after_another(server: Server) -> None:
    SplitRound(server, ALL_KINDS).run((6, 12))


def test_kafkas_tools_split_too(server: Server, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    plain = NewTopic(f"{topic}-plain", 2, config={"partition.growth": "plain"})
    for done in admin.create_topics([NewTopic(topic, 2), plain]).values():
        done.result(WAIT_SECONDS)
    with pytest.raises(KafkaException, match="order of keys is kept only with a multiple"):
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(WAIT_SECONDS)
    grown = f"{topic}-plain"
    admin.create_partitions([NewPartitions(grown, 3)])[grown].result(WAIT_SECONDS)
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(WAIT_SECONDS)

    def layout(name: str) -> dict[str, object]:
        found = requests.get(f"{server.http_url}/topics/{name}/layout", timeout=WAIT_SECONDS)
        described: dict[str, object] = found.json()
        return described

    assert layout(topic)["epoch"] == 1
    assert layout(grown) == {
        "topic": grown,
        "epoch": 0,
        "partitionCount": 3,
        "state": "settled",
        "epochs": [],
        "partitions": [
            {"partition": index, "epoch": 0, "parent": None, "parentEnd": None}
            for index in range(3)
        ],
    }
    until(lambda: layout(topic)["state"] == "settled", "the split is over")


def test_the_command_prints_keys_in_order_over_splits(server: Server, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(WAIT_SECONDS)
    names = [f"key-{number}" for number in range(8)]

    def write(turn: int) -> None:
        """As clients do that know of the split: a new one asks for the partitions first."""
        producer = Producer({"bootstrap.servers": server.bootstrap_servers})
        for name in names:
            producer.produce(topic, key=name, value=str(turn))
        assert producer.flush(WAIT_SECONDS) == 0

    def read() -> dict[str, list[str]]:
        command = (sys.executable, "-m", "goqueue", "consume", topic, "--keys")
        lines = subprocess.run(
            [*command, "--bootstrap", server.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=True,
        ).stdout.splitlines()
        turns: dict[str, list[str]] = {name: [] for name in names}
        for line in lines:
            key, _, turn = line.partition("\t")
            turns[key].append(turn)
        return turns

    write(0)
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(WAIT_SECONDS)
    write(1)
    # While producers are told of it, and when they have been.
    assert read() == {name: ["0", "1"] for name in names}
    layout = f"{server.http_url}/topics/{topic}/layout"
    until(
        lambda: requests.get(layout, timeout=WAIT_SECONDS).json()["state"] == "settled",
        "the split is over",
    )
    admin.create_partitions([NewPartitions(topic, 8)])[topic].result(WAIT_SECONDS)
    write(2)
    assert read() == {name: ["0", "1", "2"] for name in names}


@pytest.mark.slow
def test_a_leader_that_dies_while_a_topic_is_split(tmp_path: Path) -> None:
    """Another broker tells the ends of the parents that it led."""
    with GoQueueCluster(*OPTIONS, folder=tmp_path) as cluster:
        url = cluster.server(1).http_url
        made: dict[str, str | int] = {"name": "t", "partitions": 3}
        requests.post(f"{url}/topics", json=made, timeout=WAIT_SECONDS).raise_for_status()
        asked = {"partitions": 6}
        split = requests.post(f"{url}/topics/t/split", json=asked, timeout=WAIT_SECONDS)
        assert split.json()["epochs"][-1]["drainMs"] == DRAIN_MS
        lost = next(node for node in cluster.node_ids if node == cluster.leader("t", 0))
        cluster.kill(lost)
        other = next(node for node in cluster.node_ids if node != lost)
        layout = f"{cluster.server(other).http_url}/topics/t/layout"

        def is_settled() -> bool:
            return bool(requests.get(layout, timeout=WAIT_SECONDS).json()["state"] == "settled")

        until(is_settled, "the split is over")
