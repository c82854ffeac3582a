"""Brokers that are stopped: whatever they were asked before is answered, also what waits."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import requests

from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.interop.own_cluster import bring_back, options_of

WAIT_SECONDS = 120.0
TOPIC = "orders"
QUEUE = "tasks.fifo"
SETTINGS = {
    "num.partitions": "1",
    # So that nobody else can lead what a broker led.
    "default.replication.factor": "1",
    "topic.min.insync.replicas": "1",
    # Longer than a broker is paused, also on a busy machine.
    "broker.session.timeout.ms": "60000",
}

Ask = Callable[[], requests.Response]


@pytest.fixture(scope="module")
def cluster() -> Iterator[GoQueueCluster]:
    with GoQueueCluster(*options_of(SETTINGS), brokers=2) as running:
        url = running.http_urls[0]
        assert _sqs(url, "CreateQueue", QueueName=TOPIC).status_code == 200
        attributes = {"FifoQueue": "true"}
        made = _sqs(url, "CreateQueue", QueueName=QUEUE, Attributes=attributes)
        assert made.status_code == 200
        yield running


@pytest.fixture(autouse=True)
def whole(cluster: GoQueueCluster) -> Iterator[None]:
    """Each test begins and ends with all brokers."""
    yield
    bring_back(cluster)


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as pool:
        yield pool


def test_long_polls_are_answered_when_all_stop_at_once(
    cluster: GoQueueCluster, clients: ThreadPoolExecutor
) -> None:
    asked = {
        node: [clients.submit(poll) for poll in _polls(cluster.server(node).http_url)]
        for node in cluster.node_ids
    }
    for node, polls in asked.items():
        _until_under_way(cluster, node, len(polls))
    assert cluster.stop_all() == 0
    for polls in asked.values():
        *queues, read, leased = [_answered(each) for each in polls]
        assert [answer.status_code for answer in queues] == [200, 200]
        assert [answer.json() for answer in queues] == [{}, {}]
        for answer in (read, leased):
            assert answer.status_code == 503
            assert answer.json()["error"]["code"] == "shutting_down"
            assert answer.headers["retry-after"]


def test_what_waits_for_another_broker_is_refused_in_its_protocol(
    cluster: GoQueueCluster, clients: ThreadPoolExecutor
) -> None:
    leader = cluster.leader(TOPIC)
    assert leader is not None
    [other] = set(cluster.node_ids) - {leader}
    url = cluster.server(other).http_url
    queue_url = f"{url}/000000000000/{TOPIC}"
    cluster.pause(leader)
    try:
        sent = clients.submit(_sqs, url, "SendMessage", QueueUrl=queue_url, MessageBody="hello")
        published = clients.submit(_post, f"{url}/topics/{TOPIC}/messages", {"value": "hello"})
        _until_under_way(cluster, other, 2)
        assert cluster.stop(other) == 0
    finally:
        cluster.resume(leader)
    for answer in (_answered(sent), _answered(published)):
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
    kind = _answered(sent).json()["__type"]
    assert kind == "com.amazon.coral.service#ServiceUnavailableException"
    assert _answered(published).json()["error"]["code"] == "shutting_down"
    assert "uvicorn" not in cluster.server(other).log_text


def _polls(url: str) -> list[Ask]:
    read = f"{url}/topics/{TOPIC}/partitions/0/messages?maxWait=30000"
    return [
        lambda: _sqs(
            url, "ReceiveMessage", QueueUrl=f"{url}/000000000000/{TOPIC}", WaitTimeSeconds=20
        ),
        lambda: _sqs(
            url, "ReceiveMessage", QueueUrl=f"{url}/000000000000/{QUEUE}", WaitTimeSeconds=20
        ),
        lambda: requests.get(read, timeout=WAIT_SECONDS),
        lambda: _post(f"{url}/groups/readers/receive", {"topic": TOPIC, "timeout": 30_000}),
    ]


def _sqs(url: str, action: str, **fields: Any) -> requests.Response:
    headers = {
        "X-Amz-Target": f"AmazonSQS.{action}",
        "Content-Type": "application/x-amz-json-1.0",
    }
    return requests.post(url, json=fields, headers=headers, timeout=WAIT_SECONDS)


def _post(url: str, body: Any) -> requests.Response:
    return requests.post(url, json=body, timeout=WAIT_SECONDS)


def _answered(asked: "Future[requests.Response]") -> requests.Response:
    return asked.result(stretched(WAIT_SECONDS))


def _until_under_way(cluster: GoQueueCluster, node: int, count: int) -> None:
    """The question itself is one more."""
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    url = f"{cluster.server(node).http_url}/metrics"
    while True:
        told = requests.get(url, timeout=WAIT_SECONDS).text
        found = re.search(r"^goqueue_http_requests_in_flight (\d+)", told, re.MULTILINE)
        assert found is not None
        if int(found[1]) == count + 1:
            return
        assert time.monotonic() < deadline, found[0]
        time.sleep(0.02)
