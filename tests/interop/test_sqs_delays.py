"""DelaySeconds: messages that come later, also over a crash."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.servers import NewServer, Server
from tests.interop.sqs_api import (
    attribute,
    bodies,
    connect,
    eventually,
    new_queue,
    receive,
    receive_all,
)


@pytest.fixture
def sqs(server: Server) -> Any:
    return connect(server.http_url)


def test_a_delayed_message_comes_when_it_is_due(sqs: Any) -> None:
    url = new_queue(sqs)
    before = time.time()
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=2)
    sqs.send_message(QueueUrl=url, MessageBody="now")
    assert bodies(receive_all(sqs, url, 1)) == ["now"]
    assert attribute(sqs, url, "ApproximateNumberOfMessagesDelayed") == "1"
    [message] = receive(
        sqs, url, WaitTimeSeconds=10, AttributeNames=["All"], MessageAttributeNames=["All"]
    )
    assert time.time() >= before + 2
    assert message["Body"] == "later"
    assert "MessageAttributes" not in message
    # It says when it was sent, not when it became visible.
    assert before - 1 <= int(message["Attributes"]["SentTimestamp"]) / 1000 < before + 1
    assert attribute(sqs, url, "ApproximateNumberOfMessagesDelayed") == "0"


def test_a_queue_that_delays(sqs: Any) -> None:
    url = new_queue(sqs, DelaySeconds="2")
    entries: list[dict[str, Any]] = [
        {"Id": "default", "MessageBody": "delayed"},
        {"Id": "now", "MessageBody": "at once", "DelaySeconds": 0},
    ]
    assert len(sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 2
    assert bodies(receive_all(sqs, url, 1)) == ["at once"]
    assert bodies(receive_all(sqs, url, 1)) == ["delayed"]


def test_purging_takes_the_delayed_ones_too(sqs: Any) -> None:
    url = new_queue(sqs)
    for n in range(3):
        sqs.send_message(QueueUrl=url, MessageBody=str(n), DelaySeconds=900)
    assert attribute(sqs, url, "ApproximateNumberOfMessagesDelayed") == "3"
    sqs.purge_queue(QueueUrl=url)
    assert attribute(sqs, url, "ApproximateNumberOfMessagesDelayed") == "0"


@pytest.fixture
def killable(new_server: NewServer, tmp_path: Path) -> Iterator[Server]:
    with new_server(tmp_path / "data") as running:
        yield running


def test_a_fifo_queue_that_delays(killable: Server) -> None:
    sqs = connect(killable.http_url)
    url = new_queue(sqs, FifoQueue="true", ContentBasedDeduplication="true", DelaySeconds="4")

    def send(body: str) -> tuple[str, str]:
        sent = sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")
        return sent["MessageId"], sent["SequenceNumber"]

    before = [send(str(n)) for n in range(3)]
    killable.sigkill()
    killable.start()
    sqs = connect(killable.http_url)
    assert [send(str(n)) for n in range(3)] == before
    eventually(
        lambda: attribute(sqs, url, "ApproximateNumberOfMessages"), lambda count: count == "3"
    )
    assert bodies(receive(sqs, url)) == ["0", "1", "2"]
