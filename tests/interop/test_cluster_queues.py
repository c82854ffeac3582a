"""Topics read as queues at any broker of a cluster, over HTTP and SQS, while brokers are killed."""

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import pytest
import requests

from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.interop.own_cluster import bring_back, options_of
from tests.interop.sqs_api import attribute, bodies, connect, receive_all

WAIT_SECONDS = 120.0
PARTITIONS = 3
_names = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[GoQueueCluster]:
    """Three brokers, and one that leads nothing."""
    settings = {
        "offsets.topic.num.partitions": "3",
        "num.partitions": str(PARTITIONS),
        # Killed processes are noticed without it, and on a busy machine others must not seem so.
        "broker.session.timeout.ms": "30000",
    }
    with GoQueueCluster(*options_of(settings), cordoned=1) as running:
        yield running


@pytest.fixture(autouse=True)
def whole(cluster: GoQueueCluster) -> Iterator[None]:
    """Each test begins and ends with all brokers."""
    yield
    bring_back(cluster)


@pytest.fixture
def topic(cluster: GoQueueCluster) -> str:
    """Each of the brokers leads a partition of it, and all have everything."""
    name = f"jobs-{next(_names)}"
    config = {"queue.retry.backoff.ms": "50"}
    door = Broker(cluster, outsider(cluster))
    door.post("/topics", {"name": name, "partitions": PARTITIONS, "config": config})
    until(lambda: all(len(cluster.in_sync(name, index)) == 3 for index in range(PARTITIONS)))
    assert len({cluster.leader(name, index) for index in range(PARTITIONS)}) == PARTITIONS
    return name


def outsider(cluster: GoQueueCluster) -> int:
    return cluster.cordoned_ids[0]


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Broker:
    """Over HTTP; asked again while it says that it will know soon."""

    def __init__(self, cluster: GoQueueCluster, node: int) -> None:
        self.node = node
        self.url = cluster.server(node).http_url
        self._session = requests.Session()

    def ask(self, method: str, path: str, body: Any = None) -> requests.Response:
        return self._session.request(method, self.url + path, json=body, timeout=WAIT_SECONDS)

    def _done(self, method: str, path: str, body: Any = None) -> Any:
        deadline = time.monotonic() + stretched(WAIT_SECONDS)
        while True:
            answer = self.ask(method, path, body)
            if answer.status_code != 503:
                assert answer.status_code < 300, answer.text
                return answer.json()
            assert answer.headers["retry-after"] == "1"
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.05)

    def get(self, path: str) -> Any:
        return self._done("GET", path)

    def post(self, path: str, body: Any) -> Any:
        return self._done("POST", path, body)

    def publish(self, topic: str, *values: str, partition: int) -> None:
        messages = [{"value": value, "partition": partition} for value in values]
        self.post(f"/topics/{topic}/messages", {"messages": messages})

    def receive(self, topic: str, timeout: int = 0, **options: Any) -> list[dict[str, Any]]:
        body = {"topic": topic, "timeout": timeout, **options}
        found: list[dict[str, Any]] = self.post("/groups/workers/receive", body)["messages"]
        return found

    def receive_all(self, topic: str, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + stretched(WAIT_SECONDS)
        while len(found) < count:
            assert time.monotonic() < deadline, found
            found += self.receive(topic, timeout=1_000)
        return found

    def settle(self, how: str, messages: list[dict[str, Any]], **fields: Any) -> list[str | None]:
        receipts = [message["receipt"] for message in messages]
        answer = self.post(f"/messages/{how}", {"group": "workers", "receipts": receipts, **fields})
        return [result["error"] for result in answer["results"]]

    def stats(self, topic: str) -> list[dict[str, Any]]:
        answer = self.get("/reliability/stats")
        assert "unanswered" not in answer
        return [queue for queue in answer["queues"] if queue["topic"] == topic]


def values(messages: list[dict[str, Any]]) -> list[str]:
    return sorted(message["value"] for message in messages)


def test_a_broker_that_leads_nothing_does_everything(cluster: GoQueueCluster, topic: str) -> None:
    door, others = Broker(cluster, outsider(cluster)), [Broker(cluster, n) for n in (1, 2, 3)]
    for index in range(PARTITIONS):
        door.publish(topic, f"a{index}", f"b{index}", partition=index)
    found = door.receive_all(topic, 6)
    assert values(found) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    firsts = [each for each in found if each["value"].startswith("a")]
    seconds = [each for each in found if each["value"].startswith("b")]
    assert others[0].settle("ack", firsts) == [None] * 3
    assert door.settle("ack", firsts) == ["receipt_settled"] * 3
    assert door.settle("visibility", seconds, timeout=60_000) == [None] * 3
    assert door.settle("nack", seconds, delay=0) == [None] * 3
    again = door.receive_all(topic, 3)
    assert [each["deliveryCount"] for each in again] == [2, 2, 2]
    for broker in (door, *others):
        queues = broker.stats(topic)
        assert [queue["partition"] for queue in queues] == [0, 1, 2]
        assert [queue["inFlight"] for queue in queues] == [1, 1, 1]
        assert [queue["acked"] for queue in queues] == [1, 1, 1]
    assert others[1].settle("reject", again) == [None] * 3
    until(lambda: len(door.get(f"/topics/{topic}/dlq")["deadLetters"]) == 3)
    listed = [broker.get(f"/topics/{topic}/dlq")["deadLetters"] for broker in (door, *others)]
    assert all(values(letters) == ["b0", "b1", "b2"] for letters in listed)
    redriven = door.post(f"/topics/{topic}/dlq/redrive", {})
    assert redriven == {"sentBack": 3, "gone": 0, "held": 0}
    back = others[2].receive_all(topic, 3)
    assert values(back) == ["b0", "b1", "b2"]
    assert door.settle("ack", back) == [None] * 3
    assert all(broker.receive(topic) == [] for broker in (door, *others))


def test_a_long_poll_hears_of_a_message_at_once(cluster: GoQueueCluster, topic: str) -> None:
    waits: list[float] = []
    for number in range(12):
        index = number % PARTITIONS
        leader = cluster.leader(topic, index)
        assert leader is not None
        # One that leads nothing, and one that leads another partition.
        reader = outsider(cluster) if number % 2 else leader % 3 + 1
        door, source = Broker(cluster, reader), Broker(cluster, leader)
        door.receive(topic)
        arrived: list[tuple[float, list[dict[str, Any]]]] = []

        def poll(door: Broker = door, into: list[Any] = arrived) -> None:
            found = door.receive(topic, timeout=30_000)
            into.append((time.monotonic(), found))

        waiting = threading.Thread(target=poll)
        waiting.start()
        time.sleep(0.3)
        source.publish(topic, f"m{number}", partition=index)
        published = time.monotonic()
        waiting.join(WAIT_SECONDS)
        [(at, found)] = arrived
        assert values(found) == [f"m{number}"]
        door.settle("ack", found)
        waits.append(at - published)
    assert median(waits) < stretched(0.1), waits


def test_who_hangs_up_takes_no_message(cluster: GoQueueCluster, topic: str) -> None:
    door = Broker(cluster, outsider(cluster))
    door.receive(topic)
    host, port = door.url.removeprefix("http://").split(":")
    for index in range(PARTITIONS):
        body = b'{"topic": "%s", "timeout": 30000}' % topic.encode()
        with socket.create_connection((host, int(port)), timeout=30) as waiting:
            waiting.sendall(
                b"POST /groups/workers/receive HTTP/1.1\r\nHost: x\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                % (len(body), body)
            )
            time.sleep(0.3)
        time.sleep(0.3)
        door.publish(topic, f"m{index}", partition=index)
    found = Broker(cluster, 1).receive_all(topic, PARTITIONS)
    assert values(found) == ["m0", "m1", "m2"]
    assert [each["deliveryCount"] for each in found] == [1, 1, 1]


def test_messages_outlive_the_leader_that_delivered_them(
    cluster: GoQueueCluster, topic: str
) -> None:
    door = Broker(cluster, outsider(cluster))
    for index in range(PARTITIONS):
        door.publish(topic, f"acked{index}", f"held{index}", partition=index)
    found = door.receive_all(topic, 6)
    acked = [each for each in found if each["value"].startswith("acked")]
    held = [each for each in found if each["value"].startswith("held")]
    assert door.settle("ack", acked) == [None] * 3
    leader = cluster.leader(topic, 1)
    assert leader is not None
    cluster.kill(leader)
    # Those of the other leaders are still with their reader.
    settled = dict(zip((each["value"] for each in held), door.settle("ack", held), strict=True))
    led_by_others = {f"held{n}" for n in (0, 2)}
    assert {settled[value] for value in led_by_others} == {None}
    assert settled["held1"] in ("receipt_expired", "receipt_unknown")
    [again] = door.receive_all(topic, 1)
    assert (again["value"], again["deliveryCount"]) == ("held1", 2)
    assert door.settle("ack", [again]) == [None]
    assert door.receive(topic) == []


def test_a_long_poll_goes_on_at_the_next_leader(cluster: GoQueueCluster, topic: str) -> None:
    door = Broker(cluster, outsider(cluster))
    door.receive(topic)
    found: list[dict[str, Any]] = []

    def poll() -> None:
        found.extend(door.receive(topic, timeout=30_000))

    waiting = threading.Thread(target=poll)
    waiting.start()
    time.sleep(0.3)
    leader = cluster.leader(topic, 1)
    assert leader is not None
    cluster.kill(leader)
    source = Broker(cluster, leader % 3 + 1)
    source.publish(topic, "late", partition=1)
    waiting.join(WAIT_SECONDS)
    assert values(found) == ["late"]


def test_sqs_at_a_broker_that_leads_nothing(cluster: GoQueueCluster) -> None:
    doors = {node: connect(cluster.server(node).http_url) for node in cluster.node_ids}
    door = doors[outsider(cluster)]
    dead = door.create_queue(QueueName="dead")["QueueUrl"]
    arn = attribute(door, dead, "QueueArn")
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": "2"}}'
    url = door.create_queue(
        QueueName="work", Attributes={"VisibilityTimeout": "1", "RedrivePolicy": policy}
    )["QueueUrl"]
    for number in range(9):
        doors[number % 3 + 1].send_message(QueueUrl=url, MessageBody=str(number))
    assert attribute(door, url, "ApproximateNumberOfMessages") == "9"
    found = receive_all(door, url, 9)
    assert sorted(bodies(found)) == [str(number) for number in range(9)]
    for message in found[:6]:
        doors[2].delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    # The others come again after a second, and then not any more.
    again = receive_all(doors[1], url, 3)
    assert sorted(bodies(again)) == sorted(bodies(found[6:]))
    letters = receive_all(doors[3], dead, 3)
    assert sorted(bodies(letters)) == sorted(bodies(found[6:]))
    assert attribute(door, url, "ApproximateNumberOfMessages") == "0"
