"""Produce, fetch, list offsets and delete records through the broker service."""

import asyncio
import errno

import pytest

from goqueue.broker.node import Node
from goqueue.broker.partitions.admission import append_now
from goqueue.model.batch import check_batch, iterate_batches
from goqueue.model.batch_editing import covering
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import (
    CorruptBatch,
    FencedLeaderEpoch,
    GoQueueError,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTimestamp,
    NotLeader,
    OffsetOutOfRange,
    OutOfOrderSequence,
    PartitionOffline,
    RecordTooLarge,
    UnknownLeaderEpoch,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.model.log import FetchedPart, FetchPart, Isolation
from goqueue.model.names import NodeId
from goqueue.model.records import COMPRESSION_CODES, NewRecord, decode_records, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.storage.disk import Disk
from tests.callers import ANYONE
from tests.publishing import publish
from tests.unit.broker.conftest import OpenBroker

DAY_MS = 86_400_000


def batch(*values: bytes, key: bytes | None = b"k", **options: int) -> bytearray:
    records = [NewRecord(key=key, value=value) for value in values]
    return encode_records(records, now_ms=1_700_000_000_000, **options)  # type: ignore[arg-type]


async def produce(broker: Node, records: bytes | bytearray, acks: int = -1) -> int:
    produced = await BrokerService(broker).log.produce(
        ANYONE, "t", 0, records, acks=acks, timeout_ms=5_000
    )
    return produced.base_offset


async def fetch(
    broker: Node,
    offset: int,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    leader_epoch: int = -1,
) -> FetchedPart:
    part = FetchPart("t", 0, offset, 1_000_000, leader_epoch)
    [found] = await BrokerService(broker).log.fetch(
        ANYONE,
        [part],
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1_000_000,
        isolation=isolation,
    )
    return found


def values(part: FetchedPart) -> list[bytes | None]:
    assert part.error is None
    return [
        record.value
        for position, header in iterate_batches(part.data)
        if not header.is_control
        for record in decode_records(part.data[position : position + header.size_bytes])
    ]


@pytest.mark.parametrize("policy", ["always", "interval", "never"])
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_what_is_produced_is_fetched_under_every_policy(
    open_broker: OpenBroker, policy: str, acks: int
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            config = {"fsync.policy": policy}
            await BrokerService(broker).topics.create(
                ANYONE, NewTopic(name="t", partitions=1, config=config)
            )
            offsets = [await produce(broker, batch(b"a", b"b"), acks) for _ in range(3)]
            assert offsets == [0, 2, 4]
            found = await fetch(broker, 0, max_wait_ms=5_000, min_bytes=3 * len(batch(b"a", b"b")))
            assert values(found) == [b"a", b"b"] * 3
        async with open_broker() as broker:
            assert values(await fetch(broker, 2)) == [b"a", b"b"] * 2

    asyncio.run(scenario())


def test_pipelined_appends_share_a_commit_and_keep_their_order(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            config = {"fsync.policy": "always"}
            await BrokerService(broker).topics.create(
                ANYONE, NewTopic(name="t", partitions=1, config=config)
            )
            offsets = await asyncio.gather(*(produce(broker, batch(b"x")) for _ in range(200)))
            assert offsets == list(range(200))
            partition = broker.partition("t", 0)
            assert partition.high_watermark == partition.log.flushed_offset == 200

    asyncio.run(scenario())


def test_a_waiting_fetch_is_woken_by_an_append(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=1))
            loop = asyncio.get_running_loop()
            started = loop.time()
            waiting = asyncio.create_task(fetch(broker, 0, max_wait_ms=30_000))
            while not broker.partition("t", 0).waiters:
                await asyncio.sleep(0)
            await produce(broker, batch(b"now"))
            assert values(await waiting) == [b"now"]
            assert loop.time() - started < 25
            assert not broker.partition("t", 0).waiters

    asyncio.run(scenario())


def test_a_waiting_fetch_holds_out_for_its_minimum_of_bytes(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=1))
            size = len(batch(b"x"))
            waiting = asyncio.create_task(fetch(broker, 0, max_wait_ms=30_000, min_bytes=3 * size))
            for count in range(3):
                while not broker.partition("t", 0).waiters:
                    await asyncio.sleep(0)
                assert not waiting.done()
                await produce(broker, batch(b"%d" % count))
            assert values(await waiting) == [b"0", b"1", b"2"]

    asyncio.run(scenario())


def test_a_fetch_answers_at_its_time_out_with_what_there_is(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=1))
            await produce(broker, batch(b"x"))
            found = await fetch(broker, 0, max_wait_ms=30, min_bytes=10_000)
            assert values(found) == [b"x"]

    asyncio.run(scenario())


def test_deleting_the_topic_ends_a_waiting_fetch(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=1))
            waiting = asyncio.create_task(fetch(broker, 0, max_wait_ms=30_000))
            while not broker.partition("t", 0).waiters:
                await asyncio.sleep(0)
            await BrokerService(broker).topics.delete(ANYONE, "t")
            found = await asyncio.wait_for(waiting, 25)
            assert isinstance(found.error, GoQueueError)

    asyncio.run(scenario())


def test_the_first_batch_is_sent_though_larger_than_the_limits(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=2))
            for index in range(2):
                large = batch(b"x" * 50_000)
                await BrokerService(broker).log.produce(
                    ANYONE, "t", index, large, acks=1, timeout_ms=1_000
                )
            parts = await BrokerService(broker).log.fetch(
                ANYONE,
                [FetchPart("t", 0, 0, 100), FetchPart("t", 1, 0, 100)],
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=100,
                isolation=Isolation.READ_UNCOMMITTED,
            )
            assert [len(part.data) > 50_000 for part in parts] == [True, False]

    asyncio.run(scenario())


def damaged(change: slice, replacement: bytes) -> bytes:
    data = batch(b"x")
    data[change] = replacement
    return bytes(data)


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (b"", InvalidRecord),
        (b"\x00" * 10, CorruptBatch),
        (damaged(slice(-1, None), b"\x7f"), CorruptBatch),
        (damaged(slice(8, 12), b"\x7f\xff\xff\xff"), CorruptBatch),
        (damaged(slice(8, 12), b"\xff\xff\xff\xff"), CorruptBatch),
        (damaged(slice(16, 17), b"\x01"), InvalidRecord),
        (damaged(slice(16, 17), b"\x00"), InvalidRecord),
        (bytes(batch(b"x")) + b"rest", CorruptBatch),
        (bytes(batch(b"x" * 2_000_000)), RecordTooLarge),
    ],
)
def test_bad_batches_are_refused_and_leave_nothing(
    open_broker: OpenBroker, records: bytes, error: type[Exception]
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=1))
            with pytest.raises(error):
                await produce(broker, records)
            assert broker.partition("t", 0).log_end_offset == 0
            assert await produce(broker, batch(b"fine")) == 0

    asyncio.run(scenario())


def test_timestamps_out_of_the_topics_bounds_are_refused(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            config = {"message.timestamp.before.max.ms": str(DAY_MS)}
            await BrokerService(broker).topics.create(
                ANYONE, NewTopic(name="t", partitions=1, config=config)
            )
            with pytest.raises(InvalidTimestamp, match="past"):
                await produce(broker, batch(b"x"))
            future = encode_records([NewRecord(value=b"x")], now_ms=broker.clock_ms() + DAY_MS)
            with pytest.raises(InvalidTimestamp, match="future"):
                await produce(broker, future)

    asyncio.run(scenario())


def test_append_time_and_compression_are_the_topics(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            config = {"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"}
            await BrokerService(broker).topics.create(
                ANYONE, NewTopic(name="t", partitions=1, config=config)
            )
            before_ms = broker.clock_ms()
            produced = await BrokerService(broker).log.produce(
                ANYONE, "t", 0, batch(b"x"), acks=1, timeout_ms=1_000
            )
            found = await fetch(broker, 0)
            header = check_batch(found.data)
            [record] = decode_records(found.data)
            assert header.compression == COMPRESSION_CODES["zstd"]
            assert record.value == b"x"
            assert record.timestamp_ms == produced.append_time_ms >= before_ms

    asyncio.run(scenario())


def test_a_compacted_topic_wants_keys(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            config = {"cleanup.policy": "compact"}
            await BrokerService(broker).topics.create(
                ANYONE, NewTopic(name="t", partitions=1, config=config)
            )
            with pytest.raises(InvalidRecord, match="without a key"):
                await produce(broker, batch(b"x", key=None))
            assert await produce(broker, batch(b"x")) == 0

    asyncio.run(scenario())


def test_unknown_places_and_epochs_are_named(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=1))
            with pytest.raises(UnknownTopic):
                broker.partition("nope", 0)
            for index in (-1, 1):
                with pytest.raises(UnknownPartition):
                    broker.partition("t", index)
            with pytest.raises(InvalidRequiredAcks):
                await produce(broker, batch(b"x"), acks=2)
            assert isinstance((await fetch(broker, 1)).error, OffsetOutOfRange)
            assert isinstance((await fetch(broker, -1)).error, OffsetOutOfRange)
            stale = await fetch(broker, 0, leader_epoch=7)
            assert isinstance(stale.error, UnknownLeaderEpoch)
            broker.partition("t", 0).leader_epoch = 3
            fenced = await fetch(broker, 0, leader_epoch=2)
            assert isinstance(fenced.error, FencedLeaderEpoch)

    asyncio.run(scenario())


def test_offsets_are_listed_and_records_deleted(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=1))
            for second in (1, 3, 2):
                record = NewRecord(value=b"x", timestamp_ms=second * 1000)
                await publish(broker, "t", [record])

            async def listed(timestamp: int) -> tuple[int, int]:
                found = await BrokerService(broker).log.list_offset(ANYONE, "t", 0, timestamp)
                return found.offset, found.timestamp_ms

            assert await listed(-1) == (3, -1)
            assert await listed(-2) == (0, -1)
            assert await listed(-3) == (1, 3000)
            assert await listed(1500) == (1, 3000)
            assert await listed(3001) == (-1, -1)
            log = BrokerService(broker).log
            assert await log.delete_records(ANYONE, "t", 0, 2) == 2
            assert await listed(-2) == (2, -1)
            assert isinstance((await fetch(broker, 1)).error, OffsetOutOfRange)
            with pytest.raises(OffsetOutOfRange):
                await log.delete_records(ANYONE, "t", 0, 4)
            assert await log.delete_records(ANYONE, "t", 0, -1) == 3
        async with open_broker() as broker:
            assert broker.partition("t", 0).log_start_offset == 3

    asyncio.run(scenario())


def test_idempotent_batches_are_stored_once_also_over_a_restart(open_broker: OpenBroker) -> None:
    def numbered(sequence: int, epoch: int = 0) -> bytearray:
        return batch(b"x", producer_id=7, producer_epoch=epoch, base_sequence=sequence)

    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=1))
            assert [await produce(broker, numbered(n)) for n in (0, 1, 1, 0, 2)] == [0, 1, 1, 0, 2]
            with pytest.raises(OutOfOrderSequence):
                await produce(broker, numbered(5))
        async with open_broker() as broker:
            assert [await produce(broker, numbered(n)) for n in (2, 3)] == [2, 3]
            assert await produce(broker, numbered(0, epoch=1)) == 4
            with pytest.raises(InvalidProducerEpoch):
                await produce(broker, numbered(4))
            assert broker.partition("t", 0).log_end_offset == 5

    asyncio.run(scenario())


def test_batches_on_their_way_behind_one_that_found_a_full_disk_keep_their_order(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second was out of order, and what the client then sent again stood there twice."""
    is_full = False
    pwrite = Disk.pwrite

    def full_pwrite(disk: Disk, fd: int, data: bytes, position: int) -> int:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(disk, fd, data, position)

    monkeypatch.setattr(Disk, "pwrite", full_pwrite)

    def numbered(sequence: int) -> bytearray:
        return batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence)

    async def scenario() -> None:
        nonlocal is_full
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=1))
            assert await produce(broker, numbered(0)) == 0
            is_full = True
            for sequence in (1, 2):
                with pytest.raises(PartitionOffline, match="No space left"):
                    await produce(broker, numbered(sequence))
            is_full = False
            with pytest.raises(PartitionOffline, match="sequence 3 behind 1"):
                await produce(broker, numbered(3))
            assert [await produce(broker, numbered(n)) for n in (1, 2, 3)] == [1, 2, 3]

    asyncio.run(scenario())


def test_readers_of_committed_data_wait_for_the_outcome(open_broker: OpenBroker) -> None:
    def transactional(producer_id: int, sequence: int, value: bytes) -> bytearray:
        return batch(
            value,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )

    def end(broker: Node, producer_id: int, outcome: MarkerType) -> None:
        broker.partition("t", 0).append_marker(
            Marker(outcome, 0), producer_id=producer_id, producer_epoch=0, bumps_epoch=False
        )

    async def committed(broker: Node) -> tuple[list[bytes | None], list[int]]:
        found = await fetch(broker, 0, isolation=Isolation.READ_COMMITTED)
        assert found.aborted is not None
        return values(found), [aborted.producer_id for aborted in found.aborted]

    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=1))
            await produce(broker, batch(b"plain"))
            with pytest.raises(InvalidRecord, match="without a transactional id"):
                await produce(broker, transactional(1, 0, b"one"))
            append_now(broker.partition("t", 0), transactional(1, 0, b"one"))
            append_now(broker.partition("t", 0), transactional(2, 0, b"two"))
            assert await committed(broker) == ([b"plain"], [])
            end(broker, 2, MarkerType.ABORT)
            assert broker.partition("t", 0).last_stable_offset == 1
        async with open_broker() as broker:
            assert await committed(broker) == ([b"plain"], [])
            end(broker, 1, MarkerType.COMMIT)
            assert await committed(broker) == ([b"plain", b"one", b"two"], [2])
        async with open_broker() as broker:
            assert await committed(broker) == ([b"plain", b"one", b"two"], [2])
            assert broker.partition("t", 0).last_stable_offset == 5

    asyncio.run(scenario())


def test_a_copy_that_another_broker_leads_is_kept_but_never_answers(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=1))
            await produce(broker, batch(b"x"))
            led = broker.partition("t", 0)
            copy = led.hosted
            await copy.follow(NodeId(7), 1, 1)
            with pytest.raises(NotLeader):
                await produce(broker, batch(b"y"))
            assert isinstance((await fetch(broker, 0)).error, NotLeader)
            with pytest.raises(NotLeader, match="led by broker 7"):
                led.append_own(encode_records([NewRecord(value=b"z")], now_ms=0))
            assert broker.hosted.get("t", 0) is copy
            assert copy.log_end_offset == 1

    asyncio.run(scenario())


async def make_emptied(broker: Node, *, rows: int, empty: int) -> None:
    """As compaction of large batches left it: rows of segments without records, a message each."""
    await BrokerService(broker).topics.create(
        ANYONE, NewTopic(name="t", partitions=1, config={"segment.bytes": "100"})
    )
    partition = broker.partition("t", 0)
    for number in range(rows):
        for _ in range(empty):
            partition.append_own(bytearray(covering(0, 5, -1)))
        partition.append_own(batch(b"message %d" % number))


@pytest.mark.parametrize("empty", [1, 20, 40])
def test_a_fetch_passes_over_batches_without_records(open_broker: OpenBroker, empty: int) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_emptied(broker, rows=2, empty=empty)
            second = 2 * 5 * empty + 1
            offset, found = 0, []
            while offset < broker.partition("t", 0).log_end_offset:
                part = await fetch(broker, offset)
                found += values(part)
                # Only so many at a time, and then the reader has moved on.
                assert part.next_offset > offset
                assert found or empty > 32
                offset = part.next_offset
            assert found == [b"message 0", b"message 1"]
            assert (await fetch(broker, second)).next_offset == second + 1
            assert values(await fetch(broker, second - 3)) in ([b"message 1"], [])

    asyncio.run(scenario())


def test_a_log_that_ends_without_records_can_be_read_to_its_end(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_emptied(broker, rows=1, empty=1)
            for _ in range(3):
                broker.partition("t", 0).append_own(bytearray(covering(0, 5, -1)))
            part = await fetch(broker, 6)
            assert (values(part), part.next_offset) == ([], 21)

    asyncio.run(scenario())
