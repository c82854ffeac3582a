"""SQS at all brokers of a cluster in turn, while brokers are killed: FIFO, delays, move tasks."""

import itertools
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
import requests
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.interop.own_cluster import bring_back, options_of
from tests.interop.sqs_api import REGION, arn, name_of, new_name

PARTITIONS = 3
GROUPS = [f"group-{number}" for number in range(6)]
WAIT_SECONDS = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[GoQueueCluster]:
    """Three brokers, and one that leads nothing."""
    settings = {
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


@pytest.fixture(scope="module")
def brokers(cluster: GoQueueCluster) -> dict[int, Any]:
    """A client for each; what fails is asked of the next one by the test."""
    config = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=60)
    return {
        node: boto3.client(
            "sqs",
            endpoint_url=cluster.server(node).http_url,
            region_name=REGION,
            aws_access_key_id="any",
            aws_secret_access_key="any",
            config=config,
        )
        for node in cluster.node_ids
    }


class AnyBroker:
    """Asks one broker after another; one that is gone, or does not know yet, is passed over."""

    def __init__(self, cluster: GoQueueCluster, brokers: dict[int, Any]) -> None:
        self._cluster = cluster
        self._brokers = brokers
        self._turn = itertools.count()

    def ask(self, action: str, **fields: Any) -> Any:
        deadline: float | None = None
        while True:
            nodes = self._cluster.running
            node = nodes[next(self._turn) % len(nodes)]
            try:
                return getattr(self._brokers[node], action)(**fields)
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] < 500:
                    raise
                failure: Exception = error
            except BotoCoreError as error:
                failure = error
            if deadline is None:
                deadline = time.monotonic() + stretched(WAIT_SECONDS)
            assert time.monotonic() < deadline, failure
            time.sleep(0.05)


@pytest.fixture
def anywhere(cluster: GoQueueCluster, brokers: dict[int, Any]) -> AnyBroker:
    return AnyBroker(cluster, brokers)


def in_sync(cluster: GoQueueCluster, name: str) -> bool:
    return all(len(cluster.in_sync(name, index)) == 3 for index in range(PARTITIONS))


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def new_fifo(cluster: GoQueueCluster, anywhere: AnyBroker) -> str:
    name = new_name(".fifo")
    answer = anywhere.ask("create_queue", QueueName=name, Attributes={"FifoQueue": "true"})
    until(lambda: in_sync(cluster, name))
    url: str = answer["QueueUrl"]
    return url


def drained(anywhere: AnyBroker, url: str, count: int) -> list[dict[str, Any]]:
    """Received, and deleted, in the order in which they came."""
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while len(found) < count:
        assert time.monotonic() < deadline, len(found)
        answer = anywhere.ask(
            "receive_message",
            QueueUrl=url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=1,
            AttributeNames=["All"],
        )
        for message in answer.get("Messages", []):
            found.append(message)
            anywhere.ask("delete_message", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return found


@pytest.mark.parametrize("killed", range(PARTITIONS))
def test_fifo_order_and_deduplication_outlive_leaders(
    cluster: GoQueueCluster, anywhere: AnyBroker, killed: int
) -> None:
    """With the first partition, the broker that numbers the messages is killed."""
    url = new_fifo(cluster, anywhere)
    name = name_of(url)
    sent: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)

    def send(group: str, number: int) -> tuple[str, str]:
        answer = anywhere.ask(
            "send_message",
            QueueUrl=url,
            MessageBody=f"{group}:{number}",
            MessageGroupId=group,
            MessageDeduplicationId=f"{group}-{number}",
        )
        return answer["MessageId"], answer["SequenceNumber"]

    def send_all(group: str) -> None:
        """One after the other, as one producer does; each is sent again at another broker."""
        for number in range(40):
            first = send(group, number)
            assert send(group, number) == first
            sent[group][f"{group}:{number}"] = first

    with ThreadPoolExecutor(len(GROUPS)) as senders:
        sending = [senders.submit(send_all, group) for group in GROUPS]
        until(lambda: len(sent) == len(GROUPS) and min(map(len, sent.values())) >= 10)
        lost = cluster.leader(name, killed)
        assert lost is not None
        cluster.kill(lost)
        for each in sending:
            each.result(timeout=stretched(WAIT_SECONDS))
    for group in GROUPS:
        # Long after, and by whoever numbers them now.
        assert send(group, 0) == sent[group][f"{group}:0"]
    received = drained(anywhere, url, 40 * len(GROUPS))
    by_group: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for message in received:
        by_group[message["Attributes"]["MessageGroupId"]].append(message)
    for group in GROUPS:
        # What was received and not deleted when its leader was killed may come again.
        bodies = list(dict.fromkeys(message["Body"] for message in by_group[group]))
        assert bodies == [f"{group}:{number}" for number in range(40)]
        numbers = [sent[group][body][1] for body in bodies]
        assert numbers == sorted(numbers)
        for message in by_group[group]:
            facts = (message["MessageId"], message["Attributes"]["SequenceNumber"])
            assert facts == sent[group][message["Body"]]


def test_batches_of_a_fifo_queue_at_a_broker_that_leads_nothing(
    cluster: GoQueueCluster, brokers: dict[int, Any], anywhere: AnyBroker
) -> None:
    url = new_fifo(cluster, anywhere)
    sqs = brokers[cluster.cordoned_ids[0]]
    entries = [
        {
            "Id": str(number),
            "MessageBody": str(number),
            "MessageGroupId": GROUPS[number % len(GROUPS)],
            "MessageDeduplicationId": str(number),
        }
        for number in range(10)
    ]
    first = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert "Failed" not in first
    again = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    facts = ("Id", "MessageId", "SequenceNumber")
    assert [[each[fact] for fact in facts] for each in first["Successful"]] == [
        [each[fact] for fact in facts] for each in again["Successful"]
    ]
    assert {message["Body"] for message in drained(anywhere, url, 10)} == set(map(str, range(10)))


def test_delays_at_a_broker_that_leads_nothing(
    cluster: GoQueueCluster, brokers: dict[int, Any], anywhere: AnyBroker
) -> None:
    name = new_name()
    url = anywhere.ask("create_queue", QueueName=name)["QueueUrl"]
    until(lambda: in_sync(cluster, name))
    http = cluster.server(cluster.cordoned_ids[0]).http_url
    due: list[Any] = [
        {"value": str(at), "delay": 3_600_000 + at, "partition": at % 3} for at in range(30)
    ]
    answer = requests.post(f"{http}/topics/{name}/messages", json={"messages": due}, timeout=60)
    ids = [message["id"] for message in answer.json()["messages"]]
    counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed"]

    def counted() -> list[int]:
        answer = anywhere.ask("get_queue_attributes", QueueUrl=url, AttributeNames=counts)
        return [int(answer["Attributes"][each]) for each in counts]

    assert counted() == [0, 30]
    lost = cluster.leader(name, 1)
    assert lost is not None
    cluster.kill(lost)
    found: list[str] = []
    after: str | None = None
    while True:
        query = {"limit": "7"} if after is None else {"limit": "7", "after": after}
        page = requests.get(f"{http}/topics/{name}/delayed", params=query, timeout=60).json()
        assert "missing" not in page
        found += [message["value"] for message in page["messages"]]
        after = page["nextAfter"]
        if after is None:
            break
    assert found == [str(at) for at in range(30)]
    for message_id in ids[:3]:
        gone = requests.delete(f"{http}/topics/{name}/delayed/{message_id}", timeout=60)
        assert gone.status_code == 204, gone.text
    assert counted() == [0, 27]
    stats = requests.get(f"{http}/delay/stats", timeout=60).json()
    assert [each["pending"] for each in stats["topics"] if each["topic"] == name] == [27]
    anywhere.ask("purge_queue", QueueUrl=url)
    assert counted() == [0, 0]
    with pytest.raises(ClientError, match="PurgeQueueInProgress"):
        anywhere.ask("purge_queue", QueueUrl=url)


def test_a_move_task_outlives_its_broker(cluster: GoQueueCluster, anywhere: AnyBroker) -> None:
    dead, source = new_name("-dead"), new_name()
    letters = anywhere.ask("create_queue", QueueName=dead)["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": arn(dead), "maxReceiveCount": 1})
    origin = anywhere.ask("create_queue", QueueName=source, Attributes={"RedrivePolicy": policy})[
        "QueueUrl"
    ]
    until(lambda: in_sync(cluster, dead) and in_sync(cluster, source))
    # As dead letters are: with where they came from.
    http = cluster.server(cluster.cordoned_ids[0]).http_url
    messages: list[Any] = [
        {"value": str(at), "partition": at % 3, "headers": {"goqueue-dlq-topic": source}}
        for at in range(150)
    ]
    sent = requests.post(f"{http}/topics/{dead}/messages", json={"messages": messages}, timeout=60)
    assert sent.status_code < 300, sent.text
    anywhere.ask("start_message_move_task", SourceArn=arn(dead), MaxNumberOfMessagesPerSecond=50)

    def task() -> dict[str, Any]:
        listed = anywhere.ask("list_message_move_tasks", SourceArn=arn(dead))
        found: dict[str, Any] = listed["Results"][0]
        return found

    until(lambda: task()["ApproximateNumberOfMessagesMoved"] >= 30)
    runner = cluster.leader(dead, 0)
    assert runner is not None
    cluster.kill(runner)
    until(lambda: task()["Status"] != "RUNNING")
    assert task()["Status"] == "COMPLETED"
    assert not anywhere.ask("receive_message", QueueUrl=letters).get("Messages")
    seen: set[str] = set()
    while len(seen) < 150:
        seen |= {message["Body"] for message in drained(anywhere, origin, 1)}
    assert seen == set(map(str, range(150)))
