"""Idempotent and transactional producers of confluent-kafka, kafka-python and aiokafka."""

import asyncio
import time
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from kafka.structs import OffsetAndMetadata

WAIT_SECONDS = 60.0


def read_all(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[bytes]:
    """Everything in partition 0 up to its end, as a reader of that isolation sees the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused: partitions are assigned",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    try:
        while True:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, "no end of the partition"
            if message.error() is not None:
                return found
            found.append(message.value() or b"")
    finally:
        consumer.close()


def wait_for(bootstrap: str, topic: str, expected: list[bytes]) -> None:
    """Markers follow the answer to a commit."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := read_all(bootstrap, topic)) != expected:
        assert time.monotonic() < deadline, found


def transactional(bootstrap: str, name: str, **more: Any) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **more})
    producer.init_transactions(WAIT_SECONDS)
    return producer


def test_confluent_idempotent_producer(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(2_000):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(WAIT_SECONDS) == 0
    assert read_all(bootstrap, topic) == [b"%d" % number for number in range(2_000)]


def test_confluent_commit_and_abort(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, topic)
    expected = []
    for number in range(10):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        if number % 2:
            producer.commit_transaction(WAIT_SECONDS)
            expected.append(b"%d" % number)
        else:
            producer.flush(WAIT_SECONDS)
            producer.abort_transaction(WAIT_SECONDS)
    wait_for(bootstrap, topic, expected)
    everything = read_all(bootstrap, topic, isolation="read_uncommitted")
    assert everything == [b"%d" % number for number in range(10)]


def test_confluent_zombie_is_fenced(bootstrap: str, topic: str) -> None:
    zombie = transactional(bootstrap, topic)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie", partition=0)
    zombie.flush(WAIT_SECONDS)
    successor = transactional(bootstrap, topic)
    with pytest.raises(KafkaException, match=r"(?i)fenced|_STATE"):
        zombie.commit_transaction(WAIT_SECONDS)
    successor.begin_transaction()
    successor.produce(topic, b"successor", partition=0)
    successor.commit_transaction(WAIT_SECONDS)
    wait_for(bootstrap, topic, [b"successor"])


def test_confluent_offsets_go_with_the_transaction(bootstrap: str, topic: str) -> None:
    source = f"source-{topic}"
    filler = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        filler.produce(source, b"%d" % number, partition=0)
    filler.flush(WAIT_SECONDS)
    producer = transactional(bootstrap, topic)
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"group-{topic}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    for commits in (False, True):
        consumer = Consumer(settings)
        consumer.subscribe([source])
        messages: list[Message] = []
        while len(messages) < 10:
            messages += consumer.consume(10, WAIT_SECONDS)
        producer.begin_transaction()
        for message in messages:
            producer.produce(topic, message.value() or b"", partition=0)
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
        )
        if commits:
            producer.commit_transaction(WAIT_SECONDS)
        else:
            producer.abort_transaction(WAIT_SECONDS)
        (part,) = consumer.committed([TopicPartition(source, 0)], WAIT_SECONDS)
        assert part.offset == (10 if commits else -1001)
        consumer.close()
    wait_for(bootstrap, topic, [b"%d" % number for number in range(10)])


def test_kafka_python_transactions(bootstrap: str, topic: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"kept", partition=0)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send(topic, b"dropped", partition=0).get(WAIT_SECONDS)
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(topic, b"kept too", partition=0)
    part = kafka.TopicPartition(topic, 0)
    producer.send_offsets_to_transaction({part: OffsetAndMetadata(2, "", -1)}, f"group-{topic}")
    producer.commit_transaction()
    producer.close()
    wait_for(bootstrap, topic, [b"kept", b"kept too"])
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    offsets = admin.list_group_offsets({f"group-{topic}": None})[f"group-{topic}"]
    assert offsets[part].offset == 2
    by_broker = admin.list_transactions().values()
    everywhere = [found for of_broker in by_broker for found in of_broker]
    (listed,) = [found for found in everywhere if found.transactional_id == topic]
    described = admin.describe_transactions([topic])[topic]
    assert described.producer_id == listed.producer_id
    admin.close()


async def _produce_with_aiokafka(bootstrap: str, topic: str) -> int | None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    part = aiokafka.TopicPartition(topic, 0)
    group = f"group-{topic}"
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"kept", partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"dropped", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"kept too", partition=0)
            await producer.send_offsets_to_transaction({part: 2}, group)
    finally:
        await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, isolation_level="read_committed"
    )
    await consumer.start()
    try:
        consumer.assign([part])
        committed: int | None = await consumer.committed(part)
        await consumer.seek_to_beginning(part)
        async with asyncio.timeout(WAIT_SECONDS):
            assert [(await consumer.getone()).value for _ in range(2)] == [b"kept", b"kept too"]
        return committed
    finally:
        await consumer.stop()


def test_aiokafka_transactions(bootstrap: str, topic: str) -> None:
    assert asyncio.run(_produce_with_aiokafka(bootstrap, topic)) == 2
