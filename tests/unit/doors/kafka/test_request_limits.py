"""Requests of very many elements, and of more bytes than their operation needs."""

import asyncio
import logging
import struct
import tracemalloc

import pytest

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.kafka.large_requests import LARGE_ELEMENTS
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.pace import in_slices
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

PRODUCE_FLEXIBLE = 9


def empty_parts(count: int) -> bytes:
    """A Produce of `count` partitions without records, as frame."""
    parts = struct.pack(">iB", 0, 0) + b"\x00"
    length = bytearray()
    rest = count + 1
    while rest >= 0x80:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    length.append(rest)
    body = struct.pack(">BhiB", 0, -1, 1000, 2) + b"\x02t" + bytes(length) + parts * count
    body += b"\x00\x00"
    header = struct.pack(">hhih", 0, PRODUCE_FLEXIBLE, 1, -1) + b"\x00"
    return struct.pack(">i", len(header) + len(body)) + header + body


async def test_a_request_of_too_many_elements_costs_nothing(
    client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    request = empty_parts(200_000)
    assert len(request) < 1_300_000
    tracemalloc.start()
    try:
        with caplog.at_level(logging.INFO):
            client.writer.write(request)
            assert await client.is_closed_by_broker()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 10_000_000
    assert "Produce: more than 20000 elements (request.max.elements)" in caplog.text


async def test_things_to_describe_are_bounded_by_themselves(
    client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        client.send("describe_groups", 5, groups=[f"g{n}" for n in range(5_001)])
        assert await client.is_closed_by_broker()
    assert "DescribeGroups: more than 5000 elements (request.max.resources)" in caplog.text


async def test_what_a_transaction_takes_in_at_once_is_bounded(
    door: KafkaDoor, caplog: pytest.LogCaptureFixture
) -> None:
    """20,000 partitions were a step of 75 ms in the coordinator."""
    parts = [{"partition_index": n, "committed_offset": 1} for n in range(5_000)]
    offsets = {"group_id": "g", "topics": [{"name": "a", "partitions": parts}]}
    added = {"v3_and_below_topics": [{"name": "a", "partitions": list(range(5_000))}]}
    with caplog.at_level(logging.INFO):
        for name, version, fields in (
            ("txn_offset_commit", 3, offsets),
            ("add_partitions_to_txn", 3, added),
        ):
            client = await WireClient.connect(*door.address)
            client.send(name, version, **fields)
            assert await client.is_closed_by_broker()
            client.close()
    for told in ("TxnOffsetCommit", "AddPartitionsToTxn"):
        assert f"{told}: more than 5000 elements (request.max.resources)" in caplog.text


async def test_the_same_thing_is_described_once(client: WireClient) -> None:
    resource = {"resource_type": 4, "resource_name": "0", "configuration_keys": None}
    answer = await client.call("describe_configs", 4, resources=[resource] * 1_000)
    assert len(answer.results) == 1
    answer = await client.call("describe_groups", 5, groups=["g"] * 1_000)
    assert len(answer.groups) == 1


@pytest.mark.parametrize("size", [16_777_217, 104_857_600])
async def test_only_produce_has_large_frames(
    door: KafkaDoor, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    with caplog.at_level(logging.INFO):
        for key, operation in OPERATIONS.items():
            client = await WireClient.connect(*door.address)
            client.writer.write(struct.pack(">ihh", size, key, operation.max_version))
            if operation.name == "Produce":
                await client.writer.drain()
                assert not client.reader.at_eof()
            else:
                assert await client.is_closed_by_broker()
            client.close()
    assert f"frame of {size} bytes; request.max.bytes is 16777216" in caplog.text


async def test_a_large_request_keeps_its_place_and_lets_others_run(
    door: KafkaDoor, broker: Node
) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=1))
    writer, other = [await WireClient.connect(*door.address) for _ in range(2)]
    batch = encode_records([NewRecord(value=b"x")], now_ms=1)
    count = 4 * LARGE_ELEMENTS
    parts = [{"index": 0, "records": batch}] * count
    pipelined = [
        writer.send("produce", 9, acks=-1, topic_data=[{"name": "a", "partition_data": given}])
        for given in (parts[:1], parts, parts[:1], parts[:1])
    ]
    await writer.writer.drain()
    done: list[str] = []

    async def produce() -> list[list[int]]:
        offsets = []
        for expected in pipelined:
            answer = await writer.receive(*expected)
            stored = answer.responses[0].partition_responses
            offsets.append([part.base_offset for part in stored])
        done.append("produced")
        return offsets

    producing = asyncio.create_task(produce())
    while "produced" not in done:
        await other.call("metadata", 12, topics=[])
        done.append("asked")
    first, many, third, fourth = await producing
    assert first + many + third + fourth == list(range(count + 3))
    assert done.index("produced") > 1


async def test_slices_let_others_run() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    assert [n async for n in in_slices(range(200_000))] == list(range(200_000))
    counting.cancel()
    assert turns > 1
