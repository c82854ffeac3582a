"""Fetches of a session look at what changed, and miss nothing of it."""

import asyncio
import random
from collections.abc import Hashable
from dataclasses import replace

import pytest

from goqueue.broker.node import Node
from goqueue.broker.partitions.admission import append_now
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.ready_list import ReadyList
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import OffsetOutOfRange, UnknownTopic, UnknownTopicId
from goqueue.model.log import FetchedPart, FetchPart, Isolation
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker

PARTITIONS = 8
LONG_MS = 60_000


def batch(size: int = 1, **options: bool | int) -> bytearray:
    return encode_records([NewRecord(value=b"x" * size)], now_ms=1, **options)  # type: ignore[arg-type]


class Reader:
    """A client that fetches from all partitions of a topic in one session."""

    def __init__(self, broker: Node, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> None:
        self._log = BrokerService(broker).log
        self._isolation = isolation
        self.ready = ReadyList()
        self.parts: dict[Hashable, FetchPart] = {}
        for index in range(PARTITIONS):
            self.want(FetchPart("t", index, 0, 1_000_000))

    def want(self, part: FetchPart) -> None:
        self.parts[part.index] = part
        self.ready.add(part.index)

    async def fetch(
        self, *, max_wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 1_000_000
    ) -> dict[Hashable, FetchedPart]:
        return await self._log.fetch_ready(
            ANYONE,
            self.ready,
            self.parts,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation=self._isolation,
            looks_at_all=False,
        )

    def go_on(self, found: dict[Hashable, FetchedPart]) -> None:
        """Ask for what follows on what came."""
        for key, part in found.items():
            if part.data:
                self.want(replace(self.parts[key], offset=part.next_offset))


async def made(broker: Node) -> list[Partition]:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=PARTITIONS))
    return [broker.partition("t", index) for index in range(PARTITIONS)]


async def until_waiting(partition: Partition) -> None:
    while not partition.waiters:
        await asyncio.sleep(0)


def test_a_fetch_looks_at_what_changed(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            partitions = await made(broker)
            reader = Reader(broker)
            assert len(await reader.fetch()) == PARTITIONS
            assert await reader.fetch() == {}
            append_now(partitions[3], batch())
            found = await reader.fetch()
            assert list(found) == [3]
            # Until the client goes on, the same is there for it.
            assert list(await reader.fetch()) == [3]
            reader.go_on(found)
            assert list(await reader.fetch()) == [3]
            assert await reader.fetch() == {}

    asyncio.run(scenario())


def test_who_got_something_comes_last_and_who_was_left_out_first(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            for partition in await made(broker):
                for _ in range(3):
                    append_now(partition, batch(1_000))
            reader = Reader(broker)
            for part in list(reader.parts.values()):
                reader.want(replace(part, max_bytes=1_200))
            served: list[Hashable] = []
            for _ in range(12):
                found = await reader.fetch(max_bytes=2_500)
                reader.go_on(found)
                served += [key for key, part in found.items() if part.data]
            assert served == [*range(PARTITIONS)] * 3
            assert not any(part.data for part in (await reader.fetch()).values())

    asyncio.run(scenario())


def test_a_fetch_that_waits_counts_the_bytes_of_all(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            partitions = await made(broker)
            reader = Reader(broker)
            size = len(batch())
            waiting = asyncio.create_task(reader.fetch(max_wait_ms=LONG_MS, min_bytes=4 * size))
            for index in (1, 1, 2):
                await until_waiting(partitions[1])
                append_now(partitions[index], batch())
                assert not waiting.done()
            append_now(partitions[2], batch())
            found = await waiting
            assert {key: len(part.data) for key, part in found.items() if part.data} == {
                1: 2 * size,
                2: 2 * size,
            }

    asyncio.run(scenario())


def test_read_committed_readers_hear_of_the_end_of_a_transaction(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            partitions = await made(broker)
            reader = Reader(broker, Isolation.READ_COMMITTED)
            options = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
            append_now(partitions[5], batch(is_transactional=True, **options))
            found = await reader.fetch()
            assert found[5].data == b""
            assert (found[5].high_watermark, found[5].last_stable_offset) == (1, 0)
            assert await reader.fetch() == {}
            waiting = asyncio.create_task(reader.fetch(max_wait_ms=LONG_MS))
            await until_waiting(partitions[5])
            marker = Marker(MarkerType.COMMIT, coordinator_epoch=0)
            partitions[5].append_marker(marker, producer_id=9, producer_epoch=0, bumps_epoch=False)
            found = await waiting
            assert found[5].data
            assert found[5].last_stable_offset == 2

    asyncio.run(scenario())


def test_a_reader_hears_where_the_log_starts_now(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            partitions = await made(broker)
            append_now(partitions[0], batch())
            reader = Reader(broker)
            reader.go_on(await reader.fetch())
            await reader.fetch()
            assert await reader.fetch() == {}
            await partitions[0].delete_records(1)
            assert (await reader.fetch())[0].log_start_offset == 1
            reader.want(replace(reader.parts[0], offset=0))
            assert isinstance((await reader.fetch())[0].error, OffsetOutOfRange)
            # As long as nothing is done about it.
            assert isinstance((await reader.fetch())[0].error, OffsetOutOfRange)

    asyncio.run(scenario())


def test_a_deleted_topic_ends_the_wait_and_another_of_its_name_is_not_meant(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            partitions = await made(broker)
            reader = Reader(broker)
            for part in list(reader.parts.values()):
                reader.want(replace(part, topic_id=partitions[0].log.topic_id))
            waiting = asyncio.create_task(reader.fetch(max_wait_ms=LONG_MS))
            await until_waiting(partitions[PARTITIONS - 1])
            await BrokerService(broker).topics.delete(ANYONE, "t")
            assert isinstance((await waiting)[0].error, UnknownTopic)
            await made(broker)
            found = await reader.fetch()
            assert len(found) == PARTITIONS
            assert all(isinstance(part.error, UnknownTopicId) for part in found.values())

    asyncio.run(scenario())


def test_what_is_forgotten_is_not_watched(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            partitions = await made(broker)
            reader = Reader(broker)
            await reader.fetch()
            assert all(len(partition.waiters) == 1 for partition in partitions)
            reader.parts.pop(2)
            reader.ready.forget(2)
            assert not partitions[2].waiters
            append_now(partitions[2], batch())
            waiting = asyncio.create_task(reader.fetch(max_wait_ms=LONG_MS))
            await asyncio.sleep(0)
            reader.ready.close()
            # A session that had to make room does not keep its last fetch waiting.
            assert await waiting == {}
            assert not any(partition.waiters for partition in partitions)

    asyncio.run(scenario())


def test_a_fetch_that_is_cut_off_loses_nothing(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            partitions = await made(broker)
            reader = Reader(broker)
            waiting = asyncio.create_task(reader.fetch(max_wait_ms=LONG_MS, min_bytes=100_000))
            await until_waiting(partitions[PARTITIONS - 1])
            append_now(partitions[1], batch())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert list(await reader.fetch()) == [1]

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(6))
def test_what_a_reader_was_told_is_what_there_is(open_broker: OpenBroker, seed: int) -> None:
    """Whatever happens between its fetches, and however little fits into an answer."""
    choose = random.Random(seed)

    async def scenario() -> None:
        async with open_broker() as broker:
            partitions = await made(broker)
            reader = Reader(broker)
            told: dict[Hashable, tuple[int, int]] = {}

            async def fetch(max_bytes: int) -> dict[Hashable, FetchedPart]:
                found = await reader.fetch(max_bytes=max_bytes)
                for key, part in found.items():
                    told[key] = (part.high_watermark, part.log_start_offset)
                    if part.error is not None:
                        reader.want(replace(reader.parts[key], offset=part.log_start_offset))
                return found

            for _ in range(60):
                for _ in range(choose.randrange(4)):
                    partition = choose.choice(partitions)
                    if choose.random() < 0.8:
                        append_now(partition, batch(choose.choice((1, 300))))
                    elif partition.high_watermark:
                        await partition.delete_records(-1)
                found = await fetch(choose.choice((1, 500, 1_000_000)))
                if choose.random() < 0.8:
                    reader.go_on(found)
            while len(reader.ready):
                reader.go_on(await fetch(1_000))
            for index, partition in enumerate(partitions):
                assert told[index] == (partition.high_watermark, partition.log_start_offset)
                assert reader.parts[index].offset == partition.high_watermark

    asyncio.run(scenario())
