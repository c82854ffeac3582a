"""Clients of brokers that cannot reach etcd: one of them alone, and all of them."""

import time
from collections.abc import Callable, Iterator

import pytest
import requests
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.interop.own_cluster import options_of

WAIT_SECONDS = 120.0
# Brokers that wait for the processor must not seem dead.
SESSION_SECONDS = 2.0
SESSION_MAX_SECONDS = 12.0
LONELY_SECONDS = 3.0
TOPIC = "orders"
STEPPED_DOWN = "the others go on without it"


@pytest.fixture(scope="module")
def session_seconds() -> float:
    return min(SESSION_MAX_SECONDS, stretched(SESSION_SECONDS))


@pytest.fixture(scope="module")
def cluster(session_seconds: float) -> Iterator[GoQueueCluster]:
    settings = {
        "broker.session.timeout.ms": str(int(session_seconds * 1_000)),
        "offsets.topic.num.partitions": "1",
    }
    with GoQueueCluster(*options_of(settings), cuts=True) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(WAIT_SECONDS)
        yield running


class Clients:
    """A producer and a consumer that stay, whatever happens to brokers."""

    def __init__(self, cluster: GoQueueCluster, group: str) -> None:
        bootstrap = {"bootstrap.servers": cluster.bootstrap_servers}
        self._producer = Producer({**bootstrap, "acks": "all", "enable.idempotence": True})
        self._consumer = Consumer(
            {**bootstrap, "group.id": group, "auto.offset.reset": "earliest"},
        )
        self._consumer.subscribe([TOPIC])

    def say(self, text: bytes) -> None:
        """Until it is heard."""
        self._producer.produce(TOPIC, text)
        assert self._producer.flush(stretched(WAIT_SECONDS)) == 0
        until(lambda: self._heard() == text)

    def _heard(self) -> bytes | None:
        message = self._consumer.poll(0.5)
        return None if message is None or message.error() else message.value()

    def close(self) -> None:
        self._consumer.close()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def whole(cluster: GoQueueCluster) -> bool:
    return cluster.in_sync(TOPIC) == set(cluster.node_ids)


def readiness(cluster: GoQueueCluster, node: int) -> tuple[int, str]:
    answer = requests.get(f"{cluster.server(node).http_url}/readyz", timeout=WAIT_SECONDS)
    return answer.status_code, answer.text


def test_clients_leave_a_broker_that_alone_is_cut_off_from_etcd(cluster: GoQueueCluster) -> None:
    until(lambda: whole(cluster))
    clients = Clients(cluster, "of-one-cut-off")
    clients.say(b"before")
    first = cluster.leader(TOPIC)
    assert first is not None
    others = set(cluster.node_ids) - {first}
    cluster.cut(first, "etcd")
    until(lambda: all(cluster.leader(TOPIC, seen_by=node) in others for node in others))
    until(lambda: readiness(cluster, first)[0] == 503)
    assert STEPPED_DOWN in readiness(cluster, first)[1]
    assert cluster.server(first).log_text.count(STEPPED_DOWN) == 1
    clients.say(b"elsewhere")
    lonely = AdminClient({"bootstrap.servers": cluster.server(first).bootstrap_servers})
    with pytest.raises(KafkaException):
        # Who knows no other broker is not told what was once.
        lonely.list_topics(timeout=LONELY_SECONDS)
    cluster.heal()
    until(lambda: whole(cluster))
    until(lambda: readiness(cluster, first)[0] == 200)
    clients.say(b"after")
    clients.close()


def test_all_go_on_while_nobody_has_etcd(cluster: GoQueueCluster, session_seconds: float) -> None:
    until(lambda: whole(cluster))
    clients = Clients(cluster, "of-all-cut-off")
    clients.say(b"with etcd")
    told = {node: cluster.server(node).log_text.count(STEPPED_DOWN) for node in cluster.node_ids}
    cluster.kill("etcd")
    # Long enough for every lease to run out, and for everybody to ask everybody.
    time.sleep(session_seconds + 3)
    clients.say(b"without etcd")
    assert all(readiness(cluster, node)[0] == 200 for node in cluster.node_ids)
    for node, before in told.items():
        assert cluster.server(node).log_text.count(STEPPED_DOWN) == before
    cluster.restart("etcd")
    until(lambda: whole(cluster))
    clients.say(b"with etcd again")
    clients.close()
