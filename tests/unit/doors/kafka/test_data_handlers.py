"""Records over the wire: Produce, Fetch, ListOffsets, DeleteRecords and their like."""

import asyncio
import struct
from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.records import NewRecord, decode_records, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.busy_machine import stretched
from tests.callers import ANYONE
from tests.hostile_batches import batch as hostile_batch
from tests.hostile_batches import one_huge_record
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def topic_id(broker: Node) -> UUID:
    created = await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=2))
    return created.topic.id


def batch(*values: bytes, timestamp_ms: int | None = None, compression: int = 0) -> bytes:
    records = [NewRecord(value=value, timestamp_ms=timestamp_ms) for value in values]
    return bytes(encode_records(records, now_ms=1_000, compression=compression))


def values(data: bytes) -> list[bytes | None]:
    found: list[bytes | None] = []
    while data:
        size = struct.unpack_from(">i", data, 8)[0] + 12
        found += [record.value for record in decode_records(data[:size])]
        data = data[size:]
    return found


async def produce(client: WireClient, records: bytes | None, version: int = 12, **more: Any) -> Any:
    fields = {"acks": -1, "timeout": 1000, **more}
    index = fields.pop("index", 0)
    topic = fields.pop("topic", {"name": "a"})
    answer = await client.call(
        "produce",
        version,
        topic_data=[{**topic, "partition_data": [{"index": index, "records": records}]}],
        **fields,
    )
    return answer.responses[0].partition_responses[0]


def fetch_part(offset: int, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1_000_000, **more}


async def fetch(client: WireClient, *parts: dict[str, Any], version: int = 12, **more: Any) -> Any:
    fields = {"min_bytes": 0, "max_wait": 0, "max_bytes": 50_000_000, **more}
    topic = fields.pop("topic", {"topic": "a"})
    topics = [{**topic, "partitions": parts}] if parts else []
    return await client.call("fetch", version, topics=topics, **fields)


async def fetched(client: WireClient, offset: int, **more: Any) -> Any:
    answer = await fetch(client, fetch_part(offset), **more)
    return answer.responses[0].partitions[0]


# --- Produce ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 14))
async def test_records_are_appended_in_every_version(
    client: WireClient, topic_id: UUID, version: int
) -> None:
    topic = {"topic_id": topic_id} if version >= 13 else {"name": "a"}
    first = await produce(client, batch(b"1", b"2"), version, topic=topic)
    second = await produce(client, batch(b"3"), version, topic=topic)
    assert (first.error_code, first.base_offset) == (ErrorCode.none, 0)
    assert (second.error_code, second.base_offset) == (ErrorCode.none, 2)
    assert values((await fetched(client, 0)).records) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("compression", range(5))
async def test_every_compression_comes_back_as_it_was_sent(
    client: WireClient, compression: int
) -> None:
    sent = batch(b"v" * 100, compression=compression)
    assert (await produce(client, sent)).error_code is ErrorCode.none
    assert (await fetched(client, 0)).records[61:] == sent[61:]


def _with(position: int, byte: int) -> bytes:
    data = bytearray(batch(b"v"))
    data[position] = byte
    return bytes(data)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (_with(-1, 0xFF), ErrorCode.corrupt_message),
        (_with(17, 0xFF), ErrorCode.corrupt_message),
        (_with(8, 0xFF), ErrorCode.corrupt_message),
        (_with(16, 9), ErrorCode.corrupt_message),
        (_with(16, 0), ErrorCode.invalid_record),
        (_with(16, 1), ErrorCode.invalid_record),
        (batch(b"1") + batch(b"2"), ErrorCode.invalid_record),
        (batch(b"1")[:-1], ErrorCode.invalid_record),
        (b"", ErrorCode.invalid_record),
        (None, ErrorCode.invalid_record),
        (batch(b"x" * 2_000_000), ErrorCode.message_too_large),
        (batch(b"1", timestamp_ms=2**61), ErrorCode.invalid_timestamp),
        (bytes(hostile_batch(b"twelve bytes", count=2**31 - 1)), ErrorCode.invalid_record),
        (bytes(hostile_batch(bytes(20_000), count=2**26, codec=4)), ErrorCode.message_too_large),
    ],
)
async def test_bad_records_are_refused_by_their_code(
    client: WireClient, broker: Node, records: bytes | None, code: ErrorCode
) -> None:
    refused = await produce(client, records)
    assert (refused.error_code, refused.base_offset) == (code, -1)
    assert refused.error_message
    assert broker.partition("a", 0).log_end_offset == 0


async def test_a_batch_that_unpacks_to_too_much_is_too_large(
    client: WireClient, broker: Node
) -> None:
    """Java's producer then splits the batch."""
    await BrokerService(broker).topics.create(
        ANYONE, NewTopic(name="c", config={"cleanup.policy": "compact"})
    )
    bomb = bytes(one_huge_record("zstd", 64 * 1024 * 1024))
    refused = await produce(client, bomb, topic={"name": "c"})
    assert refused.error_code is ErrorCode.message_too_large
    assert "max.decompressed.message.bytes" in refused.error_message


async def test_the_records_at_fault_are_named(client: WireClient, broker: Node) -> None:
    await BrokerService(broker).topics.create(
        ANYONE, NewTopic(name="c", config={"cleanup.policy": "compact"})
    )
    refused = await produce(client, batch(b"1", b"2"), topic={"name": "c"})
    assert refused.error_code is ErrorCode.invalid_record
    assert [error.batch_index for error in refused.record_errors] == [0, 1]


async def test_zstd_is_refused_before_version_7(client: WireClient) -> None:
    refused = await produce(client, batch(b"v", compression=4), 6)
    assert refused.error_code is ErrorCode.unsupported_compression_type


async def test_unknown_places_are_refused(client: WireClient) -> None:
    data = batch(b"v")
    missing = await produce(client, data, topic={"name": "z"})
    assert missing.error_code is ErrorCode.unknown_topic_or_partition
    for index in (2, -1, 2**31 - 1):
        refused = await produce(client, data, index=index)
        assert refused.error_code is ErrorCode.unknown_topic_or_partition
    for topic_id in (uuid4(), None):
        refused = await produce(client, data, 13, topic={"topic_id": topic_id})
        assert refused.error_code is ErrorCode.unknown_topic_id


async def test_acks_must_be_known(client: WireClient) -> None:
    refused = await produce(client, batch(b"v"), acks=2)
    assert refused.error_code is ErrorCode.invalid_required_acks


async def test_append_time_is_told_where_the_topic_uses_it(
    client: WireClient, broker: Node
) -> None:
    config = {"message.timestamp.type": "LogAppendTime"}
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", config=config))
    stamped = await produce(client, batch(b"v"), topic={"name": "t"})
    assert stamped.log_append_time is not None
    assert (await produce(client, batch(b"v"))).log_append_time is None


async def test_without_acks_there_is_no_answer(client: WireClient) -> None:
    for value in (b"1", b"2"):
        client.send(
            "produce",
            9,
            acks=0,
            topic_data=[{"name": "a", "partition_data": [{"index": 0, "records": batch(value)}]}],
        )
    assert values((await fetched(client, 0)).records) == [b"1", b"2"]


async def test_without_acks_an_error_closes_the_connection(client: WireClient) -> None:
    client.send(
        "produce",
        9,
        acks=0,
        topic_data=[{"name": "z", "partition_data": [{"index": 0, "records": batch(b"v")}]}],
    )
    assert await client.is_closed_by_broker()


async def test_pipelined_requests_are_appended_and_answered_in_order(client: WireClient) -> None:
    expected = []
    for number in range(50):
        parts = [{"index": index, "records": batch(b"%d" % number)} for index in (0, 1)]
        topic = {"name": "a", "partition_data": parts[: 1 + number % 2]}
        expected.append(client.send("produce", 9, acks=1, timeout=1000, topic_data=[topic]))
    for number, (correlation_id, response_type) in enumerate(expected):
        answer = await client.receive(correlation_id, response_type)
        assert answer.responses[0].partition_responses[0].base_offset == number
    assert values((await fetched(client, 0)).records) == [b"%d" % n for n in range(50)]


# --- Fetch ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 19))
async def test_records_are_fetched_in_every_version(
    client: WireClient, topic_id: UUID, version: int
) -> None:
    await produce(client, batch(b"1", b"2"))
    topic = {"topic_id": topic_id} if version >= 13 else {"topic": "a"}
    answer = await fetch(
        client, fetch_part(0), fetch_part(0, 1), fetch_part(0, 9), version=version, topic=topic
    )
    full, empty, missing = answer.responses[0].partitions
    assert values(full.records) == [b"1", b"2"]
    assert (full.high_watermark, full.last_stable_offset) == (2, 2)
    assert (empty.error_code, empty.records) == (ErrorCode.none, b"")
    assert missing.error_code is ErrorCode.unknown_topic_or_partition
    assert missing.high_watermark == -1


async def test_offsets_outside_the_log_are_refused(client: WireClient) -> None:
    for offset in (-1, 1, 2**62):
        refused = await fetched(client, offset)
        assert refused.error_code is ErrorCode.offset_out_of_range


async def test_unknown_topics_are_told_by_name_and_by_id(client: WireClient) -> None:
    by_name = await fetched(client, 0, topic={"topic": "z"})
    assert by_name.error_code is ErrorCode.unknown_topic_or_partition
    by_id = await fetched(client, 0, version=18, topic={"topic_id": uuid4()})
    assert by_id.error_code is ErrorCode.unknown_topic_id


async def test_leader_epochs_are_checked(client: WireClient, broker: Node) -> None:
    epoch = broker.partition("a", 0).leader_epoch
    answer = await fetch(
        client,
        fetch_part(0, current_leader_epoch=epoch),
        fetch_part(0, 1, current_leader_epoch=epoch + 1),
    )
    known, newer = answer.responses[0].partitions
    assert known.error_code is ErrorCode.none
    assert newer.error_code is ErrorCode.unknown_leader_epoch


async def test_a_reader_that_saw_more_of_an_epoch_is_told_where_it_ends(
    client: WireClient, broker: Node
) -> None:
    await produce(client, batch(b"1"))
    epoch = broker.partition("a", 0).leader_epoch
    answer = await fetch(client, fetch_part(5, last_fetched_epoch=epoch))
    diverging = answer.responses[0].partitions[0].diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (epoch, 1)


async def test_an_answer_stays_below_the_bytes_asked_for(client: WireClient) -> None:
    for index in (0, 1):
        for _ in range(3):
            await produce(client, batch(b"x" * 1000), index=index)
    answer = await fetch(client, fetch_part(0), fetch_part(0, 1), max_bytes=2500)
    sizes = [len(part.records) for part in answer.responses[0].partitions]
    assert sizes[0] > 2000
    assert sizes[1] == 0
    answer = await fetch(client, fetch_part(0), fetch_part(0, 1), max_bytes=1)
    sizes = [len(part.records) for part in answer.responses[0].partitions]
    assert 1000 < sizes[0] < 2000, "the first batch is sent whole (KIP-74)"
    assert sizes[1] == 0


async def test_a_waiting_fetch_is_answered_by_an_append(
    client: WireClient, door: KafkaDoor
) -> None:
    waiting = client.send(
        "fetch",
        12,
        max_wait=9_000,
        min_bytes=1,
        topics=[{"topic": "a", "partitions": [fetch_part(0)]}],
    )
    other = await WireClient.connect(*door.address)
    await produce(other, batch(b"here"))
    answer = await client.receive(*waiting)
    assert values(answer.responses[0].partitions[0].records) == [b"here"]
    other.close()


async def test_a_fetch_gives_up_after_its_time(client: WireClient) -> None:
    answer = await fetch(client, fetch_part(0), max_wait=50, min_bytes=1)
    assert answer.responses[0].partitions[0].records == b""


async def test_an_unknown_isolation_level_closes_the_connection(client: WireClient) -> None:
    client.send(
        "fetch", 12, isolation_level=7, topics=[{"topic": "a", "partitions": [fetch_part(0)]}]
    )
    assert await client.is_closed_by_broker()


async def test_a_session_tells_only_news(client: WireClient) -> None:
    await produce(client, batch(b"1"))
    full = await fetch(client, fetch_part(0), fetch_part(0, 1), session_epoch=0)
    assert full.session_id > 0
    assert len(full.responses[0].partitions) == 2
    moved = await fetch(client, fetch_part(1), session_id=full.session_id, session_epoch=1)
    assert moved.responses == ()
    await produce(client, batch(b"2"), index=1)
    more = await fetch(client, session_id=full.session_id, session_epoch=2)
    (part,) = more.responses[0].partitions
    assert (part.partition_index, values(part.records)) == (1, [b"2"])
    forgotten = [{"topic": "a", "partitions": (1,)}]
    await produce(client, batch(b"3"))
    last = await fetch(
        client, session_id=full.session_id, session_epoch=3, forgotten_topics_data=forgotten
    )
    (part,) = last.responses[0].partitions
    assert (part.partition_index, values(part.records)) == (0, [b"3"])


async def test_session_errors_are_told_at_the_top(client: WireClient) -> None:
    full = await fetch(client, fetch_part(0), session_epoch=0)
    wrong = await fetch(client, session_id=full.session_id, session_epoch=9)
    assert (wrong.error_code, wrong.responses) == (ErrorCode.invalid_fetch_session_epoch, ())
    lost = await fetch(client, session_id=full.session_id + 1, session_epoch=1)
    assert lost.error_code is ErrorCode.fetch_session_id_not_found


async def test_a_session_by_id_notices_that_its_topic_is_gone(
    client: WireClient, broker: Node, topic_id: UUID
) -> None:
    topic = {"topic_id": topic_id}
    full = await fetch(client, fetch_part(0), version=18, topic=topic, session_epoch=0)
    await BrokerService(broker).topics.delete(ANYONE, "a")
    answer = await fetch(client, version=18, session_id=full.session_id, session_epoch=1)
    assert answer.responses[0].partitions[0].error_code is ErrorCode.unknown_topic_id


async def test_stopping_does_not_wait_for_waiting_fetches(
    client: WireClient, door: KafkaDoor
) -> None:
    client.send(
        "fetch",
        12,
        max_wait=60_000,
        min_bytes=1,
        topics=[{"topic": "a", "partitions": [fetch_part(0)]}],
    )
    await (await WireClient.connect(*door.address)).call("metadata")
    loop = asyncio.get_running_loop()
    started = loop.time()
    await door.stop()
    assert loop.time() - started < stretched(1)
    assert await client.is_closed_by_broker()
    assert len(door.connections) == 0


# --- ListOffsets, DeleteRecords, OffsetForLeaderEpoch, DescribeLogDirs ------------------------


async def listed(client: WireClient, timestamp: int, version: int = 11, index: int = 0) -> Any:
    part = {"partition_index": index, "timestamp": timestamp}
    answer = await client.call(
        "list_offsets", version, replica_id=-1, topics=[{"name": "a", "partitions": [part]}]
    )
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 12))
async def test_offsets_at_either_end_and_at_a_time(client: WireClient, version: int) -> None:
    for timestamp_ms in (100, 300, 200):
        await produce(client, batch(b"v", timestamp_ms=timestamp_ms))
    assert (await listed(client, -2, version)).offset == 0
    assert (await listed(client, -1, version)).offset == 3
    found = await listed(client, 150, version)
    assert (found.offset, found.timestamp) == (1, 300)
    lost = await listed(client, 301, version)
    assert (lost.error_code, lost.offset, lost.timestamp) == (ErrorCode.none, -1, -1)


async def test_the_largest_timestamp_needs_version_7(client: WireClient) -> None:
    for timestamp_ms in (100, 300, 200):
        await produce(client, batch(b"v", timestamp_ms=timestamp_ms))
    found = await listed(client, -3, 7)
    assert (found.offset, found.timestamp) == (1, 300)
    assert (await listed(client, -3, 6)).error_code is ErrorCode.unsupported_version
    assert (await listed(client, -99)).error_code is ErrorCode.unsupported_version
    assert (await listed(client, -4)).offset == 0
    assert (await listed(client, -6)).offset == -1


async def test_offsets_of_unknown_or_repeated_partitions(client: WireClient) -> None:
    missing = await listed(client, -1, index=5)
    assert missing.error_code is ErrorCode.unknown_topic_or_partition
    part = {"partition_index": 0, "timestamp": -1}
    answer = await client.call(
        "list_offsets", replica_id=-1, topics=[{"name": "a", "partitions": [part, part]}]
    )
    codes = [p.error_code for p in answer.topics[0].partitions]
    assert codes == [ErrorCode.invalid_request] * 2


@pytest.mark.parametrize("version", range(3))
async def test_records_are_deleted(client: WireClient, version: int) -> None:
    for _ in range(3):
        await produce(client, batch(b"v"))

    async def delete(offset: int, index: int = 0, name: str = "a") -> tuple[ErrorCode, int]:
        part = {"partition_index": index, "offset": offset}
        answer = await client.call(
            "delete_records", version, topics=[{"name": name, "partitions": [part]}]
        )
        (result,) = answer.topics[0].partitions
        return result.error_code, result.low_watermark

    assert await delete(2) == (ErrorCode.none, 2)
    assert (await fetched(client, 1)).error_code is ErrorCode.offset_out_of_range
    assert await delete(4) == (ErrorCode.offset_out_of_range, -1)
    assert await delete(-2) == (ErrorCode.offset_out_of_range, -1)
    assert await delete(-1) == (ErrorCode.none, 3)
    assert await delete(0, 7) == (ErrorCode.unknown_topic_or_partition, -1)
    assert await delete(0, 0, "../a") == (ErrorCode.unknown_topic_or_partition, -1)


@pytest.mark.parametrize("version", range(2, 5))
async def test_where_an_epoch_ends(client: WireClient, broker: Node, version: int) -> None:
    await produce(client, batch(b"1", b"2"))
    epoch = broker.partition("a", 0).leader_epoch

    async def end(asked: int, current: int, index: int = 0) -> tuple[ErrorCode, int, int]:
        part = {"partition": index, "leader_epoch": asked, "current_leader_epoch": current}
        answer = await client.call(
            "offset_for_leader_epoch", version, topics=[{"topic": "a", "partitions": [part]}]
        )
        (found,) = answer.topics[0].partitions
        return found.error_code, found.leader_epoch, found.end_offset

    assert await end(epoch, -1) == (ErrorCode.none, epoch, 2)
    assert await end(epoch, epoch + 1) == (ErrorCode.unknown_leader_epoch, -1, -1)
    assert await end(epoch, -1, 9) == (ErrorCode.unknown_topic_or_partition, -1, -1)


@pytest.mark.parametrize("version", range(1, 6))
async def test_sizes_on_disk(client: WireClient, broker: Node, version: int) -> None:
    sent = batch(b"v" * 100)
    await produce(client, sent)
    answer = await client.call("describe_log_dirs", version, topics=None)
    (directory,) = answer.results
    assert directory.log_dir == str(broker.config.data_dir)
    sizes = {p.partition_index: p.partition_size for p in directory.topics[0].partitions}
    assert sizes == {0: len(sent), 1: 0}
    only = await client.call(
        "describe_log_dirs", version, topics=[{"topic": "a", "partitions": (1,)}]
    )
    assert [p.partition_index for p in only.results[0].topics[0].partitions] == [1]
