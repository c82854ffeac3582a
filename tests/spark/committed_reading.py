"""Reads a topic as a read-committed consumer of another make does."""

import time

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

WAIT_SECONDS = 60.0


def read_committed(
    bootstrap: str, topic: str, *, isolation: str = "read_committed"
) -> list[Message]:
    """Everything up to the end of each partition, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused: partitions are assigned",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        known = consumer.list_topics(topic, WAIT_SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in known])
        found: dict[int, list[Message]] = {partition: [] for partition in known}
        ended: set[int | None] = set()
        deadline = time.monotonic() + WAIT_SECONDS
        while len(ended) < len(known):
            assert time.monotonic() < deadline, "the topic has no end"
            for message in consumer.consume(10_000, 0.2):
                error = message.error()
                if error is None:
                    found[message.partition() or 0].append(message)
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(message.partition())
    finally:
        consumer.close()
    return [message for partition in sorted(found) for message in found[partition]]


def values_of(bootstrap: str, topic: str) -> list[bytes]:
    return sorted(message.value() or b"" for message in read_committed(bootstrap, topic))
