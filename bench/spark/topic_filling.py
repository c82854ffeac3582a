"""A topic with rows that do not compress, sent by librdkafka."""

import os
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

TOPIC: Final = "rows"
VALUE_BYTES: Final = 100
# Values are cut from one piece of noise: making each anew would take longer than sending it.
_NOISE_BYTES: Final = 1 << 20


def fill_topic(bootstrap_servers: str, rows: int, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, partitions)])[TOPIC].result()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": 20,
            "batch.size": 262_144,
            "queue.buffering.max.messages": 500_000,
        }
    )
    noise = os.urandom(_NOISE_BYTES)
    for number in range(rows):
        start = number * 37 % (_NOISE_BYTES - VALUE_BYTES)
        value = noise[start : start + VALUE_BYTES]
        while True:
            try:
                producer.produce(
                    TOPIC, key=b"%08d" % number, value=value, partition=number % partitions
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0, "the broker did not take all rows"
