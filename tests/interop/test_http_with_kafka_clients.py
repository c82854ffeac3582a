"""One topic, two doors: what HTTP writes Kafka clients read, and the other way round."""

import json
import subprocess
from typing import Any
from urllib.parse import urlencode

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop.servers import Server

CURL = ("curl", "--silent", "--show-error", "--max-time", "20")


def curl(*arguments: str) -> Any:
    run = subprocess.run(
        [*CURL, *arguments], capture_output=True, text=True, timeout=30, check=True
    )
    return json.loads(run.stdout)


def test_kafka_reads_what_curl_published(server: Server, topic: str) -> None:
    body = {
        "messages": [
            {"key": "a", "value": "text", "headers": {"from": "curl"}},
            {"key": "a", "value": {"json": [1, 2]}},
            {"key": "a", "value": "AP8=", "encoding": "base64"},
            {"key": "a", "value": None},
        ]
    }
    answered = curl("--json", json.dumps(body), f"{server.http_url}/topics/{topic}/messages")
    [partition] = {message["partition"] for message in answered["messages"]}
    assert [message["offset"] for message in answered["messages"]] == [0, 1, 2, 3]

    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    read = consumer.consume(4, timeout=60)
    consumer.close()

    assert [message.value() for message in read] == [
        b"text",
        b'{"json": [1, 2]}',
        b"\x00\xff",
        None,
    ]
    assert [message.key() for message in read] == [b"a"] * 4
    assert read[0].headers() == [("from", b"curl")]


def test_curl_reads_what_kafka_produced(server: Server, topic: str) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "compression.type": "lz4"})
    reports: list[Any] = []
    for number in range(50):
        producer.produce(
            topic,
            key=b"k",
            value=b'{"n": %d}' % number,
            headers={"source": b"librdkafka"},
            on_delivery=lambda error, message: reports.append((error, message.partition())),
        )
    assert producer.flush(20) == 0
    [(error, partition)] = set(reports)
    assert error is None

    seen: list[Any] = []
    offset = 0
    while len(seen) < 50:
        query = urlencode({"offset": offset, "limit": 20, "encoding": "json", "maxWait": 5000})
        page = curl(f"{server.http_url}/topics/{topic}/partitions/{partition}/messages?{query}")
        assert page["messages"]
        seen += page["messages"]
        offset = page["nextOffset"]

    assert [message["value"] for message in seen] == [{"n": number} for number in range(50)]
    assert [message["offset"] for message in seen] == list(range(50))
    header = {"name": "source", "value": "librdkafka", "encoding": "text"}
    assert all(message["headers"] == [header] for message in seen)


def test_a_key_lands_in_the_same_partition_through_both_doors(server: Server, topic: str) -> None:
    keys = [f"key-{number}" for number in range(30)]
    body = {"messages": [{"key": key, "value": "http"} for key in keys]}
    answered = curl("--json", json.dumps(body), f"{server.http_url}/topics/{topic}/messages")
    by_http = {key: one["partition"] for key, one in zip(keys, answered["messages"], strict=True)}

    producer = Producer(
        {"bootstrap.servers": server.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    by_kafka: dict[str, int] = {}

    def delivered(_: object, message: Any) -> None:
        by_kafka[message.key().decode()] = message.partition()

    for key in keys:
        producer.produce(topic, key=key.encode(), value=b"kafka", on_delivery=delivered)
    assert producer.flush(20) == 0

    assert by_http == by_kafka
    assert len(set(by_http.values())) > 1


def test_a_restart_keeps_what_http_was_told(server: Server, topic: str) -> None:
    url = f"{server.http_url}/topics/{topic}"
    curl("--json", json.dumps({"name": topic, "partitions": 1}), f"{server.http_url}/topics")
    stored = curl("--json", '{"value": "kept"}', f"{url}/messages")

    server.restart()

    page = curl(f"{url}/partitions/0/messages")
    assert [message["value"] for message in page["messages"]] == ["kept"]
    assert page["messages"][0]["timestamp"] == stored["timestamp"]
