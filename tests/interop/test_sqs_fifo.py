"""FIFO queues through boto3: order within groups, and each message once."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.servers import NewServer, Server
from tests.interop.sqs_api import (
    arn,
    attribute,
    bodies,
    connect,
    eventually,
    name_of,
    new_queue,
    receive,
    receive_all,
    refused,
    refused_with,
)


@pytest.fixture
def sqs(server: Server) -> Any:
    return connect(server.http_url)


@pytest.fixture
def url(sqs: Any) -> str:
    return new_queue(sqs, FifoQueue="true", ContentBasedDeduplication="true")


def send(sqs: Any, url: str, group: str, body: str, **more: str) -> dict[str, Any]:
    sent: dict[str, Any] = sqs.send_message(
        QueueUrl=url, MessageBody=body, MessageGroupId=group, **more
    )
    return sent


def delete(sqs: Any, url: str, message: dict[str, Any]) -> None:
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_what_a_fifo_message_says(sqs: Any, url: str) -> None:
    sent = send(sqs, url, "g", "body", MessageDeduplicationId="d")
    [message] = receive(sqs, url, AttributeNames=["All"])
    found = message["Attributes"]
    assert found["MessageGroupId"] == "g"
    assert found["MessageDeduplicationId"] == "d"
    assert found["SequenceNumber"] == sent["SequenceNumber"]
    assert len(sent["SequenceNumber"]) == 20


def test_one_batch_of_a_group_is_out_at_a_time(sqs: Any, url: str) -> None:
    for n in range(5):
        send(sqs, url, "a", f"a{n}")
    send(sqs, url, "b", "b0")
    first = receive(sqs, url, 2)
    taken = sorted(bodies(first))
    rest = bodies(receive(sqs, url))
    if taken == ["a0", "a1"]:
        assert rest == ["b0"]
    elif taken == ["a0", "b0"]:
        # Group b lies in the partition that was looked at first.
        assert rest == []
    else:
        # It lies at another broker, which was asked first.
        assert (taken, rest) == (["b0"], [f"a{n}" for n in range(5)])
    assert receive(sqs, url) == []
    for message in first:
        delete(sqs, url, message)
    following = [f"a{n}" for n in range(5) if f"a{n}" not in (*taken, *rest)]
    assert bodies(receive(sqs, url)) == following


def test_a_message_that_comes_back_comes_first(sqs: Any, url: str) -> None:
    for n in range(3):
        send(sqs, url, "a", str(n))
    first, second = receive(sqs, url, 2)
    delete(sqs, url, second)
    assert receive(sqs, url) == []
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0
    )
    assert bodies(receive(sqs, url)) == ["0", "2"]


def test_order_with_many_readers_and_groups(sqs: Any, url: str, server: Server) -> None:
    groups, each = [f"g{n}" for n in range(5)], 20
    for start in range(0, each, 2):
        entries = [
            {"Id": f"{group}-{n}", "MessageBody": f"{group}:{n}", "MessageGroupId": group}
            for group in groups
            for n in (start, start + 1)
        ]
        assert len(sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 10
    seen: dict[str, list[int]] = {group: [] for group in groups}
    lock = threading.Lock()

    def read() -> None:
        mine = connect(server.http_url)
        while True:
            messages = receive(mine, url, 3, WaitTimeSeconds=1)
            if not messages:
                return
            with lock:
                for body in bodies(messages):
                    group, _, number = body.partition(":")
                    seen[group].append(int(number))
            for message in messages:
                delete(mine, url, message)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert seen == {group: list(range(each)) for group in groups}


def test_a_duplicate_is_taken_once(sqs: Any, url: str) -> None:
    first = send(sqs, url, "g", "same")
    again = send(sqs, url, "g", "same")
    other_group = send(sqs, url, "h", "same")
    assert again["MessageId"] == other_group["MessageId"] == first["MessageId"]
    assert again["SequenceNumber"] == first["SequenceNumber"]
    by_id = send(sqs, url, "g", "another body", MessageDeduplicationId="id")
    assert (
        send(sqs, url, "g", "third body", MessageDeduplicationId="id")["MessageId"]
        == (by_id["MessageId"])
    )
    found = receive(sqs, url)
    assert bodies(found) == ["same", "another body"]
    for message in found:
        delete(sqs, url, message)
    send(sqs, url, "g", "same")
    assert receive(sqs, url) == []


def test_duplicates_within_a_batch(sqs: Any, url: str) -> None:
    entries = [{"Id": str(n), "MessageBody": "same", "MessageGroupId": "g"} for n in range(3)]
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]
    assert len({each["MessageId"] for each in sent}) == 1
    assert bodies(receive(sqs, url)) == ["same"]


def test_duplicates_by_group(sqs: Any) -> None:
    url = new_queue(
        sqs,
        FifoQueue="true",
        ContentBasedDeduplication="true",
        DeduplicationScope="messageGroup",
        FifoThroughputLimit="perMessageGroupId",
    )
    for group in ("a", "b", "a"):
        send(sqs, url, group, "same")
    assert bodies(receive_all(sqs, url, 2)) == ["same", "same"]
    assert receive(sqs, url) == []


def test_sends_at_the_same_time_with_one_id(sqs: Any, url: str, server: Server) -> None:
    ids: list[str] = []

    def run() -> None:
        ids.append(send(connect(server.http_url), url, "g", "same")["MessageId"])

    senders = [threading.Thread(target=run) for _ in range(8)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert len(ids) == 8
    assert len(set(ids)) == 1
    assert bodies(receive(sqs, url)) == ["same"]


def test_what_fifo_queues_refuse(sqs: Any) -> None:
    url = new_queue(sqs, FifoQueue="true")
    error = refused(sqs.send_message, QueueUrl=url, MessageBody="x", MessageGroupId="g")
    assert error["Code"] == "InvalidParameterValue"
    assert error["QueryErrorCode"] == "InvalidParameterValueException"
    assert error["Message"].startswith("The queue should either have ContentBasedDeduplication")
    error = refused(sqs.send_message, QueueUrl=url, MessageBody="x", MessageDeduplicationId="d")
    assert error["Code"] == "MissingParameter"
    assert error["QueryErrorCode"] == "MissingRequiredParameterException"
    no_group = [{"Id": "1", "MessageBody": "x", "MessageDeduplicationId": "d"}]
    code = refused_with(sqs.send_message_batch, QueueUrl=url, Entries=no_group)
    assert code == "InvalidParameterValue"
    delayed = {"MessageGroupId": "g", "MessageDeduplicationId": "d", "DelaySeconds": 2}
    error = refused(sqs.send_message, QueueUrl=url, MessageBody="x", **delayed)
    assert error["Message"].startswith("Value 2 for parameter DelaySeconds is invalid.")
    assert attribute(sqs, url, "ApproximateNumberOfMessages") == "0"


def test_a_batch_without_deduplication_id_is_refused_as_a_whole(sqs: Any) -> None:
    url = new_queue(sqs, FifoQueue="true")
    entries = [
        {"Id": "1", "MessageBody": "a", "MessageGroupId": "g", "MessageDeduplicationId": "d"},
        {"Id": "2", "MessageBody": "b", "MessageGroupId": "g"},
    ]
    error = refused(sqs.send_message_batch, QueueUrl=url, Entries=entries)
    assert error["Code"] == "InvalidParameterValue"
    assert "MessageDeduplicationId provided explicitly" in error["Message"]
    assert receive(sqs, url) == []


def test_after_a_purge_ids_may_be_sent_again(sqs: Any, url: str) -> None:
    first = send(sqs, url, "g", "body", MessageDeduplicationId="d")
    sqs.purge_queue(QueueUrl=url)
    second = send(sqs, url, "g", "body", MessageDeduplicationId="d")
    assert second["MessageId"] != first["MessageId"]
    [found] = receive_all(sqs, url, 1)
    assert found["MessageId"] == second["MessageId"]


def test_what_came_back_is_delivered_although_a_later_one_is_out(sqs: Any, url: str) -> None:
    for body in ("g1-m1", "g1-m2"):
        send(sqs, url, "g1", body)
    first, _ = receive(sqs, url, 2)
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0
    )
    [again] = receive_all(sqs, url, 1)
    assert again["Body"] == "g1-m1"


def test_an_expired_receipt_deletes_nothing(sqs: Any, url: str) -> None:
    send(sqs, url, "g", "m")
    [message] = receive(sqs, url, VisibilityTimeout=1)
    eventually(
        lambda: attribute(sqs, url, "ApproximateNumberOfMessages"), lambda count: count == "1"
    )
    error = refused(sqs.delete_message, QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert error["Code"] == "InvalidParameterValue"
    assert error["Message"].endswith("The receipt handle has expired.")
    assert bodies(receive(sqs, url)) == ["m"]


def test_a_dead_letter_lets_its_group_go_on(sqs: Any) -> None:
    dead = new_queue(sqs, FifoQueue="true")
    policy = json.dumps({"deadLetterTargetArn": arn(name_of(dead)), "maxReceiveCount": 1})
    url = new_queue(sqs, FifoQueue="true", ContentBasedDeduplication="true", RedrivePolicy=policy)
    send(sqs, url, "g", "poison")
    send(sqs, url, "g", "fine")
    assert bodies(receive(sqs, url, 1, VisibilityTimeout=1)) == ["poison"]
    assert bodies(receive(sqs, url, WaitTimeSeconds=20)) == ["fine"]
    [message] = receive(sqs, dead, WaitTimeSeconds=20, AttributeNames=["All"])
    assert message["Body"] == "poison"
    assert message["Attributes"]["MessageGroupId"] == "g"


# --- restarts -----------------------------------------------------------------------------


@pytest.fixture
def killable(new_server: NewServer, tmp_path: Path) -> Iterator[Server]:
    with new_server(tmp_path / "data") as running:
        yield running


def test_ids_are_remembered_over_a_crash(killable: Server) -> None:
    sqs = connect(killable.http_url)
    url = new_queue(sqs, FifoQueue="true", ContentBasedDeduplication="true")
    sent = [send(sqs, url, f"g{n % 3}", f"body {n}") for n in range(6)]
    [gone] = receive(sqs, url, 1)
    delete(sqs, url, gone)
    killable.sigkill()
    killable.start()
    sqs = connect(killable.http_url)
    again = [send(sqs, url, f"g{n % 3}", f"body {n}") for n in range(6)]
    for before, after in zip(sent, again, strict=True):
        assert after["MessageId"] == before["MessageId"]
        assert after["SequenceNumber"] == before["SequenceNumber"]
    new = send(sqs, url, "g0", "new body")
    assert new["SequenceNumber"] > max(each["SequenceNumber"] for each in sent)
    found: list[str] = []
    while messages := receive(sqs, url, WaitTimeSeconds=1):
        found += bodies(messages)
        for message in messages:
            delete(sqs, url, message)
    expected = {f"body {n}" for n in range(6)} - {gone["Body"]} | {"new body"}
    assert sorted(found) == sorted(expected)
