"""Reading while a leader hangs: nobody waits much longer than asked for, and others go on."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.interop.own_cluster import options_of

WAIT_SECONDS = 120.0
TOPIC = "orders"
GROUP = "readers"
PARTITIONS = 3
# What the brokers allow themselves beyond the time asked for, and a little for the machine.
LATE_SECONDS = 6.0
GRACE_SECONDS = 2.0
SETTINGS = {
    "num.partitions": str(PARTITIONS),
    "offsets.topic.num.partitions": "1",
    # Nobody takes over before the tests are done.
    "broker.session.timeout.ms": "60000",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[GoQueueCluster]:
    with GoQueueCluster(*options_of(SETTINGS)) as running:
        made = requests.post(
            f"{running.http_urls[0]}/topics",
            json={"name": TOPIC, "partitions": PARTITIONS},
            timeout=WAIT_SECONDS,
        )
        assert made.status_code == 201, made.text
        assert len({running.leader(TOPIC, index) for index in range(PARTITIONS)}) == PARTITIONS
        yield running


@pytest.fixture
def url(cluster: GoQueueCluster) -> Iterator[str]:
    """Of a broker that knows the others; the leader of the first partition hangs."""
    paused = cluster.leader(TOPIC, 0)
    assert paused is not None
    asked = cluster.leader(TOPIC, 1)
    assert asked is not None
    found = cluster.server(asked).http_url
    _receive(found, 0)
    _sqs_receive(found, 0)
    cluster.pause(paused)
    try:
        yield found
    finally:
        cluster.resume(paused)


@pytest.mark.parametrize("wait_s", [0, 3])
def test_a_receive_of_what_others_lead_is_empty_in_time(url: str, wait_s: int) -> None:
    for receive in (_receive, _sqs_receive):
        answer, seconds = _timed(lambda ask=receive: ask(url, wait_s))
        assert answer.status_code == 200, answer.text
        assert not answer.json().get("messages")
        assert seconds < _bound(wait_s)


def test_messages_of_others_come_while_one_hangs(cluster: GoQueueCluster, url: str) -> None:
    third = cluster.leader(TOPIC, 2)
    assert third is not None
    message: Any = {"value": "from the third", "partition": 2}
    stored = requests.post(f"{url}/topics/{TOPIC}/messages", json=message, timeout=WAIT_SECONDS)
    assert stored.status_code == 200, stored.text
    answer, seconds = _timed(lambda: _receive(url, 20))
    assert [each["value"] for each in answer.json()["messages"]] == ["from the third"]
    assert seconds < _bound(0)
    receipts = [each["receipt"] for each in answer.json()["messages"]]
    settled = requests.post(
        f"{url}/messages/ack", json={"group": GROUP, "receipts": receipts}, timeout=WAIT_SECONDS
    )
    assert settled.json()["results"][0]["error"] is None


@pytest.mark.parametrize("wait_ms", [0, 3_000])
def test_a_read_of_what_it_leads_is_refused_in_time(url: str, wait_ms: int) -> None:
    path = f"{url}/topics/{TOPIC}/partitions/0/messages?maxWait={wait_ms}"
    answer, seconds = _timed(lambda: requests.get(path, timeout=WAIT_SECONDS))
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "request_timed_out"
    assert answer.headers["retry-after"]
    assert seconds < _bound(wait_ms / 1000)


def _bound(wait_s: float) -> float:
    return wait_s + LATE_SECONDS + stretched(GRACE_SECONDS)


def _timed(ask: Any) -> tuple[requests.Response, float]:
    began = time.monotonic()
    answer = ask()
    return answer, time.monotonic() - began


def _receive(url: str, wait_s: int) -> requests.Response:
    body: Any = {"topic": TOPIC, "timeout": wait_s * 1000}
    return requests.post(f"{url}/groups/{GROUP}/receive", json=body, timeout=WAIT_SECONDS)


def _sqs_receive(url: str, wait_s: int) -> requests.Response:
    headers = {
        "X-Amz-Target": "AmazonSQS.ReceiveMessage",
        "Content-Type": "application/x-amz-json-1.0",
    }
    fields = {"QueueUrl": f"{url}/000000000000/{TOPIC}", "WaitTimeSeconds": wait_s}
    return requests.post(url, data=json.dumps(fields), headers=headers, timeout=WAIT_SECONDS)
