"""One topic, two doors: what SQS sends Kafka reads, and the other way round."""

from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import admin as admin_module
from confluent_kafka.admin import AdminClient

from tests.interop.servers import Server
from tests.interop.sqs_api import (
    attribute,
    bodies,
    connect,
    name_of,
    new_name,
    new_queue,
    receive,
    receive_all,
    refused,
)

# Its names are re-exports that the type checker does not see.
admin_api: Any = admin_module


@pytest.fixture
def sqs(server: Server) -> Any:
    return connect(server.http_url)


def read(bootstrap: str, topic: str, count: int) -> list[Any]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    try:
        found: list[Any] = []
        for _ in range(200):
            if len(found) == count:
                break
            message = consumer.poll(0.1)
            if message is not None:
                assert message.error() is None
                found.append(message)
        return found
    finally:
        consumer.close()


def produce(bootstrap: str, topic: str, value: bytes | None, **more: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value, **more)
    assert producer.flush(10) == 0


def test_kafka_reads_what_sqs_sent(sqs: Any, bootstrap: str) -> None:
    url = new_queue(sqs)
    sent = sqs.send_message(
        QueueUrl=url,
        MessageBody="grün",
        MessageAttributes={
            "text": {"DataType": "String", "StringValue": "t"},
            "number": {"DataType": "Number", "StringValue": "5"},
            "blob": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        },
    )
    [message] = read(bootstrap, name_of(url), 1)
    assert message.value() == "grün".encode()
    assert message.key() is None
    assert dict(message.headers()) == {
        "sqs-message-id": sent["MessageId"].encode(),
        "text": b"t",
        "number": b"5",
        "sqs-type.number": b"Number",
        "blob": b"\x00\xff",
        "sqs-type.blob": b"Binary",
    }
    # Reading by offset leaves the queue as it was.
    [again] = receive_all(sqs, url, 1)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    assert [each.value() for each in read(bootstrap, name_of(url), 1)] == ["grün".encode()]


def test_groups_are_keys(sqs: Any, bootstrap: str) -> None:
    url = new_queue(sqs, FifoQueue="true", ContentBasedDeduplication="true")
    for n in range(4):
        sqs.send_message(QueueUrl=url, MessageBody=str(n), MessageGroupId="group")
    messages = read(bootstrap, name_of(url), 4)
    assert [message.value() for message in messages] == [b"0", b"1", b"2", b"3"]
    assert {message.key() for message in messages} == {b"group"}
    assert len({message.partition() for message in messages}) == 1
    headers = dict(messages[0].headers())
    assert headers["sqs-group-id"] == b"group"
    assert len(headers["sqs-deduplication-id"]) == 64
    assert len(headers["sqs-sequence-number"]) == 20


def test_sqs_receives_what_kafka_produced(sqs: Any, bootstrap: str) -> None:
    url = new_queue(sqs)
    topic = name_of(url)
    produce(
        bootstrap,
        topic,
        b"from kafka",
        key=b"k",
        headers=[("trace", b"abc"), ("blob", b"\xff")],
        timestamp=1_700_000_000_123,
    )
    names: dict[str, Any] = {"AttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    # Older than the queue keeps messages: not delivered.
    assert receive(sqs, url, WaitTimeSeconds=1, **names) == []
    headers = [("trace", b"abc"), ("blob", b"\xff")]
    produce(bootstrap, topic, b"from kafka", key=b"k", headers=headers)
    [message] = receive_all(sqs, url, 1, VisibilityTimeout=0, **names)
    assert message["Body"] == "from kafka"
    assert message["MessageAttributes"] == {
        "trace": {"DataType": "String", "StringValue": "abc"},
        "blob": {"DataType": "Binary", "BinaryValue": b"\xff"},
    }
    assert "MessageGroupId" not in message["Attributes"]
    [again] = receive_all(sqs, url, 1)
    assert again["MessageId"] == message["MessageId"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    assert attribute(sqs, url, "ApproximateNumberOfMessages") == "0"


def test_values_that_are_no_text(sqs: Any, bootstrap: str) -> None:
    url = new_queue(sqs)
    produce(bootstrap, name_of(url), b"\xff\x00")
    [message] = receive_all(sqs, url, 1, MessageAttributeNames=["All"])
    assert message["Body"] == "/wA="
    assert message["MessageAttributes"]["body-encoding"]["StringValue"] == "base64"
    produce(bootstrap, name_of(url), None)
    assert bodies(receive_all(sqs, url, 1)) == [""]


def test_keys_order_what_kafka_produced(sqs: Any, bootstrap: str) -> None:
    url = new_queue(sqs, FifoQueue="true")
    for n in range(3):
        produce(bootstrap, name_of(url), b"%d" % n, key=b"group")
    [first] = receive(sqs, url, 1, AttributeNames=["All"])
    assert first["Body"] == "0"
    assert first["Attributes"]["MessageGroupId"] == "group"
    assert receive(sqs, url) == []
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    assert bodies(receive(sqs, url)) == ["1", "2"]


def test_a_topic_of_kafka_is_a_queue(sqs: Any, bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    name = new_name()
    config = {"queue.visibility.timeout.ms": "7000", "retention.ms": "3600000"}
    admin.create_topics([admin_api.NewTopic(name, 2, config=config)])[name].result(10)
    produce(bootstrap, name, b"before SQS knew of it")
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    assert url in sqs.list_queues(QueueNamePrefix=name)["QueueUrls"]
    assert attribute(sqs, url, "VisibilityTimeout") == "7"
    assert attribute(sqs, url, "MessageRetentionPeriod") == "3600"
    assert bodies(receive_all(sqs, url, 1)) == ["before SQS knew of it"]
    # Made with SQS as well, it keeps its messages and takes the attributes.
    assert (
        sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "9"})["QueueUrl"] == url
    )
    [entries] = admin.describe_configs(
        [admin_api.ConfigResource(admin_api.ConfigResource.Type.TOPIC, name)]
    ).values()
    assert entries.result(10)["queue.visibility.timeout.ms"].value == "9000"
    admin.delete_topics([name])[name].result(10)
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.get_queue_url(QueueName=name)


def test_a_topic_made_anew_is_another_queue(sqs: Any, bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    url = new_queue(sqs, DelaySeconds="0", ReceiveMessageWaitTimeSeconds="5")
    name = name_of(url)
    sqs.tag_queue(QueueUrl=url, Tags={"old": "yes"})
    admin.delete_topics([name])[name].result(10)
    admin.create_topics([admin_api.NewTopic(name, 1)])[name].result(10)
    assert attribute(sqs, url, "ReceiveMessageWaitTimeSeconds") == "0"
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)


def test_too_many_in_flight(sqs: Any, bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    name = new_name()
    few = {"queue.max.in.flight": "2"}
    admin.create_topics([admin_api.NewTopic(name, 1, config=few)])[name].result(10)
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    for n in range(3):
        sqs.send_message(QueueUrl=url, MessageBody=str(n))
    taken = receive_all(sqs, url, 2)
    error = refused(sqs.receive_message, QueueUrl=url)
    assert (error["Code"], error["Status"]) == ("OverLimit", 403)
    # A long poll waits instead.
    assert receive(sqs, url, WaitTimeSeconds=1) == []
    sqs.delete_message(QueueUrl=url, ReceiptHandle=taken[0]["ReceiptHandle"])
    assert bodies(receive_all(sqs, url, 1)) == ["2"]
