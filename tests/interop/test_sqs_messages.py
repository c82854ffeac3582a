"""Messages of standard queues through boto3, which checks every digest itself."""

import socket
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.interop.servers import Server
from tests.interop.sqs_api import (
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

TEXT = {"DataType": "String", "StringValue": "grün & <b>"}
NUMBER = {"DataType": "Number.float", "StringValue": "1.5e3"}
BINARY = {"DataType": "Binary", "BinaryValue": b"\x00\xff"}


@pytest.fixture
def sqs(server: Server) -> Any:
    return connect(server.http_url)


@pytest.fixture
def url(sqs: Any) -> str:
    return new_queue(sqs)


def test_a_message_goes_through_whole(sqs: Any, url: str) -> None:
    before_ms = time.time_ns() // 1_000_000
    sent = sqs.send_message(
        QueueUrl=url,
        MessageBody="héllo\r\n\t\U0001f600",
        MessageAttributes={"text": TEXT, "number": NUMBER, "sqs-blob": BINARY},
        MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}},
    )
    [message] = receive(sqs, url, AttributeNames=["All"], MessageAttributeNames=["All"])
    assert message["MessageId"] == sent["MessageId"]
    assert message["Body"] == "héllo\r\n\t\U0001f600"
    assert message["MessageAttributes"] == {"text": TEXT, "number": NUMBER, "sqs-blob": BINARY}
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    system = message["Attributes"]
    assert system.pop("SenderId") == "000000000000"
    assert before_ms <= int(system.pop("SentTimestamp")) <= time.time_ns() // 1_000_000
    assert int(system.pop("ApproximateFirstReceiveTimestamp")) >= before_ms
    assert system == {"ApproximateReceiveCount": "1", "AWSTraceHeader": "Root=1"}
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert attribute(sqs, url, "ApproximateNumberOfMessagesNotVisible") == "0"


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], set()),
        (["All"], {"General", "Hello", "Help.Me"}),
        ([".*"], {"General", "Hello", "Help.Me"}),
        (["Hel.*"], {"Hello", "Help.Me"}),
        (["Hello", "Nothing"], {"Hello"}),
        (["Nothing"], set()),
        (["Hel"], set()),
    ],
)
def test_attributes_are_chosen_by_name(
    sqs: Any, url: str, names: list[str], found: set[str]
) -> None:
    attributes = {
        name: {"DataType": "String", "StringValue": "x"} for name in ("General", "Hello", "Help.Me")
    }
    sqs.send_message(QueueUrl=url, MessageBody="msg", MessageAttributes=attributes)
    [message] = receive(sqs, url, MessageAttributeNames=names)
    assert set(message.get("MessageAttributes", {})) == found
    assert ("MD5OfMessageAttributes" in message) == bool(found)


def test_system_attributes_are_chosen_by_name(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="msg")
    [message] = receive(sqs, url, MessageSystemAttributeNames=["SenderId", "SequenceNumber"])
    assert set(message["Attributes"]) == {"SenderId"}
    code = refused_with(sqs.receive_message, QueueUrl=url, AttributeNames=["Nonsense"])
    assert code == "InvalidAttributeName"


def test_batches(sqs: Any, url: str) -> None:
    entries: list[dict[str, Any]] = [
        {"Id": f"id-{n}", "MessageBody": f"body {n}", "MessageAttributes": {"n": NUMBER}}
        for n in range(10)
    ]
    entries[3]["MessageBody"] = "\x00"
    entries[4]["DelaySeconds"] = 901
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    good = [f"id-{n}" for n in range(10) if n not in (3, 4)]
    assert [each["Id"] for each in answer["Successful"]] == good
    assert [(each["Id"], each["Code"], each["SenderFault"]) for each in answer["Failed"]] == [
        ("id-3", "InvalidMessageContents", True),
        ("id-4", "InvalidParameterValue", True),
    ]
    found = receive_all(sqs, url, 8)
    sent_ids = {each["MessageId"] for each in answer["Successful"]}
    assert {message["MessageId"] for message in found} == sent_ids
    longer = sqs.change_message_visibility_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "a", "ReceiptHandle": found[0]["ReceiptHandle"], "VisibilityTimeout": 100},
            {"Id": "b", "ReceiptHandle": "nonsense", "VisibilityTimeout": 100},
            {"Id": "c", "ReceiptHandle": found[1]["ReceiptHandle"], "VisibilityTimeout": 43201},
        ],
    )
    assert [each["Id"] for each in longer["Successful"]] == ["a"]
    assert {each["Id"]: each["Code"] for each in longer["Failed"]} == {
        "b": "ReceiptHandleIsInvalid",
        "c": "InvalidParameterValue",
    }
    deleted = sqs.delete_message_batch(
        QueueUrl=url,
        Entries=[
            *(
                {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
                for n, message in enumerate(found)
            ),
            {"Id": "bad", "ReceiptHandle": "nonsense"},
        ],
    )
    assert len(deleted["Successful"]) == 8
    assert [(each["Id"], each["Code"]) for each in deleted["Failed"]] == [
        ("bad", "ReceiptHandleIsInvalid")
    ]
    assert attribute(sqs, url, "ApproximateNumberOfMessagesNotVisible") == "0"
    assert receive(sqs, url) == []


def entry(number: int, body: str = "x") -> dict[str, str]:
    return {"Id": str(number), "MessageBody": body}


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([], "EmptyBatchRequest"),
        ([entry(n) for n in range(11)], "TooManyEntriesInBatchRequest"),
        ([entry(1), entry(1)], "BatchEntryIdsNotDistinct"),
        ([{"Id": "a b", "MessageBody": "x"}], "InvalidBatchEntryId"),
        ([{"Id": "x" * 81, "MessageBody": "x"}], "InvalidBatchEntryId"),
        ([entry(n, "x" * 150_000) for n in range(7)], "BatchRequestTooLong"),
    ],
)
def test_batches_that_are_refused_whole(
    sqs: Any, url: str, entries: list[dict[str, str]], code: str
) -> None:
    error = refused(sqs.send_message_batch, QueueUrl=url, Entries=entries)
    assert error["Code"] == f"AWS.SimpleQueueService.{code}"
    assert error["QueryErrorCode"] == code
    assert attribute(sqs, url, "ApproximateNumberOfMessages") == "0"
    others = [{"Id": each["Id"], "ReceiptHandle": "r"} for each in entries]
    if code != "BatchRequestTooLong":
        other = refused_with(sqs.delete_message_batch, QueueUrl=url, Entries=others)
        assert other == f"AWS.SimpleQueueService.{code}"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"MessageBody": ""}, "MissingParameter"),
        ({"MessageBody": "a\x0bb"}, "InvalidMessageContents"),
        ({"MessageBody": "x" * 1_048_577}, "InvalidParameterValue"),
        ({"MessageBody": "x", "DelaySeconds": 901}, "InvalidParameterValue"),
        ({"MessageBody": "x", "MessageDeduplicationId": "d"}, "InvalidParameterValue"),
        ({"MessageBody": "x", "MessageGroupId": "a b"}, "InvalidParameterValue"),
        (
            {"MessageBody": "x", "MessageAttributes": {f"a{n}": TEXT for n in range(11)}},
            "InvalidParameterValue",
        ),
        ({"MessageBody": "x", "MessageAttributes": {"a b": TEXT}}, "InvalidParameterValue"),
        ({"MessageBody": "x", "MessageAttributes": {"AWS.x": TEXT}}, "InvalidParameterValue"),
        (
            {"MessageBody": "x", "MessageAttributes": {"n": {**NUMBER, "StringValue": "one"}}},
            "InvalidParameterValue",
        ),
        (
            {"MessageBody": "x", "MessageAttributes": {"n": {**TEXT, "StringValue": ""}}},
            "InvalidParameterValue",
        ),
        (
            {"MessageBody": "x", "MessageAttributes": {"n": {**TEXT, "DataType": "Text"}}},
            "InvalidParameterValue",
        ),
    ],
)
def test_messages_that_are_refused(sqs: Any, url: str, message: dict[str, Any], code: str) -> None:
    assert refused_with(sqs.send_message, QueueUrl=url, **message) == code
    assert attribute(sqs, url, "ApproximateNumberOfMessages") == "0"


def test_the_largest_message_goes_through(sqs: Any, url: str) -> None:
    body = "é" * 524_288
    sqs.send_message(QueueUrl=url, MessageBody=body)
    assert bodies(receive_all(sqs, url, 1)) == [body]


def test_a_queue_has_its_own_largest_message(sqs: Any) -> None:
    url = new_queue(sqs, MaximumMessageSize="1024")
    sqs.send_message(QueueUrl=url, MessageBody="x" * 1024)
    error = refused(sqs.send_message, QueueUrl=url, MessageBody="x" * 1025)
    assert error["Message"].endswith("Message must be shorter than 1024 bytes.")


@pytest.mark.parametrize(
    "options",
    [
        {"MaxNumberOfMessages": 0},
        {"MaxNumberOfMessages": 11},
        {"WaitTimeSeconds": 21},
        {"VisibilityTimeout": 43201},
    ],
)
def test_receives_that_are_refused(sqs: Any, url: str, options: dict[str, int]) -> None:
    code = refused_with(sqs.receive_message, QueueUrl=url, **options)
    assert code == "InvalidParameterValue"


def test_attributes_that_the_broker_understands(sqs: Any, url: str) -> None:
    urgent = {"goqueue-priority": {"DataType": "String", "StringValue": "critical"}}
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes=urgent)
    short = {"goqueue-ttl-ms": {"DataType": "Number", "StringValue": "0"}}
    sqs.send_message(QueueUrl=url, MessageBody="gone", MessageAttributes=short)
    later = {"goqueue-delay-ms": {"DataType": "Number", "StringValue": "500"}}
    sqs.send_message(QueueUrl=url, MessageBody="later", MessageAttributes=later)
    first, second = receive_all(sqs, url, 2, MessageAttributeNames=["All"])
    assert (first["Body"], first["MessageAttributes"]) == ("x", urgent)
    assert second["Body"] == "later"
    nonsense = {"goqueue-priority": {"DataType": "String", "StringValue": "very"}}
    code = refused_with(sqs.send_message, QueueUrl=url, MessageBody="x", MessageAttributes=nonsense)
    assert code == "InvalidParameterValue"


# --- long polls ---------------------------------------------------------------------------


def test_a_long_poll_is_answered_by_the_message(sqs: Any, url: str, server: Server) -> None:
    sender = threading.Timer(
        0.3, lambda: connect(server.http_url).send_message(QueueUrl=url, MessageBody="late")
    )
    sender.start()
    started = time.monotonic()
    assert bodies(receive(sqs, url, WaitTimeSeconds=20)) == ["late"]
    assert time.monotonic() - started < 18
    sender.join()


def test_a_long_poll_ends_empty(sqs: Any) -> None:
    url = new_queue(sqs, ReceiveMessageWaitTimeSeconds="1")
    started = time.monotonic()
    assert receive(sqs, url) == []
    assert time.monotonic() - started >= 0.9
    patient = new_queue(sqs, ReceiveMessageWaitTimeSeconds="20")
    started = time.monotonic()
    assert receive(sqs, patient, WaitTimeSeconds=0) == []
    assert time.monotonic() - started < 18


def test_a_client_that_hung_up_gets_nothing(sqs: Any, url: str, server: Server) -> None:
    place = urlsplit(server.http_url)
    body = f'{{"QueueUrl": "{url}", "WaitTimeSeconds": 20}}'.encode()
    with socket.create_connection((place.hostname or "", place.port or 0)) as raw:
        raw.sendall(
            b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n"
            b"Content-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
        # Another request is answered: the server has read the first one.
        assert attribute(sqs, url, "ApproximateNumberOfMessages") == "0"
    sqs.send_message(QueueUrl=url, MessageBody="for others")
    # It is not hidden for a visibility timeout, whichever of both the server saw first.
    assert bodies(receive_all(sqs, url, 1)) == ["for others"]


# --- receipts -----------------------------------------------------------------------------


def test_visibility(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="m")
    [first] = receive_all(sqs, url, 1, VisibilityTimeout=100)
    assert receive(sqs, url) == []
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0
    )
    [second] = receive_all(sqs, url, 1, AttributeNames=["All"])
    assert second["MessageId"] == first["MessageId"]
    assert second["ReceiptHandle"] != first["ReceiptHandle"]
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"
    first_ms = int(second["Attributes"]["ApproximateFirstReceiveTimestamp"])
    assert first_ms <= int(time.time() * 1000)
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=second["ReceiptHandle"], VisibilityTimeout=1
    )
    [third] = receive_all(sqs, url, 1)
    assert third["MessageId"] == first["MessageId"]


def test_the_newest_receipt_deletes_also_after_its_time(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="m")
    [message] = receive_all(sqs, url, 1, VisibilityTimeout=1)
    eventually(
        lambda: attribute(sqs, url, "ApproximateNumberOfMessages"), lambda count: count == "1"
    )
    # AWS answers that all is well, and changes nothing.
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=30
    )
    assert attribute(sqs, url, "ApproximateNumberOfMessages") == "1"
    forged = message["ReceiptHandle"][:-4] + "0000"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=forged)
    assert attribute(sqs, url, "ApproximateNumberOfMessages") == "1"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert attribute(sqs, url, "ApproximateNumberOfMessages") == "0"
    assert receive(sqs, url) == []


def test_an_older_receipt_changes_no_visibility(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="m")
    [first] = receive_all(sqs, url, 1, VisibilityTimeout=0)
    [second] = receive_all(sqs, url, 1)
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0
    )
    batch = sqs.change_message_visibility_batch(
        QueueUrl=url,
        Entries=[{"Id": "1", "ReceiptHandle": first["ReceiptHandle"], "VisibilityTimeout": 0}],
    )
    assert [entry["Id"] for entry in batch["Successful"]] == ["1"]
    assert receive(sqs, url) == []
    sqs.delete_message(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"])


def test_the_trace_of_a_request_goes_with_its_messages(sqs: Any, url: str) -> None:
    trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
    own = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=own"}}

    def add(request: Any, **_: Any) -> None:
        request.headers["X-Amzn-Trace-Id"] = trace

    sqs.meta.events.register("before-sign.sqs", add)
    sqs.send_message(QueueUrl=url, MessageBody="1")
    entries = [
        {"Id": "2", "MessageBody": "2"},
        {"Id": "3", "MessageBody": "3", "MessageSystemAttributes": own},
    ]
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]
    assert ["MD5OfMessageSystemAttributes" in entry for entry in sent] == [False, True]
    found = receive_all(sqs, url, 3, AttributeNames=["AWSTraceHeader"])
    traces = {message["Body"]: message["Attributes"]["AWSTraceHeader"] for message in found}
    assert traces == {"1": trace, "2": trace, "3": "Root=own"}


def test_an_older_receipt_deletes_nothing(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="m")
    [first] = receive_all(sqs, url, 1, VisibilityTimeout=0)
    [second] = receive_all(sqs, url, 1)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    assert attribute(sqs, url, "ApproximateNumberOfMessagesNotVisible") == "1"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"])
    # Twice is as good as once.
    sqs.delete_message(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"])
    gone = refused_with(
        sqs.change_message_visibility,
        QueueUrl=url,
        ReceiptHandle=second["ReceiptHandle"],
        VisibilityTimeout=5,
    )
    assert gone == "InvalidParameterValue"


def test_receipts_that_are_none(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="m")
    [message] = receive_all(sqs, url, 1)
    handle = message["ReceiptHandle"]
    other = new_queue(sqs)
    name, partition, offset, count, nonce = handle.split(":")
    handles = [
        "nonsense",
        handle.replace(name, name_of(other)),
        f"{name}:99:{offset}:{count}:{nonce}",
        f"{name}:{partition}:{offset}:{count}:{'0' * 16}",
        f"{name}:{partition}:{offset}:9:{nonce}",
        f"{name}:{partition}:12345:1:{nonce}",
    ]
    for forged in handles:
        error = refused(sqs.delete_message, QueueUrl=url, ReceiptHandle=forged)
        assert error["Code"] == "ReceiptHandleIsInvalid", forged
        code = refused_with(
            sqs.change_message_visibility,
            QueueUrl=url,
            ReceiptHandle=forged,
            VisibilityTimeout=0,
        )
        assert code == "ReceiptHandleIsInvalid", forged
    foreign = refused_with(sqs.delete_message, QueueUrl=other, ReceiptHandle=handle)
    assert foreign == "ReceiptHandleIsInvalid"
    assert attribute(sqs, url, "ApproximateNumberOfMessagesNotVisible") == "1"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    assert attribute(sqs, url, "ApproximateNumberOfMessagesNotVisible") == "0"
