"""A follower's requests and their answers, held against another implementation of the protocol."""

import io
import struct
from datetime import timedelta
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.request import FetchRequest
from kio.schema.fetch.v17.response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from kio.schema.types import BrokerId, ProducerId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta, i64

from goqueue.client.errors import BrokerUnreachable
from goqueue.client.replica_fetch import (
    AskedPart,
    ReplicaRequest,
    read_replica_answer,
    replica_frame,
)

A, B = UUID(int=1), UUID(int=2)


def request(asked: list[AskedPart], forgotten: list[tuple[bytes, int]]) -> ReplicaRequest:
    return ReplicaRequest(
        node_id=3,
        broker_epoch=77,
        session_id=5,
        session_epoch=6,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10_000,
        part_max_bytes=1_000,
        asked=asked,
        forgotten=forgotten,
    )


def test_a_request_says_who_asks_for_what() -> None:
    # More than a length of one byte can say.
    asked = [AskedPart((B.bytes, index), 4, 100 + index, 3, 7) for index in range(200)]
    asked.append(AskedPart((A.bytes, 0), 1, 0, -1, 0))
    frame = replica_frame(request(asked, [(A.bytes, 8), (B.bytes, 9), (A.bytes, 10)]), 42)
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    view = memoryview(frame)[4:]
    header, size = entity_reader(FetchRequest.__header_schema__)(view, 0)
    assert (header.request_api_key, header.request_api_version) == (1, 17)
    assert header.correlation_id == 42
    read, body = entity_reader(FetchRequest)(view, size)
    assert size + body == len(view)
    assert (read.replica_state.replica_id, read.replica_state.replica_epoch) == (3, 77)
    assert (read.session_id, read.session_epoch, read.max_bytes) == (5, 6, 10_000)
    assert read.max_wait == timedelta(milliseconds=500)
    assert [topic.topic_id for topic in read.topics] == [B, A]
    part = read.topics[0].partitions[150]
    assert (part.partition, part.current_leader_epoch, part.fetch_offset) == (150, 4, 250)
    assert (part.last_fetched_epoch, part.log_start_offset) == (3, 7)
    assert part.partition_max_bytes == 1_000
    assert [(t.topic_id, t.partitions) for t in read.forgotten_topics_data] == [
        (A, (8, 10)),
        (B, (9,)),
    ]


def frame_of(answer: FetchResponse, correlation_id: int) -> memoryview:
    header = FetchResponse.__header_schema__(correlation_id=i32(correlation_id))
    with io.BytesIO() as buffer:
        entity_writer(type(header))(buffer, header)
        entity_writer(FetchResponse)(buffer, answer)
        return memoryview(buffer.getvalue())


def part(index: int, **more: object) -> PartitionData:
    fields = {
        "error_code": ErrorCode.none,
        "high_watermark": i64(10),
        "aborted_transactions": None,
        "records": None,
        **more,
    }
    return PartitionData(partition_index=i32(index), **fields)  # type: ignore[arg-type]


def test_an_answer_is_read_in_place() -> None:
    aborted = AbortedTransaction(producer_id=ProducerId(1), first_offset=i64(2))
    answer = FetchResponse(
        throttle_time=i32Timedelta.parse(timedelta()),
        error_code=ErrorCode.none,
        session_id=i32(9),
        responses=(
            FetchableTopicResponse(
                topic_id=A,
                partitions=(
                    part(0, records=b"x" * 300, log_start_offset=i64(4)),
                    part(1, diverging_epoch=EpochEndOffset(epoch=i32(2), end_offset=i64(5))),
                ),
            ),
            FetchableTopicResponse(
                topic_id=B,
                partitions=(
                    part(
                        7,
                        error_code=ErrorCode.not_leader_or_follower,
                        current_leader=LeaderIdAndEpoch(leader_id=BrokerId(1)),
                        aborted_transactions=(aborted, aborted),
                        records=b"",
                    ),
                ),
            ),
        ),
    )
    frame = frame_of(answer, 42)
    read = read_replica_answer(frame, 42, "here")
    assert (read.error, read.session_id) == (0, 9)
    first, second, third = read.parts
    assert (first.key, first.high_watermark, first.log_start) == ((A.bytes, 0), 10, 4)
    assert bytes(first.records) == b"x" * 300
    assert first.diverging is None
    assert (second.key, second.diverging) == ((A.bytes, 1), (2, 5))
    assert bytes(second.records) == b""
    assert (third.key, third.error) == ((B.bytes, 7), ErrorCode.not_leader_or_follower.value)
    for end in range(len(frame)):
        with pytest.raises(BrokerUnreachable):
            read_replica_answer(frame[:end], 42, "here")
    with pytest.raises(BrokerUnreachable):
        read_replica_answer(frame, 41, "here")
