"""Batches that unpack to far more than they weigh, and batches that lie: each reader goes on."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from goqueue.broker.node import Node
from goqueue.broker.partitions.decoding import BatchDecoder
from goqueue.model.batch import read_header
from goqueue.model.broker_config import broker_config
from goqueue.model.configs import ConfigChange, ConfigResource, ConfigResourceKind
from goqueue.model.errors import CorruptBatch, InvalidRecord, RecordTooLarge, UnpackedTooLarge
from goqueue.model.log import FetchPart, Isolation, PageRequest
from goqueue.model.queues.dead_letters import Redriven
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import Settlement
from goqueue.model.records import COMPRESSION_CODES, NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.hostile_batches import BOMBS, CODECS, batch, many_tiny_records, one_huge_record, record
from tests.stored_records import read_records
from tests.unit.broker.conftest import OpenBroker

__all__ = ["Node", "broker_config", "survive"]

MEGABYTE = 1024 * 1024
# Small, so that no test needs much memory; what goes beyond it is as for gigabytes.
LIMIT = {"max.decompressed.message.bytes": str(2 * MEGABYTE)}
# Of millions of records, a header says enough to refuse them unseen; these are some 200,000.
UNPACKED_BYTES = {
    "one huge record": 8 * MEGABYTE,
    "many tiny records": 3 * MEGABYTE // 2,
    "many headers": 8 * MEGABYTE,
}


def in_loop(test: Callable[..., Coroutine[object, object, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: object, **fixtures: object) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **fixtures), 60))

    return run


async def make_topic(broker: Node, **config: str) -> None:
    texts = LIMIT | {name.replace("_", "."): text for name, text in config.items()}
    await BrokerService(broker).topics.create(
        ANYONE, NewTopic(name="t", partitions=1, config=texts)
    )


async def produce(broker: Node, records: bytes | bytearray) -> int:
    log = BrokerService(broker).log
    return (await log.produce(ANYONE, "t", 0, records, acks=-1, timeout_ms=5_000)).base_offset


def plain(*values: bytes, compression: str = "uncompressed") -> bytearray:
    records = [NewRecord(key=b"k", value=value) for value in values]
    return encode_records(
        records, now_ms=1_700_000_000_000, compression=COMPRESSION_CODES[compression]
    )


async def receive(broker: Node, group: str = "g", **options: Any) -> list[Delivery]:
    request = Receive(max_messages=10, start="earliest", **options)
    return await BrokerService(broker).queues.receive(ANYONE, group, "t", request)


def values(deliveries: list[Delivery]) -> list[bytes | None]:
    return [delivery.record.value for delivery in deliveries]


@pytest.mark.parametrize("kind", BOMBS)
@pytest.mark.parametrize("codec", CODECS)
def test_readers_pass_over_what_is_too_large_and_say_so(
    open_broker: OpenBroker, codec: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await produce(broker, plain(b"before"))
            # Nobody looks into it: it stays opaque.
            bomb = BOMBS[kind](codec, UNPACKED_BYTES[kind])
            await produce(broker, bomb)
            last = await produce(broker, plain(b"after"))
            page = await BrokerService(broker).log.read_page(
                ANYONE, "t", 0, PageRequest(limit=100, max_bytes=MEGABYTE)
            )
            assert [each.value for each in page.records] == [b"before", b"after"]
            assert page.next_offset == last + 1
            assert [(part.first_offset, part.last_offset) for part in page.passed_over] == [
                (1, last - 1)
            ]
            assert "max.decompressed.message.bytes" in page.passed_over[0].reason
            # A Kafka consumer gets what was sent.
            [found] = await BrokerService(broker).log.fetch(
                ANYONE,
                [FetchPart("t", 0, 1, 20 * MEGABYTE)],
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=20 * MEGABYTE,
                isolation=Isolation.READ_UNCOMMITTED,
            )
            assert found.data[61 : len(bomb)] == bytes(bomb[61:])

    with caplog.at_level(logging.ERROR):
        scenario()
    assert "cannot be decoded and are passed over" in caplog.text


@pytest.mark.parametrize("kind", BOMBS)
def test_queue_readers_get_one_dead_letter_for_it(open_broker: OpenBroker, kind: str) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await produce(broker, plain(b"before"))
            await produce(broker, BOMBS[kind]("zstd", UNPACKED_BYTES[kind]))
            last = await produce(broker, plain(b"after"))
            found: list[Delivery] = []
            while len(found) < 2:
                found += await receive(broker, wait_ms=10_000)
            assert values(found) == [b"before", b"after"]
            assert await receive(broker) == []
            while "t.dlq" not in broker.image.topics:
                await asyncio.sleep(0.005)
            while not broker.partition("t.dlq", 0).high_watermark:
                await asyncio.sleep(0.005)
            page = await read_records(broker, "t.dlq", 0, 0, limit=10)
            [(value, headers)] = [(each.value, dict(each.headers)) for each in page.records]
            assert value is None
            assert headers["goqueue-dlq-reason"] == b"unreadable"
            assert headers["goqueue-dlq-offset"] == b"1"
            assert headers["goqueue-dlq-last-offset"] == b"%d" % (last - 1)
            assert b"max.decompressed.message.bytes" in (headers["goqueue-dlq-problem"] or b"")
            # There is nothing to send back.
            sent = await BrokerService(broker).queues.redrive(ANYONE, "t", limit=None)
            assert sent == Redriven(0, 1)
        async with open_broker() as broker:
            assert values(await receive(broker)) == [b"before", b"after"]

    scenario()


def test_a_dead_letter_that_is_too_large_for_its_topic_says_so(open_broker: OpenBroker) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, queue_max_deliveries="1")
            await produce(broker, plain(b"a", bytes(3 * MEGABYTE // 2), b"c", compression="zstd"))
            found = await receive(broker)
            assert len(found) == 3
            rejected = [Settlement(each.receipt, AckAction.REJECT) for each in found]
            await BrokerService(broker).queues.settle(ANYONE, "g", rejected)
            while "t.dlq" not in broker.image.topics:
                await asyncio.sleep(0.005)
            while broker.partition("t.dlq", 0).high_watermark < 3:
                await asyncio.sleep(0.005)
            page = await read_records(broker, "t.dlq", 0, 0, limit=10)
            assert [each.value for each in page.records] == [b"a", None, b"c"]
            problem = dict(page.records[1].headers)["goqueue-dlq-problem"]
            assert problem is not None
            assert b"max.message.bytes" in problem
            sent = await BrokerService(broker).queues.redrive(ANYONE, "t", limit=None)
            assert sent == Redriven(2, 1)

    scenario()


def test_dead_letters_that_do_not_fit_together_are_written_one_by_one(
    open_broker: OpenBroker,
) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            for letter in b"abcd":
                await produce(broker, plain(bytes([letter]) * (MEGABYTE // 2)))
            found = await receive(broker)
            rejected = [Settlement(each.receipt, AckAction.REJECT) for each in found]
            await BrokerService(broker).queues.settle(ANYONE, "g", rejected)
            while "t.dlq" not in broker.image.topics:
                await asyncio.sleep(0.005)
            while broker.partition("t.dlq", 0).high_watermark < 4:
                await asyncio.sleep(0.005)
            page = await read_records(broker, "t.dlq", 0, 0, limit=10, max_bytes=4 * MEGABYTE)
            assert [(each.value or b"")[:1] for each in page.records] == [b"a", b"b", b"c", b"d"]

    scenario()


def test_an_answer_ends_after_some_megabytes(open_broker: OpenBroker) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            for _ in range(6):
                await produce(broker, one_huge_record("zstd", 3 * MEGABYTE // 2))
            sizes: list[int] = []
            while sum(sizes) < 6:
                sizes.append(len(await receive(broker)))
            assert sizes == [3, 3]

    scenario()


def test_fifo_readers_pass_over_it_too(open_broker: OpenBroker) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await produce(broker, one_huge_record("zstd", 8 * MEGABYTE))
            await produce(broker, plain(b"after"))
            found: list[Delivery] = []
            while not found:
                found = await receive(broker, in_order=True, wait_ms=10_000)
            assert values(found) == [b"after"]

    scenario()


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"cleanup_policy": "compact"}, id="keys"),
        pytest.param({"compression_type": "lz4"}, id="recompression"),
        pytest.param({"queue_headers_in_compressed": "true"}, id="headers"),
        pytest.param({"schema_validation_value": "id"}, id="validation"),
    ],
)
@pytest.mark.parametrize("kind", BOMBS)
def test_where_it_is_decoded_anyway_it_is_refused(
    open_broker: OpenBroker, config: dict[str, str], kind: str
) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, **config)
            with pytest.raises(UnpackedTooLarge, match=r"max\.decompressed\.message\.bytes"):
                await produce(broker, BOMBS[kind]("zstd", UNPACKED_BYTES[kind]))
            assert broker.partition("t", 0).log_end_offset == 0

    scenario()


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"cleanup_policy": "compact"}, id="keys"),
        pytest.param({"compression_type": "lz4"}, id="recompression"),
        pytest.param({"queue_headers_in_compressed": "true"}, id="headers"),
    ],
)
def test_what_is_large_and_allowed_is_decoded_in_a_thread(
    open_broker: OpenBroker, config: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a step of the event loop may take; the order of appends stays."""
    works: list[object] = []
    in_thread = BatchDecoder.in_thread

    async def noted(self: BatchDecoder, work: Callable[..., Any], *bounds: Any) -> Any:
        works.append(work)
        return await in_thread(self, work, *bounds)

    monkeypatch.setattr(BatchDecoder, "in_thread", noted)

    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, **config)
            large = plain(*[bytes(15_000)] * 100, compression="zstd")
            offsets = await asyncio.gather(
                produce(broker, plain(b"a", compression="zstd")),
                produce(broker, large),
                produce(broker, plain(b"b", compression="zstd")),
            )
            assert list(offsets) == [0, 1, 101]
            assert works
            found = await read_records(broker, "t", 0, 0, limit=200, max_bytes=4 * MEGABYTE)
            assert [len(each.value or b"") for each in found.records] == [1, *[15_000] * 100, 1]

    scenario()


def test_what_is_too_large_under_the_topics_compression_is_refused(
    open_broker: OpenBroker,
) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, compression_type="uncompressed")
            with pytest.raises(RecordTooLarge, match=r"max\.message\.bytes is 1048588"):
                await produce(broker, one_huge_record("zstd", 3 * MEGABYTE // 2))

    scenario()


def test_a_batch_that_lies_moves_no_offset(open_broker: OpenBroker) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            lie = batch(b"twelve bytes", count=2**31 - 1)
            assert len(lie) == 73
            with pytest.raises(InvalidRecord, match="2147483647 records"):
                await produce(broker, lie)
            assert broker.partition("t", 0).high_watermark == 0
            count = 2_000_000_000 // 7
            larger = batch(bytes(100_000), count=count, codec=4)
            with pytest.raises(UnpackedTooLarge, match=f"{count * 7} bytes unpacked"):
                await produce(broker, larger)

    scenario()


def test_readers_go_on_behind_one_that_an_earlier_version_stored(open_broker: OpenBroker) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await produce(broker, plain(b"before"))
            broker.partition("t", 0).append_own(batch(b"twelve bytes", count=2**31 - 1))
            after = await produce(broker, plain(b"after"))
            assert after == 2**31
            for offset in (0, 1, 1_000_000_000):
                page = await read_records(broker, "t", 0, offset, limit=10)
                assert page.passed_over == [(1, 2**31 - 1, ANY)]
                # What follows is in a segment of its own.
                assert (page.records[-1].value, page.next_offset) == (b"after", after + 1)
            found: list[Delivery] = []
            while len(found) < 2:
                found += await receive(broker, wait_ms=10_000)
            assert values(found) == [b"before", b"after"]
        async with open_broker() as broker:
            assert values(await receive(broker)) == [b"before", b"after"]

    scenario()


def test_offsets_inside_a_batch_are_not_believed(open_broker: OpenBroker) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await produce(broker, batch(record(b"x", delta=10**6) + record(b"y"), count=2))
            await produce(broker, plain(b"after"))
            page = await read_records(broker, "t", 0, 0, limit=10)
            assert [each.value for each in page.records] == [b"after"]
            assert page.passed_over == [(0, 1, ANY)]
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(
                ANYONE, NewTopic(name="c", partitions=1, config={"cleanup.policy": "compact"})
            )
            lie = batch(record(b"x", key=b"k", delta=10**6), count=1)
            with pytest.raises(CorruptBatch):
                await BrokerService(broker).log.produce(
                    ANYONE, "c", 0, lie, acks=-1, timeout_ms=5_000
                )

    scenario()


def test_a_time_is_found_in_front_of_it_and_behind_it(open_broker: OpenBroker) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await produce(broker, one_huge_record("zstd", 8 * MEGABYTE))
            listed = await broker.partition("t", 0).list_offset(
                1_600_000_000_000, isolation=Isolation.READ_UNCOMMITTED
            )
            # The batch as a whole; its records are not looked at.
            assert (listed.offset, listed.timestamp_ms) == (0, 1_700_000_000_000)

    scenario()


def test_a_restart_looks_for_priorities_around_it(
    open_broker: OpenBroker, caplog: pytest.LogCaptureFixture
) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await produce(broker, one_huge_record("zstd", 8 * MEGABYTE))
            partition = broker.partition("t", 0)
            partition.append_own(batch(b"twelve bytes", count=5))
            await BrokerService(broker).administration.alter_config(
                ANYONE,
                ConfigResource(ConfigResourceKind.TOPIC, "t"),
                [ConfigChange(name="queue.headers.in.compressed", value="true")],
            )
            partition.lanes.close = lambda: None  # type: ignore[method-assign]  # as if killed
        async with open_broker() as broker:
            assert await produce(broker, plain(b"after")) == 6

    with caplog.at_level(logging.WARNING):
        scenario()
    assert "no priorities of offsets 0 to 0" in caplog.text


def test_millions_of_tiny_records_are_refused_by_their_count(open_broker: OpenBroker) -> None:
    @in_loop
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            bomb = many_tiny_records("zstd", 400_000)
            assert read_header(bomb).record_count == 400_000
            with pytest.raises(UnpackedTooLarge, match="400000 records"):
                await produce(broker, bomb)

    scenario()


_HALF_A_GIGABYTE = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
from tests.unit.broker import test_bombs as bombs

async def main():
    node = await bombs.Node.open(bombs.broker_config({"data.dir": sys.argv[1]}))
    await node.announce("127.0.0.1", 9092, 8080)
    await bombs.survive(node)
    await node.close()

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
asyncio.run(main())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


async def survive(node: Node) -> None:
    """Half a gigabyte in 16 KB, read in every way with default settings."""
    service = BrokerService(node)
    await service.topics.create(ANYONE, NewTopic(name="t", partitions=1))
    await produce(node, plain(b"before"))
    for _ in range(3):
        bomb = one_huge_record("zstd", 512 * MEGABYTE)
        assert len(bomb) < 64 * 1024
        await produce(node, bomb)
    await produce(node, plain(b"after"))
    page = await read_records(node, "t", 0, 0, limit=10)
    assert [each.value for each in page.records] == [b"before", b"after"]
    assert len(page.passed_over) == 3
    found: list[Delivery] = []
    while len(found) < 2:
        found += await receive(node, wait_ms=10_000)
    assert values(found) == [b"before", b"after"]
    await node.partition("t", 0).list_offset(1, isolation=Isolation.READ_UNCOMMITTED)


def test_half_a_gigabyte_in_a_few_kilobytes_takes_little_memory(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    path = os.pathsep.join((str(root), str(root / "src")))
    ended = subprocess.run(
        [sys.executable, "-c", _HALF_A_GIGABYTE, str(tmp_path / "data")],
        env={**os.environ, "PYTHONPATH": path},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    taken_kb = int(ended.stdout.split()[-1])
    assert taken_kb < 300 * 1024
