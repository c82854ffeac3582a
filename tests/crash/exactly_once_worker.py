"""A usual consume-transform-produce program, as a process that can be killed.

    python exactly_once_worker.py BOOTSTRAP NAME INPUT OUTPUT GROUP [GROUP_INSTANCE_ID]

It prints a line after each of its steps, so that whoever kills it can choose where.
"""

import sys
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer

WAIT_SECONDS = 30.0
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


def rewind(consumer: Consumer) -> None:
    """Read on from what is committed."""
    for place in consumer.committed(consumer.assignment(), WAIT_SECONDS):
        place.offset = place.offset if place.offset >= 0 else OFFSET_BEGINNING
        consumer.seek(place)


def copy(producer: Producer, consumer: Consumer, output: str, revoked: list[object]) -> None:
    """One transaction: messages and where they were read go together, or not at all."""
    messages = []
    revoked.clear()
    batch = consumer.consume(BATCH, 0.5)
    if revoked:
        # A rebalance within the call: what was read before it may be another worker's by now, while
        # the group's metadata, asked for below, would be that of the new generation.
        rewind(consumer)
        return
    for message in batch:
        error = message.error()
        if error is None:
            messages.append(message)
        elif error.fatal():
            raise KafkaException(error)
    if not messages:
        return
    producer.begin_transaction()
    try:
        for message in messages:
            producer.produce(output, message.value() or b"", partition=message.partition() or 0)
        say("produced")
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
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
    try:
        producer.init_transactions(WAIT_SECONDS)
        revoked: list[object] = []
        told = lambda _, partitions: revoked.append(partitions)  # noqa: E731
        consumer.subscribe([source], on_revoke=told, on_lost=told)
        say("ready")
        while True:
            copy(producer, consumer, output, revoked)
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
