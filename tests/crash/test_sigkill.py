"""SIGKILL under load: what a client saw acknowledged is there, in its place, whole.

Producers keep a record of every acknowledgement (partition, offset, value). The broker is killed at
a random moment and started again on its data, several times; then everything is read back. A value
that was not acknowledged may be there or not, but at most once: producers do not retry.
"""

import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from goqueue.testing import ServerProcess

TOPIC = "ledger"
PARTITIONS = 3
ROUNDS = 6
PRODUCERS = 2
# The kill comes at a random acknowledgement, so that it falls into the middle of the work.
ACKNOWLEDGED_BEFORE_KILL = (500, 6_000)
WAIT_SECONDS = 120.0


def stored_message(message: Message) -> tuple[tuple[int, int], bytes]:
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert value is not None
    return (partition, offset), value


@dataclass
class ClientRecord:
    """What the clients know."""

    sent: Counter[bytes] = field(default_factory=Counter)
    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    enough: threading.Event = field(default_factory=threading.Event)
    enough_at: int = 0

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            return
        place, value = stored_message(message)
        with self.lock:
            assert place not in self.acknowledged, f"{place} was given to two messages"
            self.acknowledged[place] = value
            if len(self.acknowledged) >= self.enough_at:
                self.enough.set()


class LoadGenerator(threading.Thread):
    """Sends numbered values until told to stop, without retries."""

    def __init__(self, name: str, bootstrap: str, record: ClientRecord, compression: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping = threading.Event()
        self._record = record
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "message.send.max.retries": 0,
                "message.timeout.ms": 5_000,
                "linger.ms": 2,
                "batch.num.messages": 200,
                "compression.type": compression,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            value = f"{self.name}-{number}-".encode() + b"x" * (number % 200)
            try:
                self._producer.produce(
                    TOPIC,
                    value,
                    key=str(number % 50).encode(),
                    on_delivery=self._record.on_delivery,
                )
            except BufferError:
                self._producer.poll(0.05)
                continue
            with self._record.lock:
                self._record.sent[value] += 1
            number += 1
            self._producer.poll(0)
        # What the dead broker did not answer must fail before the next round begins.
        self._producer.purge()
        self._producer.flush(WAIT_SECONDS)


def create_topic(bootstrap: str, config: dict[str, str]) -> None:
    new = NewTopic(TOPIC, num_partitions=PARTITIONS, config=config)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[TOPIC].result(WAIT_SECONDS)


def read_back(bootstrap: str) -> dict[tuple[int, int], bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found: dict[tuple[int, int], bytes] = {}
    last = [-1] * PARTITIONS
    ended: set[int | None] = set()
    try:
        while len(ended) < PARTITIONS:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, f"no end of partitions {ended} within {WAIT_SECONDS} s"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
                continue
            (partition, offset), value = stored_message(message)
            assert offset == last[partition] + 1, f"hole before {partition}:{offset}"
            last[partition] = offset
            found[partition, offset] = value
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize(("fsync_policy", "compression"), [("always", "none"), ("interval", "lz4")])
def test_acknowledged_messages_survive_kills(
    tmp_path: Path, fsync_policy: str, compression: str
) -> None:
    chance = random.Random(f"{fsync_policy} {compression}")
    record = ClientRecord()
    with ServerProcess(tmp_path, "--set", "log.level=warning") as server:
        # Small segments, so that kills also fall on rolls.
        config = {"fsync.policy": fsync_policy, "segment.bytes": "200000", "flush.ms": "50"}
        create_topic(server.bootstrap_servers, config)
        for round_number in range(ROUNDS):
            record.enough.clear()
            record.enough_at = len(record.acknowledged) + chance.randint(*ACKNOWLEDGED_BEFORE_KILL)
            generators = [
                LoadGenerator(f"r{round_number}p{n}", server.bootstrap_servers, record, compression)
                for n in range(PRODUCERS)
            ]
            for generator in generators:
                generator.start()
            assert record.enough.wait(WAIT_SECONDS), "the broker acknowledges too slowly"
            server.sigkill()
            for generator in generators:
                generator.stopping.set()
            for generator in generators:
                generator.join(WAIT_SECONDS)
                assert not generator.is_alive()
            server.restart()

        found = read_back(server.bootstrap_servers)
        log_text = server.log_text

    lost = {place for place in record.acknowledged if place not in found}
    assert not lost, f"{len(lost)} acknowledged messages are gone, such as {min(lost)}"
    changed = {p for p, value in record.acknowledged.items() if found[p] != value}
    assert not changed, f"{len(changed)} places hold something else, such as {min(changed)}"
    stored = Counter(found.values())
    assert stored <= record.sent, "something is stored that was not sent, or more often"
    assert "Traceback" not in log_text
    # The test itself: kills must have hit unanswered work at least once.
    assert sum(record.sent.values()) > len(record.acknowledged) >= ROUNDS * 500


def test_topics_survive_a_kill_right_after_the_answer(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--set", "log.level=warning") as server:
        for number in range(3):
            admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
            created = admin.create_topics([NewTopic(f"t{number}", num_partitions=number + 1)])
            created[f"t{number}"].result(WAIT_SECONDS)
            if number > 0:
                admin.delete_topics([f"t{number - 1}"])[f"t{number - 1}"].result(WAIT_SECONDS)
            server.sigkill()
            server.restart()
            admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
            topics = admin.list_topics(timeout=WAIT_SECONDS).topics
            assert {name: len(topic.partitions) for name, topic in topics.items()} == {
                f"t{number}": number + 1
            }
