"""Groups with kafka-python, aiokafka and kcat."""

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import MemberToRemove, NewTopic
from kafka.structs import OffsetAndMetadata

WAIT_SECONDS = 60.0
PARTITIONS = 4


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:8]}"


@pytest.fixture
def filled(bootstrap: str, topic: str) -> str:
    """A topic with 25 messages in each of four partitions."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(100):
        producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
    producer.flush(WAIT_SECONDS)
    producer.close()
    return topic


def wait_for(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come within {WAIT_SECONDS} s"
        threading.Event().wait(0.02)


class PollingMember(threading.Thread):
    """A kafka-python consumer in a thread of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: Any) -> None:
        super().__init__(daemon=True)
        self.consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            **settings,
        )
        self.seen: list[bytes] = []
        self.owned: frozenset[int] = frozenset()
        self._stopping = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._stopping.is_set():
            for records in self.consumer.poll(timeout_ms=100).values():
                self.seen += [record.value for record in records]
            self.owned = frozenset(part.partition for part in self.consumer.assignment())
        self.consumer.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join(WAIT_SECONDS)
        assert not self.is_alive()


def test_kafka_python_members_share_a_topic(bootstrap: str, filled: str, group: str) -> None:
    members = [PollingMember(bootstrap, group, filled) for _ in range(2)]
    wait_for(lambda: sorted(len(m.owned) for m in members) == [2, 2], "a fair share")
    wait_for(lambda: sum(len(m.seen) for m in members) >= 100, "every message")
    members[0].stop()
    wait_for(lambda: len(members[1].owned) == 4, "the share of the one that left")
    members[1].stop()
    everything = sorted(int(value) for m in members for value in m.seen)
    assert everything == list(range(100))


def test_kafka_python_commits_and_goes_on(bootstrap: str, filled: str, group: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "consumer_timeout_ms": 1_000,
    }
    consumer = KafkaConsumer(filled, **settings)
    assert len(list(consumer)) == 100
    part = TopicPartition(filled, 2)
    consumer.commit({part: OffsetAndMetadata(20, "by hand", -1)})
    assert consumer.committed(part) == 20
    assert consumer.committed(part, metadata=True).metadata == "by hand"
    assert consumer.beginning_offsets([part]) == {part: 0}
    assert consumer.end_offsets([part]) == {part: 25}
    consumer.close(autocommit=False)
    again = KafkaConsumer(filled, **settings)
    assert len(list(again)) == 80
    again.close()


def test_kafka_python_admin_works_on_groups(bootstrap: str, filled: str, group: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    member = PollingMember(bootstrap, group, filled, group_instance_id="instance")
    wait_for(lambda: len(member.owned) == 4, "the assignment")

    def states() -> dict[str, str]:
        return {found["group_id"]: found["group_state"] for found in admin.list_groups()}

    assert states()[group] == "Stable"
    described = admin.describe_groups([group])[group]
    assert described["group_state"] == "Stable"
    (one,) = described["members"]
    assert one["group_instance_id"] == "instance"
    wait_for(lambda: len(member.seen) == 100, "every message")
    member.stop()
    admin.remove_group_members(group, [MemberToRemove(group_instance_id="instance")])
    assert states()[group] == "Empty"
    part = TopicPartition(filled, 1)
    admin.alter_group_offsets(group, {part: OffsetAndMetadata(7, "", -1)})
    offsets = admin.list_group_offsets({group: None})[group]
    assert offsets[part].offset == 7
    assert len(offsets) == 4
    admin.delete_group_offsets(group, [part])
    assert part not in admin.list_group_offsets({group: None})[group]
    admin.delete_groups([group])
    assert group not in states()
    admin.close()


async def _read_with_aiokafka(bootstrap: str, topic: str, group: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
        "enable_auto_commit": False,
    }
    first, second = (AIOKafkaConsumer(topic, **settings) for _ in range(2))
    await first.start()
    await second.start()
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while [len(first.assignment()), len(second.assignment())] != [2, 2]:
                await first.getmany(timeout_ms=50)
                await second.getmany(timeout_ms=50)
        for consumer in (first, second):
            await consumer.seek_to_beginning()
            found = 0
            async with asyncio.timeout(WAIT_SECONDS):
                while found < 50:
                    batches = await consumer.getmany(timeout_ms=200)
                    found += sum(map(len, batches.values()))
            assert found == 50
            await consumer.commit()
            for part in consumer.assignment():
                assert await consumer.committed(part) == 25
    finally:
        await first.stop()
        await second.stop()


def test_aiokafka_members_share_a_topic(bootstrap: str, filled: str, group: str) -> None:
    asyncio.run(_read_with_aiokafka(bootstrap, filled, group))


def test_kcat_reads_as_a_group(bootstrap: str, filled: str, group: str) -> None:
    command = ["kcat", "-b", bootstrap, "-G", group, "-X", "auto.offset.reset=earliest", "-q"]
    done = subprocess.run(
        [*command, "-c", "100", filled],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=True,
    )
    assert sorted(map(int, done.stdout.split())) == list(range(100))
