"""Replicas that go from broker to broker, with real processes: on the command line and in Kafka's
words, with queues and delays, while brokers are killed and clients write."""

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import kafka
import pytest
import requests
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from kafka import KafkaAdminClient
from kafka.errors import InvalidReplicationAssignmentError, NoReassignmentInProgressError

from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.interop.own_cluster import bring_back, options_of
from tests.interop.test_cli import Cli

WAIT_SECONDS = 120.0
_names = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[GoQueueCluster]:
    settings = {
        "offsets.topic.num.partitions": "3",
        # Killed processes are noticed without it, and on a busy machine others must not seem so.
        "broker.session.timeout.ms": "30000",
        "auto.leader.rebalance.enable": "false",
    }
    with GoQueueCluster(*options_of(settings), brokers=4) as running:
        yield running


@pytest.fixture(autouse=True)
def whole(cluster: GoQueueCluster) -> Iterator[None]:
    """Each test begins and ends with all brokers, and nothing is held back."""
    yield
    bring_back(cluster)
    ask(cluster, "PATCH", "/cluster/moves", {"isPaused": False, "rateBytes": 0})
    for node in cluster.node_ids:
        ask(cluster, "PATCH", f"/cluster/nodes/{node}", {"isCordoned": False})


@pytest.fixture
def cli(cluster: GoQueueCluster) -> Cli:
    return Cli({**os.environ, "GOQUEUE_BOOTSTRAP": cluster.bootstrap_servers})


def ask(cluster: GoQueueCluster, method: str, path: str, body: Any = None) -> Any:
    """Of any broker that runs; again while it says that it will know soon."""
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while True:
        url = cluster.server(cluster.running[0]).http_url
        answer = requests.request(method, url + path, json=body, timeout=WAIT_SECONDS)
        if answer.status_code != 503:
            assert answer.status_code < 300, answer.text
            return answer.json() if answer.content else None
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.1)


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def make(cluster: GoQueueCluster, *replicas: int, partitions: int = 1, **config: str) -> str:
    """A topic whose partitions are on these brokers."""
    name = f"moved-{next(_names)}"
    ask(
        cluster,
        "POST",
        "/topics",
        {"name": name, "partitions": partitions, "replicationFactor": 3, "config": config},
    )
    begin(cluster, name, *replicas, partitions=partitions)
    until_moved(cluster, name, *replicas)
    return name


def begin(cluster: GoQueueCluster, topic: str, *target: int, partitions: int = 1) -> None:
    moves = [
        {"topic": topic, "partition": index, "replicas": list(target)}
        for index in range(partitions)
    ]
    results = ask(cluster, "POST", "/cluster/moves", {"moves": moves})["results"]
    assert [each["error"] for each in results] == [None] * partitions


def partitions(cluster: GoQueueCluster, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(cluster, "GET", f"/cluster/metadata?topic={topic}")[
        "partitions"
    ]
    return found


def until_moved(cluster: GoQueueCluster, topic: str, *target: int) -> None:
    until(
        lambda: all(
            each["replicas"] == list(target)
            and not each["adding"]
            and set(each["isr"]) == set(target)
            for each in partitions(cluster, topic)
        )
    )


class Writer(threading.Thread):
    """Writes numbers with acks=all until it is told to end, and knows which were acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 120_000,
                "log_level": 0,
            }
        )
        self._topic = topic
        self._is_over = threading.Event()
        self.acknowledged: list[int] = []
        self.failures: list[KafkaError] = []

    def run(self) -> None:
        for number in itertools.count():
            if self._is_over.is_set():
                break
            value = b"%d" % number + b" " * 500
            self._producer.produce(self._topic, value, partition=0, on_delivery=self._told(number))
            self._producer.poll(0.002)
        self._producer.flush(stretched(60))

    def _told(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def told(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.acknowledged.append(number)
            else:
                self.failures.append(error)

        return told

    def end(self) -> list[int]:
        self._is_over.set()
        self.join()
        assert not self.failures
        return self.acknowledged

    def __enter__(self) -> "Writer":
        self.start()
        until(lambda: len(self.acknowledged) > 50)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()


def read(cluster: GoQueueCluster, topic: str, count: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while len(found) < count:
        assert time.monotonic() < deadline, len(found)
        for message in consumer.consume(1_000, 0.5):
            value = message.value()
            assert message.error() is None
            assert value is not None
            found.append(int(value))
    consumer.close()
    return found


def test_nothing_is_lost_on_the_way(cluster: GoQueueCluster) -> None:
    topic = make(cluster, 1, 2, 3)
    with Writer(cluster.bootstrap_servers, topic) as writer:
        for target in ((4, 2, 3), (2, 3, 1), (1, 4, 3)):
            begin(cluster, topic, *target)
            until_moved(cluster, topic, *target)
            before = len(writer.acknowledged)
            until(lambda before=before: len(writer.acknowledged) > before + 50)  # type: ignore[misc]
        acknowledged = writer.end()
    # An idempotent producer: each once, and in order.
    assert read(cluster, topic, len(acknowledged)) == acknowledged == list(range(len(acknowledged)))
    assert cluster.leader(topic) in (1, 3, 4)


@pytest.mark.parametrize("victim", ["controller", "added", "leader"])
def test_a_kill_in_the_middle(cluster: GoQueueCluster, victim: str) -> None:
    """The move goes on when the broker is back; nothing that was acknowledged is lost."""
    topic = make(cluster, 1, 2, 3)
    with Writer(cluster.bootstrap_servers, topic) as writer:
        ask(cluster, "PATCH", "/cluster/moves", {"rateBytes": 50_000})
        begin(cluster, topic, 4, 2, 3)
        leader = cluster.leader(topic)
        node = {"controller": cluster.controller(), "added": 4, "leader": leader}[victim]
        assert node is not None
        cluster.kill(node)
        until(lambda: node not in cluster.in_sync(topic))
        cluster.restart(node)
        ask(cluster, "PATCH", "/cluster/moves", {"rateBytes": 0})
        until_moved(cluster, topic, 4, 2, 3)
        before = len(writer.acknowledged)
        until(lambda: len(writer.acknowledged) > before + 50)
        acknowledged = writer.end()
    assert read(cluster, topic, len(acknowledged)) == acknowledged


def test_a_move_is_paused_and_cancelled(cluster: GoQueueCluster, cli: Cli) -> None:
    topic = make(cluster, 1, 2, 3)
    with Writer(cluster.bootstrap_servers, topic) as writer:
        cli("cluster", "moves", "pause")
        shown = cli("cluster", "move", topic, "--to", "4,2,3").stdout.decode()
        assert shown == "1 partitions are on their way\n"
        listed = cli("cluster", "moves")
        assert topic in listed.stdout.decode()
        assert "moves are paused" in listed.stderr.decode()
        found = cli.json("cluster", "moves")
        assert isinstance(found, dict)
        [move] = found["moves"]
        assert (move["before"], move["target"], move["removing"]) == ([1, 2, 3], [4, 2, 3], [1])
        [copy] = move["adding"]
        assert (copy["nodeId"], copy["isInSync"]) == (4, False)
        assert copy["bytesLeft"] > 0
        before = len(writer.acknowledged)
        until(lambda: len(writer.acknowledged) > before + 50)
        cli("cluster", "moves", "cancel", "--topic", topic, "--yes")
        until_moved(cluster, topic, 1, 2, 3)
        cli("cluster", "moves", "resume")
        acknowledged = writer.end()
    assert read(cluster, topic, len(acknowledged)) == acknowledged
    assert "nothing is moved" in cli("cluster", "moves", "--wait").stderr.decode()
    refused = cli("cluster", "move", topic, "--to", "1,9", code=1).stdout.decode()
    assert "replica 9 is no known broker" in refused


def test_a_node_is_drained_and_filled_again(cluster: GoQueueCluster, cli: Cli) -> None:
    topic = make(cluster, 1, 2, 3, partitions=3)
    plan = cli("cluster", "drain", "2", "--dry-run").stdout.decode()
    assert topic in plan
    cli("cluster", "drain", "2", "--wait", "--yes")

    def state(node: int) -> dict[str, Any]:
        nodes = ask(cluster, "GET", "/cluster/state")["nodes"]
        return next(each for each in nodes if each["nodeId"] == node)

    until(lambda: state(2)["replicas"] == 0)
    assert (state(2)["leaders"], state(2)["isCordoned"]) == (0, True)
    assert all(2 not in each["replicas"] for each in partitions(cluster, topic))
    # What is made now does not come there.
    other = make(cluster, 1, 3, 4)
    assert all(2 not in each["replicas"] for each in partitions(cluster, other))
    assert b"start another node" in cli("cluster", "drain", "3", "--yes", code=1).stderr
    cli("cluster", "drain", "2", "--undo")
    assert not state(2)["isCordoned"]
    cli("cluster", "rebalance", "--wait", "--yes")
    until(lambda: state(2)["replicas"] > 0)


def test_queues_and_delays_go_with_their_topic(cluster: GoQueueCluster) -> None:
    topic = make(cluster, 1, 2, 3)
    messages = [{"value": f"{n}", "partition": 0} for n in range(10)]
    ask(cluster, "POST", f"/topics/{topic}/messages", {"messages": messages})
    later = {"value": "later", "partition": 0, "delay": 8_000}
    ask(cluster, "POST", f"/topics/{topic}/messages", {"messages": [later]})

    def receive() -> list[dict[str, Any]]:
        body = {"topic": topic, "timeout": 1_000, "max": 3}
        found: list[dict[str, Any]] = ask(cluster, "POST", "/groups/workers/receive", body)[
            "messages"
        ]
        if found:
            receipts = [message["receipt"] for message in found]
            done = ask(cluster, "POST", "/messages/ack", {"group": "workers", "receipts": receipts})
            assert [each["error"] for each in done["results"]] == [None] * len(found)
        return found

    held = receive()
    assert held
    begin(cluster, topic, 4, 2, 3)
    until_moved(cluster, topic, 4, 2, 3)
    described = ask(cluster, "GET", f"/topics/{topic}")
    for kind in ("__queue_state", "__delayed"):
        companion = f"{kind}.{described['id'].replace('-', '')}"
        until_moved(cluster, companion, 4, 2, 3)
        assert cluster.leader(topic) in (2, 3, 4)
        until(lambda c=companion: cluster.leader(c) == cluster.leader(topic))  # type: ignore[misc]
    values: list[str] = [message["value"] for message in held]
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while len(values) < 11:
        assert time.monotonic() < deadline, values
        values += [message["value"] for message in receive()]
    # What was acknowledged before does not come again, and what was delayed comes once.
    assert sorted(values) == sorted([*(f"{n}" for n in range(10)), "later"])


def test_in_kafka_s_words(cluster: GoQueueCluster) -> None:
    topic = make(cluster, 1, 2, 3)
    ask(cluster, "PATCH", "/cluster/moves", {"isPaused": True})
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    place = kafka.TopicPartition(topic, 0)
    try:
        assert admin.alter_partition_reassignments({place: [4, 2, 3]}) == {place: None}
        going = {"replicas": [1, 2, 3, 4], "adding_replicas": [4], "removing_replicas": [1]}
        until(lambda: admin.list_partition_reassignments() == {place: going})
        assert admin.list_partition_reassignments({topic: [0]}) == {place: going}
        assert admin.list_partition_reassignments({topic: [1]}) == {}
        assert admin.alter_partition_reassignments({place: None}) == {place: None}
        until(lambda: admin.list_partition_reassignments() == {})
        refused = admin.alter_partition_reassignments({place: None})
        assert refused == {place: NoReassignmentInProgressError}
        refused = admin.alter_partition_reassignments({place: [1, 1]})
        assert refused == {place: InvalidReplicationAssignmentError}
        ask(cluster, "PATCH", "/cluster/moves", {"isPaused": False})
        assert admin.alter_partition_reassignments({place: [2, 4]}) == {place: None}
        until_moved(cluster, topic, 2, 4)
    finally:
        admin.close()
