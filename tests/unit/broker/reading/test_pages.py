"""Pages of single records: what a page costs, and when it comes."""

import asyncio

from goqueue.broker.node import Node
from goqueue.broker.partitions.admission import append_now
from goqueue.model.control import Marker, MarkerType
from goqueue.model.log import PageRequest, RecordPage
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker

MEGABYTE = 1024 * 1024


async def make_topic(broker: Node) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=1))


async def read(broker: Node, **wanted: int) -> RecordPage:
    request = PageRequest(**{"offset": 0, "limit": 100, "max_bytes": 4 * MEGABYTE, **wanted})
    return await BrokerService(broker).log.read_page(ANYONE, "t", 0, request)


def append(broker: Node, value: bytes, producer: int = -1, sequence: int = -1) -> None:
    is_transactional = producer >= 0
    batch = encode_records(
        [NewRecord(value=value, timestamp_ms=1)],
        now_ms=1,
        is_transactional=is_transactional,
        producer_id=producer,
        producer_epoch=0 if is_transactional else -1,
        base_sequence=sequence,
    )
    append_now(broker.partition("t", 0), batch)


def end(broker: Node, kind: MarkerType) -> None:
    broker.partition("t", 0).append_marker(
        Marker(kind, 0), producer_id=1, producer_epoch=0, bumps_epoch=False
    )


def test_a_page_of_one_message_reads_little_of_a_log_of_small_batches(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            for count in range(2_000):
                append(broker, b"%d" % count)
            counts = broker.partition("t", 0).counts
            [record] = (await read(broker, limit=1)).records
            assert (record.value, counts.bytes_out <= 2048) == (b"0", True)
            page = await read(broker, limit=1_500)
            assert (len(page.records), page.next_offset) == (1_500, 1_500)

    asyncio.run(scenario())


def test_a_page_goes_on_behind_what_was_aborted(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            for count in range(100):
                append(broker, bytes(1000), producer=1, sequence=count)
            end(broker, MarkerType.ABORT)
            # There was something to read, but nothing of it was a message.
            waiting = asyncio.create_task(read(broker, limit=1, max_wait_ms=60_000))
            partition = broker.partition("t", 0)
            while not partition.waiters:
                await asyncio.sleep(0)
            append(broker, b"after")
            page = await waiting
            assert [record.value for record in page.records] == [b"after"]
            assert (await read(broker, limit=1)).records == page.records

    asyncio.run(scenario())


def test_what_comes_during_a_wait_and_is_too_late_is_not_in_the_page(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            waiting = asyncio.create_task(read(broker, until_ms=1, max_wait_ms=60_000))
            partition = broker.partition("t", 0)
            while not partition.waiters:
                await asyncio.sleep(0)
            append(broker, b"late")
            page = await waiting
            assert (page.records, page.next_offset, page.until_offset) == ([], 0, 0)

    asyncio.run(scenario())
