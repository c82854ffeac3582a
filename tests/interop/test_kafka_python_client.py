"""kafka-python: producer, assigned consumer and admin client."""

import time
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError

TIMEOUT_SECONDS = 60


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_what_is_produced_is_consumed(bootstrap: str, topic: str, compression: str | None) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=compression,
        enable_idempotence=False,
        acks="all",
    )
    futures = [
        producer.send(topic, b"%d" % n, key=b"k", headers=[("h", b"%d" % n)], partition=0)
        for n in range(500)
    ]
    producer.flush(TIMEOUT_SECONDS)
    assert [future.get(TIMEOUT_SECONDS).offset for future in futures] == list(range(500))
    producer.close()

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    part = TopicPartition(topic, 0)
    consumer.assign([part])
    consumer.seek_to_beginning(part)
    found: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while len(found) < 500 and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=200).values():
            found += records
    assert [record.value for record in found] == [b"%d" % n for n in range(500)]
    assert found[7].headers == [("h", b"7")]
    assert consumer.end_offsets([part]) == {part: 500}
    assert consumer.beginning_offsets([part]) == {part: 0}
    consumer.close()


def test_topics_are_administered(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    new = NewTopic(topic, num_partitions=2, replication_factor=1)
    admin.create_topics([new])
    assert topic in admin.list_topics()
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([new])
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    admin.close()
