"""confluent-kafka (librdkafka): producer, assigned consumer and admin client."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka import admin as admin_module
from confluent_kafka.admin import AdminClient

# Its names are re-exports that the type checker does not see.
admin_api: Any = admin_module

DEADLINE_SECONDS = 120
TIMEOUT_SECONDS = 60


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def new_producer(bootstrap: str) -> Callable[..., Producer]:
    def make(**settings: Any) -> Producer:
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        return Producer({"bootstrap.servers": bootstrap, **dotted})

    return make


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[Consumer]:
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused: partitions are assigned",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
        }
    )
    yield made
    made.close()


def read(consumer: Consumer, topic: str, count: int, partitions: int = 1) -> list[Any]:
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
    found: list[Any] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), timeout=0.5):
            assert message.error() is None, message.error()
            found.append(message)
    assert len(found) == count
    return found


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    new = admin_api.NewTopic(
        topic, num_partitions=partitions, replication_factor=1, config=settings
    )
    admin.create_topics([new])[topic].result(TIMEOUT_SECONDS)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed(
    new_producer: Callable[..., Producer],
    consumer: Consumer,
    admin: AdminClient,
    topic: str,
    compression: str,
) -> None:
    create(admin, topic)
    producer = new_producer(compression_type=compression)
    now_ms = int(time.time() * 1000)
    sent = []
    for number in range(200):
        key = None if number % 3 == 0 else b"key-%d" % number
        value = None if number % 50 == 49 else b"value-%d" % number * 10
        headers: list[tuple[str, str | bytes | None]] = [
            ("a", b"1"),
            ("a", b"2"),
            ("empty", b""),
            ("null", None),
        ]
        headers = headers[: number % 5]
        sent.append((key, value, headers or None, now_ms - number))
        producer.produce(topic, value, key, headers=headers, timestamp=now_ms - number)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    found = read(consumer, topic, 200)
    assert [(m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in found] == sent
    assert [m.offset() for m in found] == list(range(200))
    assert found[0].timestamp()[0] == TIMESTAMP_CREATE_TIME


def test_pipelined_messages_arrive_once_and_in_order(
    new_producer: Callable[..., Producer], consumer: Consumer, admin: AdminClient, topic: str
) -> None:
    create(admin, topic, 3)
    producer = new_producer(
        batch_num_messages=50, linger_ms=0, max_in_flight_requests_per_connection=50
    )
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            errors.append(error)

    for number in range(20_000):
        value = b"%d" % number
        producer.produce(topic, value, partition=number % 3, on_delivery=delivered)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert not errors
    found = read(consumer, topic, 20_000, partitions=3)
    for partition in range(3):
        numbers = [int(m.value()) for m in found if m.partition() == partition]
        assert numbers == list(range(partition, 20_000, 3))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_ack_mode_stores(
    new_producer: Callable[..., Producer], consumer: Consumer, topic: str, acks: str
) -> None:
    # Who wants no acknowledgement is not told that the leader does not know the new topic yet.
    first = new_producer()
    first.produce(topic, b"0", partition=0)
    assert first.flush(TIMEOUT_SECONDS) == 0
    producer = new_producer(acks=acks)
    for number in range(1, 10):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    assert [m.value() for m in read(consumer, topic, 10)] == [b"%d" % n for n in range(10)]


def test_the_largest_message_is_taken_and_a_larger_one_refused(
    new_producer: Callable[..., Producer], consumer: Consumer, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)
    results: list[KafkaError | None] = []
    producer = new_producer(message_max_bytes=3_000_000)
    for size in (1_000_000, 2_000_000):
        producer.produce(topic, b"x" * size, on_delivery=lambda error, _: results.append(error))
        producer.flush(TIMEOUT_SECONDS)
    taken, refused = results
    assert taken is None
    assert refused is not None
    assert refused.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert len(read(consumer, topic, 1)[0].value()) == 1_000_000


def test_a_consumer_waits_for_what_is_produced_later(
    new_producer: Callable[..., Producer], consumer: Consumer, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)
    producer = new_producer(linger_ms=0)
    consumer.assign([TopicPartition(topic, 0, 0)])
    delays = []
    for number in range(20):
        while consumer.poll(0.02) is not None:
            pass
        started = time.monotonic()
        producer.produce(topic, b"%d" % number)
        producer.flush(TIMEOUT_SECONDS)
        message = consumer.poll(TIMEOUT_SECONDS)
        delays.append(time.monotonic() - started)
        assert message is not None
        assert message.value() == b"%d" % number
    assert sorted(delays)[10] < 0.05


def test_offsets_by_time_and_at_both_ends(
    new_producer: Callable[..., Producer], consumer: Consumer, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)
    producer = new_producer()
    for number in range(100):
        producer.produce(topic, b"v", timestamp=1_000_000 + number * 10)
    producer.flush(TIMEOUT_SECONDS)
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_SECONDS) == (0, 100)
    (found,) = consumer.offsets_for_times(
        [TopicPartition(topic, 0, 1_000_495)], timeout=TIMEOUT_SECONDS
    )
    assert found.offset == 50
    part = TopicPartition(topic, 0)
    for spec, offset in (
        (admin_api.OffsetSpec.earliest(), 0),
        (admin_api.OffsetSpec.latest(), 100),
        (admin_api.OffsetSpec.max_timestamp(), 99),
        (admin_api.OffsetSpec.for_timestamp(1_000_001), 1),
    ):
        assert admin.list_offsets({part: spec})[part].result(TIMEOUT_SECONDS).offset == offset


def test_topics_are_made_described_grown_and_deleted(admin: AdminClient, topic: str) -> None:
    create(admin, topic, 2, retention_ms="60000")
    with pytest.raises(KafkaException) as refused:
        create(admin, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    described = admin.list_topics(topic, TIMEOUT_SECONDS).topics[topic]
    assert sorted(described.partitions) == [0, 1]
    admin.create_partitions([admin_api.NewPartitions(topic, 6)])[topic].result(TIMEOUT_SECONDS)
    assert len(admin.list_topics(topic, TIMEOUT_SECONDS).topics[topic].partitions) == 6
    admin.delete_topics([topic])[topic].result(TIMEOUT_SECONDS)
    assert topic not in admin.list_topics(timeout=TIMEOUT_SECONDS).topics


def test_settings_are_described_and_changed(
    admin: AdminClient, topic: str, node_ids: list[int]
) -> None:
    create(admin, topic, retention_ms="60000")
    resource = admin_api.ConfigResource(admin_api.ResourceType.TOPIC, topic)
    described = admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)
    assert described["retention.ms"].value == "60000"
    assert described["segment.bytes"].is_default
    change = admin_api.ConfigResource(
        admin_api.ResourceType.TOPIC,
        topic,
        incremental_configs=[
            admin_api.ConfigEntry(
                "retention.ms", "70000", incremental_operation=admin_api.AlterConfigOpType.SET
            )
        ],
    )
    admin.incremental_alter_configs([change])[change].result(TIMEOUT_SECONDS)
    described = admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)
    assert described["retention.ms"].value == "70000"
    for node in map(str, node_ids):
        broker = admin_api.ConfigResource(admin_api.ResourceType.BROKER, node)
        described = admin.describe_configs([broker])[broker].result(TIMEOUT_SECONDS)
        assert described["node.id"].value == node


def test_records_are_deleted(
    new_producer: Callable[..., Producer], admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    create(admin, topic)
    producer = new_producer()
    for number in range(10):
        producer.produce(topic, b"%d" % number)
    producer.flush(TIMEOUT_SECONDS)
    part = TopicPartition(topic, 0, 4)
    deleted = admin.delete_records([part])[part].result(TIMEOUT_SECONDS)
    assert deleted.low_watermark == 4
    assert [m.value() for m in read(consumer, topic, 6)] == [b"%d" % n for n in range(4, 10)]


def test_the_cluster_is_described(admin: AdminClient, node_ids: list[int]) -> None:
    described = admin.describe_cluster().result(TIMEOUT_SECONDS)
    assert described.controller.id in node_ids
    assert sorted(node.id for node in described.nodes) == node_ids
    assert described.cluster_id
