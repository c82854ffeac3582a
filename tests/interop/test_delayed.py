"""Delays asked for by real Kafka producers, seen by real consumers and from the command line."""

import json
import subprocess
import sys
import time

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaProducer

from tests.interop.servers import Server

WAIT_SECONDS = 120.0
Headers = list[tuple[str, str | bytes | None]]


def create(bootstrap: str, topic: str, **config: str) -> None:
    named = {name.replace("__", "."): text for name, text in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1, config=named)])[topic].result(
        WAIT_SECONDS
    )


def consume(bootstrap: str, topic: str, count: int) -> list[tuple[bytes, float]]:
    """Value and time of arrival (ms) of the first messages."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "fetch.wait.max.ms": 5})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[bytes, float]] = []
    try:
        while len(found) < count:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, f"{len(found)} of {count} messages came"
            assert message.error() is None
            value = message.value()
            assert value is not None
            found.append((value, time.time() * 1000))
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_librdkafka_producer_delays_by_header(
    bootstrap: str, topic: str, compression: str, idempotent: bool
) -> None:
    create(bootstrap, topic, queue__headers__in__compressed="true")
    failures: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": compression,
            "enable.idempotence": idempotent,
            "linger.ms": 50,
        }
    )
    now_ms = int(time.time() * 1000)
    sent: list[tuple[bytes, Headers]] = [
        (b"third", [("goqueue-delay-ms", b"700")]),
        (b"first", []),
        (b"second", [("goqueue-deliver-at", str(now_ms + 400)), ("other", b"kept")]),
        (b"fourth", [("goqueue-delay-ms", b"700")]),
    ]
    for value, headers in sent:
        producer.produce(
            topic,
            value + b"." * 50,
            partition=0,
            headers=headers,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(WAIT_SECONDS) == 0
    assert not failures
    found = [(value.rstrip(b"."), at_ms) for value, at_ms in consume(bootstrap, topic, 4)]
    # A client that is held up sends some of them after others are due: times tell, not their order.
    due_ms = {
        b"first": now_ms,
        b"second": now_ms + 400,
        b"third": now_ms + 700,
        b"fourth": now_ms + 700,
    }
    arrived_ms = dict(found)
    assert len(found) == len(due_ms)
    assert arrived_ms.keys() == due_ms.keys()
    assert all(due_ms[value] <= arrived_ms[value] for value in due_ms)
    order = [value for value, _ in found]
    assert order.index(b"third") < order.index(b"fourth")


def test_a_kafka_python_producer_delays_by_header(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    before_ms = time.time() * 1000
    later = producer.send(topic, b"later", partition=0, headers=[("goqueue-delay-ms", b"300")])
    now = producer.send(topic, b"now", partition=0)
    later.get(WAIT_SECONDS)
    now.get(WAIT_SECONDS)
    producer.close()
    found = consume(bootstrap, topic, 2)
    assert sorted(value for value, _ in found) == [b"later", b"now"]
    assert dict(found)[b"later"] >= before_ms + 300


def test_nonsense_is_refused(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    failures: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(
        topic,
        b"v",
        headers=[("goqueue-delay-ms", b"soon")],
        on_delivery=lambda error, _: failures.append(error),
    )
    producer.flush(WAIT_SECONDS)
    [failure] = failures
    assert failure is not None
    assert failure.code() == KafkaError.INVALID_RECORD


def goqueue(server: Server, *arguments: str, fails: bool = False) -> str:
    environment = {
        "GOQUEUE_BOOTSTRAP": server.bootstrap_servers,
        "PATH": "",
    }
    done = subprocess.run(
        [sys.executable, "-m", "goqueue", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def test_the_command_line_delays_lists_and_cancels(server: Server, topic: str) -> None:
    create(server.bootstrap_servers, topic)
    told = goqueue(server, "produce", topic, "tomorrow", "--delay", "1d")
    later = ("--at", "2099-01-01T00:00:00Z", "-k", "k", "-H", "a=b", "-o", "json")
    [new_year] = json.loads(goqueue(server, "produce", topic, "new year", *later))
    assert new_year["deliverAt"] == 4_070_908_800_000
    page = json.loads(goqueue(server, "delayed", "list", topic, "-o", "json"))
    first, second = page["messages"]
    assert (first["value"], second["value"]) == ("tomorrow", "new year")
    assert second["deliverAt"] == 4_070_908_800_000
    assert second["id"] in goqueue(server, "delayed", "list", topic)
    assert (second["id"], second["key"]) == (new_year["id"], "k")
    assert told.startswith(f"{first['id']}  due 20")
    past = goqueue(server, "produce", topic, "now", "--at", "2001-01-01T00:00:00Z", "-p", "0")
    assert past == "sent at once to partition 0 offset 0\n"

    assert "cancelled" in goqueue(server, "delayed", "cancel", topic, first["id"])
    refused = goqueue(server, "delayed", "cancel", topic, first["id"], fails=True)
    assert f"no message {first['id']} waits" in refused
    stats = json.loads(goqueue(server, "delayed", "stats", "-o", "json"))
    [mine] = [each for each in stats["topics"] if each["topic"] == topic]
    assert (mine["pending"], mine["cancelled"]) == (1, 1)
    assert topic in goqueue(server, "delayed", "stats")

    for wrong in (["--delay", "soon"], ["--delay", "5s", "--at", "now"]):
        assert goqueue(server, "produce", topic, "v", *wrong, fails=True)
