"""Share groups with a real client: librdkafka's ShareConsumer (KIP-932)."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.interop.servers import NewServer

WAIT_SECONDS = 120.0


def make_topic(bootstrap: str, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(WAIT_SECONDS)


def configure(bootstrap: str, group: str, **settings: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in {"share_auto_offset_reset": "earliest", **settings}.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(WAIT_SECONDS)


def produce(bootstrap: str, topic: str, count: int, partition: int = -1) -> None:
    """Every value is a number; each message a batch of its own."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "batch.num.messages": 1})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(WAIT_SECONDS) == 0


@contextmanager
def share_consumer(bootstrap: str, group: str, topic: str, **more: str) -> Iterator[ShareConsumer]:
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    consumer = ShareConsumer(config)
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def poll(consumer: ShareConsumer, seconds: float = WAIT_SECONDS) -> list[Message]:
    """The next messages; none when the time is up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = list(consumer.poll(0.2))
        assert all(message.error() is None for message in found), [m.error() for m in found]
        if found:
            return found
    return []


def number_of(message: Message) -> int:
    value = message.value()
    assert value is not None
    return int(value)


def settle(consumer: ShareConsumer, messages: list[Message], how: AcknowledgeType) -> None:
    for message in messages:
        consumer.acknowledge(message, how)
    failed = {p: e for p, e in consumer.commit_sync(WAIT_SECONDS).items() if e is not None}
    assert not failed


def drain(
    consumers: list[ShareConsumer], expected: int, seen: Callable[[int, Message], None]
) -> None:
    """Take and accept messages by turns until all there are have come."""
    count = 0
    end = time.monotonic() + WAIT_SECONDS
    while count < expected:
        assert time.monotonic() < end, f"{count} of {expected} messages came"
        for place, consumer in enumerate(consumers):
            messages = list(consumer.poll(0.05))
            for message in messages:
                assert message.error() is None
                seen(place, message)
                count += 1
            if messages:
                settle(consumer, messages, AcknowledgeType.ACCEPT)


def test_more_consumers_than_partitions_share_the_work(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=2)
    configure(bootstrap, topic)
    produced = 400
    produce(bootstrap, topic, produced)
    got: Counter[int] = Counter()
    workers: Counter[int] = Counter()

    def seen(place: int, message: Message) -> None:
        got[number_of(message)] += 1
        workers[place] += 1
        assert message.delivery_count() == 1

    with (
        share_consumer(bootstrap, topic, topic, max_poll_records="20") as one,
        share_consumer(bootstrap, topic, topic, max_poll_records="20") as two,
        share_consumer(bootstrap, topic, topic, max_poll_records="20") as three,
    ):
        drain([one, two, three], produced, seen)
    assert got == Counter(range(produced))
    assert len(workers) == 3, workers


def test_released_messages_come_again_and_rejected_ones_do_not(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    configure(bootstrap, topic)
    produce(bootstrap, topic, 3, partition=0)
    with share_consumer(bootstrap, topic, topic) as consumer:
        first = poll(consumer)
        assert [number_of(m) for m in first] == [0, 1, 2]
        consumer.acknowledge(first[0], AcknowledgeType.ACCEPT)
        consumer.acknowledge(first[1], AcknowledgeType.RELEASE)
        consumer.acknowledge(first[2], AcknowledgeType.REJECT)
        again = poll(consumer)
        assert [(number_of(m), m.delivery_count()) for m in again] == [(1, 2)]
        settle(consumer, again, AcknowledgeType.ACCEPT)
        assert poll(consumer, 0.5) == []
    # What was rejected is a dead letter.
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "dead", "auto.offset.reset": "earliest"}
    )
    reader.subscribe([f"{topic}.dlq"])
    try:
        dead = reader.consume(1, WAIT_SECONDS)
        assert [number_of(m) for m in dead] == [2]
        headers = dict(dead[0].headers() or [])
        assert headers["goqueue-dlq-topic"] == topic.encode()
        assert headers["goqueue-dlq-group"] == topic.encode()
    finally:
        reader.close()


def test_a_message_that_fails_always_is_delivered_five_times(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    configure(bootstrap, topic)
    produce(bootstrap, topic, 1)
    with share_consumer(bootstrap, topic, topic) as consumer:
        for count in range(1, 6):
            messages = poll(consumer)
            assert [m.delivery_count() for m in messages] == [count]
            settle(consumer, messages, AcknowledgeType.RELEASE)
        assert poll(consumer, 0.5) == []


def test_a_lock_that_ends_gives_the_message_to_somebody_else(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    configure(bootstrap, topic, share_record_lock_duration_ms="300")
    produce(bootstrap, topic, 1)
    with (
        share_consumer(bootstrap, topic, topic) as slow,
        share_consumer(bootstrap, topic, topic) as quick,
    ):
        held = poll(slow)
        assert [m.delivery_count() for m in held] == [1]
        taken = poll(quick)
        assert [m.delivery_count() for m in taken] == [2]
        settle(quick, taken, AcknowledgeType.ACCEPT)
        # Too late: nothing is changed by it.
        slow.acknowledge(held[0], AcknowledgeType.RELEASE)
        errors = [error for error in slow.commit_sync(WAIT_SECONDS).values() if error is not None]
        assert [error.args[0].name() for error in errors] == ["INVALID_RECORD_STATE"]
        assert poll(quick, 0.5) == []


def test_implicit_acknowledgement(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    configure(bootstrap, topic)
    produce(bootstrap, topic, 5)
    got: list[int] = []
    with share_consumer(bootstrap, topic, topic, share_acknowledgement_mode="implicit") as consumer:
        while len(got) < 5:
            messages = poll(consumer)
            assert messages
            got += [number_of(m) for m in messages]
        assert all(error is None for error in consumer.commit_sync(WAIT_SECONDS).values())
    assert sorted(got) == list(range(5))
    with share_consumer(bootstrap, topic, topic) as consumer:
        assert poll(consumer, 0.5) == []


def test_a_group_and_a_share_group_read_the_same_topic(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=2)
    configure(bootstrap, topic)
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-readers",
            "auto.offset.reset": "earliest",
        }
    )
    reader.subscribe([topic])
    got: Counter[int] = Counter()
    read: Counter[int] = Counter()
    try:
        with share_consumer(bootstrap, topic, topic) as consumer:
            produce(bootstrap, topic, 100)
            drain([consumer], 100, lambda _, message: got.update([number_of(message)]))
        while read.total() < 100:
            messages = reader.consume(100, WAIT_SECONDS)
            assert messages
            read.update(map(number_of, messages))
    finally:
        reader.close()
    assert got == read == Counter(range(100))


WORKER = """
import sys
from confluent_kafka import ShareConsumer
from tests.interop.servers import NewServer
consumer = ShareConsumer({
    "bootstrap.servers": sys.argv[1], "group.id": sys.argv[2],
    "share.acknowledgement.mode": "explicit",
})
consumer.subscribe([sys.argv[2]])
while True:
    for message in consumer.poll(0.2):
        print(int(message.value()), flush=True)
"""


def test_a_killed_consumer_loses_nothing(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    configure(bootstrap, topic)
    produce(bootstrap, topic, 3)
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, bootstrap, topic], stdout=subprocess.PIPE, text=True
    )
    try:
        assert worker.stdout is not None
        held = {int(worker.stdout.readline()) for _ in range(3)}
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait(WAIT_SECONDS)
    assert held == {0, 1, 2}
    # The connection is gone, so the locks are: long before their 30 s are over.
    with share_consumer(bootstrap, topic, topic) as consumer:
        got: dict[int, int] = {}
        while len(got) < 3:
            messages = poll(consumer, 10.0)
            assert messages
            got.update({number_of(m): m.delivery_count() or 0 for m in messages})
            settle(consumer, messages, AcknowledgeType.ACCEPT)
    assert got == {0: 2, 1: 2, 2: 2}


@pytest.mark.parametrize("kills", [3])
def test_a_killed_broker_forgets_no_acknowledgement(
    new_server: NewServer, tmp_path: Path, kills: int
) -> None:
    from tests.crash.share_rounds import ShareRounds

    with new_server(tmp_path / "data") as server:
        rounds = ShareRounds(server, seed=kills)
        for _ in range(kills):
            rounds.run_one()
        rounds.finish()
