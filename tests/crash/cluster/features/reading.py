"""Reads a whole topic, by offset, as librdkafka does."""

import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.busy_machine import stretched
from tests.crash.cluster.features.loads import PARTITIONS, RECOVERY_S
from tests.crash.cluster.load import CLIENT

_READ_COUNT: Final = 1_000


class Read(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None
    headers: dict[str, str]


def read_topic(bootstrap_servers: str, topic: str) -> Iterator[Read]:
    """What is committed there now."""
    consumer = Consumer(
        {
            **CLIENT,
            "bootstrap.servers": bootstrap_servers,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    ended: set[int] = set()
    deadline = time.monotonic() + stretched(RECOVERY_S)
    try:
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, f"{topic}: only {ended} were read to the end"
            for message in consumer.consume(_READ_COUNT, 0.5):
                error = message.error()
                if error is None:
                    yield Read(
                        message.partition() or 0,
                        message.offset() or 0,
                        message.timestamp()[1],
                        message.value(),
                        _texts(message),
                    )
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition() or 0)
    finally:
        consumer.close()


def _texts(message: Message) -> dict[str, str]:
    headers: Any = message.headers() or ()
    return {name: (text or b"").decode() for name, text in headers}
