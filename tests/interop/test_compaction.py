"""Kafka's clients on a compacted topic: batches that lost records, and batches without any."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from goqueue.client.http_api import HttpApi
from tests.interop.servers import NewServer, Server

TOPIC = "balances"
KEYS = 40
WAIT_SECONDS = 120.0
Value = str | None


@dataclass
class Written:
    """What the producers know. Aborted values must never be seen."""

    last: dict[str, Value] = field(default_factory=dict)
    offsets: dict[tuple[str, Value], int] = field(default_factory=dict)
    aborted: set[str] = field(default_factory=set)
    end_offset: int = 0


@pytest.fixture(scope="module")
def broker(new_server: NewServer, data_dir: Path) -> Iterator[Server]:
    with new_server(data_dir, "--set", "log.cleaner.backoff.ms=20") as running:
        yield running


@pytest.fixture(scope="module")
def written(broker: Server) -> Written:
    """Values of a few keys, written over and over, in and out of transactions; then compacted."""
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": "20000",
        "delete.retention.ms": "0",
        "min.cleanable.dirty.ratio": "0",
    }
    body = {"name": TOPIC, "partitions": 1, "config": config}
    HttpApi(broker.http_url).post("topics", body=body)
    written = Written()
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        plain = new_producer(broker, compression)
        transactional = new_producer(broker, compression, **{"transactional.id": compression})
        transactional.init_transactions(WAIT_SECONDS)
        for round_number in range(6):
            name = f"{compression} {round_number}"
            write(plain, written, name, round_number)
            transactional.begin_transaction()
            write(transactional, written, name + " committed", round_number + 1)
            transactional.commit_transaction(WAIT_SECONDS)
            transactional.begin_transaction()
            write(transactional, written, name + " aborted", round_number, is_aborted=True)
            transactional.abort_transaction(WAIT_SECONDS)
    wait_until(lambda: all(map(is_clean, broker.data_dir.rglob(f"logs/{TOPIC}-0"))))
    return written


def new_producer(broker: Server, compression: str, **more: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "compression.type": compression,
            "enable.idempotence": True,
            "linger.ms": 2,
            "batch.num.messages": 15,
            **more,
        }
    )


def write(
    producer: Producer, written: Written, name: str, start: int, *, is_aborted: bool = False
) -> None:
    for number in range(start, start + KEYS, 2):
        key, value = f"key {number % KEYS}", f"{name} {number} {'.' * 60}"
        is_tombstone = number % 7 == 0
        if is_aborted:
            written.aborted.add(value)

        def delivered(error: KafkaError | None, message: Any, key: str = key) -> None:
            assert error is None
            stored = message.value()
            text = None if stored is None else stored.decode()
            if not is_aborted:
                written.last[key] = text
                written.offsets[key, text] = message.offset()
            written.end_offset = message.offset() + 1

        stored = None if is_tombstone and not is_aborted else value.encode()
        producer.produce(TOPIC, key=key.encode(), value=stored, on_delivery=delivered)
    assert producer.flush(WAIT_SECONDS) == 0


def is_clean(folder: Path) -> bool:
    """Of one copy of the partition: whether all but the last segment were compacted."""
    active_base_offset = max(int(path.stem) for path in folder.glob("*.log"))
    return first_dirty_offset(folder) == active_base_offset


def first_dirty_offset(folder: Path) -> int:
    path = folder / "compaction.json"
    if not path.exists():
        return 0
    _, _, body = path.read_text().partition("\n")
    rounds = json.loads(body)["rounds"]
    return int(rounds[-1][0]) if rounds else 0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def read_all(broker: Server, start: int = OFFSET_BEGINNING, **more: Any) -> list[Any]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "unused: partitions are assigned",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "check.crcs": True,
            **more,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, start)])
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(message)
                continue
            assert error.code() == KafkaError._PARTITION_EOF, error
            return found
    finally:
        consumer.close()
    raise AssertionError(f"no end of the partition after {len(found)} messages")


def check(found: list[tuple[int, str, Value]], written: Written) -> None:
    """`found` are (offset, key, value) as a client saw them, all of the topic."""
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets))
    last = {key: value for _, key, value in found}
    # Without its tombstone a key is gone, which says the same.
    expected = {key: value for key, value in written.last.items() if value is not None}
    assert {key: value for key, value in last.items() if value is not None} == expected
    assert not {value for _, _, value in found} & written.aborted
    for offset, key, value in found:
        if value is not None:
            assert written.offsets[key, value] == offset


def seen(message: Any) -> tuple[int, str, Value]:
    value = message.value()
    return message.offset(), message.key().decode(), None if value is None else value.decode()


@pytest.mark.parametrize("max_bytes", [1_000_000, 400])
def test_confluent_reads_the_last_committed_values(
    broker: Server, written: Written, max_bytes: int
) -> None:
    settings: dict[str, Any] = {
        "max.partition.fetch.bytes": max_bytes,
        "isolation.level": "read_committed",
    }
    found = [seen(message) for message in read_all(broker, **settings)]
    check(found, written)
    # Most of it is gone: 1,800 records were written.
    assert len(found) < 400


def test_confluent_can_begin_at_any_offset(broker: Server, written: Written) -> None:
    everything = [seen(message) for message in read_all(broker)]
    for start in range(0, written.end_offset, written.end_offset // 25):
        found = [seen(message) for message in read_all(broker, start)]
        assert found == [entry for entry in everything if entry[0] >= start]


def test_aiokafka_reads_it(broker: Server, written: Written) -> None:
    async def read() -> list[tuple[int, str, Value]]:
        partition = AioTopicPartition(TOPIC, 0)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers,
            isolation_level="read_committed",
            fetch_max_wait_ms=10,
            max_partition_fetch_bytes=400,
        )
        await consumer.start()
        try:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            end = (await consumer.end_offsets([partition]))[partition]
            found: list[tuple[int, str, Value]] = []
            while await consumer.position(partition) < end:
                for batch in (await consumer.getmany(timeout_ms=100)).values():
                    for record in batch:
                        value = None if record.value is None else record.value.decode()
                        found.append((record.offset, record.key.decode(), value))
            return found
        finally:
            await consumer.stop()

    check(asyncio.run(asyncio.wait_for(read(), WAIT_SECONDS)), written)
