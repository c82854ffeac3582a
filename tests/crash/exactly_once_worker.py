"""A usual consume-transform-produce program, as a process that can be killed.

    python exactly_once_worker.py BOOTSTRAP NAME INPUT OUTPUT GROUP [GROUP_INSTANCE_ID]

It prints a line after each of its steps, so that whoever kills it can choose where.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

WAIT_SECONDS = 120.0
BATCH = 20

# When every broker is gone, which is when one is, librdkafka 2.16 by default forgets them all and
# begins again with the bootstrap servers (KIP-899). A group's offsets that are on their way to
# their coordinator then wait for one that it has forgotten, whatever the broker does.
RECONNECTING: dict[str, Any] = {
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.max.ms": 500,
    "log_level": 0,
}


def say(step: str) -> None:
    print(step, flush=True)


class Places:
    """Where this worker goes on in each of its partitions.

    librdkafka 2.16 may hand out messages of an assignment that is over: those it had read before a
    rebalance in the same call, and those of a fetch that was answered after the partition was taken
    away, once the partition is assigned again. By then the group's metadata are those of the new
    generation, and no broker can tell. So each message must be the next one after what is
    committed; there are no gaps in the input.
    """

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for place in consumer.committed(partitions, WAIT_SECONDS):
            self._next[place.partition] = max(place.offset, 0)

    def revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for place in partitions:
            self._next.pop(place.partition, None)

    def following(self, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            partition, offset = message.partition() or 0, message.offset() or 0
            if self._next.get(partition) == offset:
                self._next[partition] = offset + 1
                yield message

    def offsets(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition, at) for partition, at in self._next.items()]


def read(consumer: Consumer) -> Iterator[Message]:
    for message in consumer.consume(BATCH, 0.5):
        error = message.error()
        if error is None:
            yield message
        elif error.fatal():
            raise KafkaException(error)


def copy(producer: Producer, consumer: Consumer, source: str, output: str, places: Places) -> None:
    """One transaction: messages and where they were read go together, or not at all."""
    messages = list(places.following(list(read(consumer))))
    if not messages:
        return
    producer.begin_transaction()
    try:
        for message in messages:
            producer.produce(output, message.value() or b"", partition=message.partition() or 0)
        say("produced")
        producer.send_offsets_to_transaction(
            places.offsets(source), consumer.consumer_group_metadata()
        )
        say("offsets")
        producer.commit_transaction(WAIT_SECONDS)
    except KafkaException as failure:
        cause: KafkaError = failure.args[0]
        if cause.txn_requires_abort():
            producer.abort_transaction(WAIT_SECONDS)
        raise
    say("committed")


def work(settings: dict[str, Any], name: str, source: str, output: str) -> None:
    """Until something goes wrong; then the caller starts anew from what is committed."""
    producer = Producer(
        {
            "bootstrap.servers": settings["bootstrap.servers"],
            "transactional.id": name,
            **RECONNECTING,
        }
    )
    consumer = Consumer(settings)
    places = Places()
    try:
        producer.init_transactions(WAIT_SECONDS)
        consumer.subscribe(
            [source],
            on_assign=places.assigned,
            on_revoke=places.revoked,
            on_lost=places.revoked,
        )
        say("ready")
        while True:
            copy(producer, consumer, source, output, places)
    finally:
        consumer.close()


def main() -> None:
    bootstrap, name, source, output, group, *instance_id = sys.argv[1:]
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "session.timeout.ms": 1_000,
        "heartbeat.interval.ms": 100,
        **RECONNECTING,
    }
    if instance_id:
        settings["group.instance.id"] = instance_id[0]
    while True:
        try:
            work(settings, name, source, output)
        except KafkaException as failure:
            say(f"again: {failure}")


if __name__ == "__main__":
    main()
