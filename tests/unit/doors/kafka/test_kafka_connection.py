"""The connection against operations made for the test, driven without a socket."""

import asyncio
import logging
import struct
from dataclasses import replace
from typing import Any, cast

import pytest

from goqueue.doors.kafka.frame_reader import FIRST_ROOM_BYTES, OWN_BUFFER_FROM_BYTES
from goqueue.doors.kafka.large_requests import LARGE_ELEMENTS
from goqueue.doors.kafka.operation import CloseConnection, Handle, Operation, RequestContext
from goqueue.service.needs import OPEN
from tests.unit.doors.kafka.scripted_peer import (
    FETCH,
    METADATA,
    METADATA_ANSWER,
    PRODUCE,
    PRODUCE_ANSWER,
    Peer,
    frame,
    metadata,
    produce,
)


@pytest.fixture
async def peer() -> Peer:
    return Peer()


pytestmark = pytest.mark.anyio


async def test_requests_that_do_not_overlap_run_one_after_another(peer: Peer) -> None:
    peer.send(metadata(1) + metadata(2))
    await peer.settle()
    assert peer.script.started == [1]
    await peer.finish(1, METADATA_ANSWER)
    assert peer.script.started == [1, 2]
    assert peer.answers() == [1]


async def test_overlapping_requests_start_in_order_and_are_answered_in_order(peer: Peer) -> None:
    peer.send(produce(1) + produce(2) + produce(3))
    await peer.settle()
    assert peer.script.started == [1, 2, 3]
    await peer.finish(3, PRODUCE_ANSWER)
    await peer.finish(2, PRODUCE_ANSWER)
    assert peer.answers() == []
    await peer.finish(1, PRODUCE_ANSWER)
    assert peer.answers() == [1, 2, 3]


async def test_an_exclusive_request_waits_for_overlapping_ones_before_it(peer: Peer) -> None:
    peer.send(produce(1) + metadata(2) + produce(3))
    await peer.settle()
    assert peer.script.started == [1]
    await peer.finish(1, PRODUCE_ANSWER)
    assert peer.script.started == [1, 2]


async def test_bytes_one_by_one_make_the_same_requests(peer: Peer) -> None:
    for byte in produce(1) + produce(2):
        peer.send(bytes([byte]))
    await peer.settle()
    assert peer.script.started == [1, 2]


async def test_a_frame_larger_than_the_shared_buffer_arrives_whole() -> None:
    peer = Peer()
    seen: list[bytes] = []

    async def handle(_context: RequestContext, request: Any) -> Any:
        seen.append(bytes(request.topic_data[0].partition_data[0].records))
        return PRODUCE_ANSWER

    cast(dict[int, Operation], peer.services.operations)[PRODUCE] = Operation(
        api_key=PRODUCE, name="Produce", min_version=3, max_version=9, handle=handle, needs=OPEN
    )
    records = bytes(range(256)) * (5 * FIRST_ROOM_BYTES // 2 // 256)
    body = struct.pack(">hhiih", -1, 1, 1000, 1, 1) + b"t" + struct.pack(">iii", 1, 0, len(records))
    peer.send(frame(PRODUCE, 3, 1, body + records) + produce(2))
    await peer.settle()
    assert seen == [records]
    assert peer.answers() == [1]


async def test_nothing_is_reserved_on_the_word_of_a_length(peer: Peer) -> None:
    peer.send(struct.pack(">i", 100_000_000) + b"\x00\x00")
    assert peer.memory.held_bytes == 2
    peer.send(bytes(OWN_BUFFER_FROM_BYTES))
    assert peer.memory.held_bytes == FIRST_ROOM_BYTES
    peer.connection.connection_lost(None)
    assert peer.memory.held_bytes == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 104_857_601, 2**31 - 1])
async def test_an_absurd_length_closes_with_one_line(
    peer: Peer, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        peer.send(struct.pack(">i", size) + b"rest")
    assert peer.transport.is_closed
    assert len(caplog.records) == 1
    assert "socket.request.max.bytes" in caplog.text


@pytest.mark.parametrize(
    "bad",
    [
        frame(999, 0, 2, b""),
        frame(METADATA, 2, 2, b""),
        frame(METADATA, -1, 2, b""),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", 0),
        struct.pack(">ihhih", 10, METADATA, 1, 2, 500),
        struct.pack(">ihhih", 10, METADATA, 1, 2, -2),
        struct.pack(">ihhih", 12, METADATA, 1, 2, 2) + b"\xff\xfe",
        frame(METADATA, 1, 2, struct.pack(">i", -7)),
        frame(METADATA, 1, 2, struct.pack(">i", 1)),
    ],
)
async def test_bad_requests_close_after_what_came_before_is_answered(
    peer: Peer, bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        peer.send(metadata(1) + bad)
        await peer.settle()
        assert not peer.transport.is_closed
        await peer.finish(1, METADATA_ANSWER)
    assert peer.answers() == [1]
    assert peer.transport.is_closed
    assert len(caplog.records) == 1
    assert peer.memory.held_bytes == 0


async def test_an_unexpected_error_closes_this_connection_with_its_traceback(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    peer.send(metadata(1))
    await peer.settle()
    with caplog.at_level(logging.ERROR):
        peer.script.finish[1].set_exception(RuntimeError("out of cheese"))
        await peer.settle()
    assert peer.transport.is_closed
    assert "out of cheese" in caplog.text
    other, _ = peer.connect()
    assert other in peer.open


async def test_an_answer_that_cannot_be_written_is_such_an_error(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    peer.send(metadata(1))
    await peer.settle()
    await peer.finish(1, {"brokers": None})
    assert peer.transport.is_closed
    assert "Metadata" in caplog.text


async def test_no_answer_is_written_when_there_is_none(peer: Peer) -> None:
    peer.send(produce(1) + produce(2))
    await peer.settle()
    await peer.finish(1, None)
    await peer.finish(2, PRODUCE_ANSWER)
    assert peer.answers() == [2]


async def test_a_handler_can_close_the_connection(peer: Peer) -> None:
    peer.send(produce(1) + produce(2))
    await peer.settle()
    peer.script.finish[1].set_exception(CloseConnection("acks=0"))
    await peer.settle()
    assert peer.transport.is_closed
    await peer.finish(2, PRODUCE_ANSWER)
    assert peer.answers() == []


async def test_reading_pauses_at_the_limit_of_requests_in_flight() -> None:
    peer = Peer(max_requests_in_flight_per_connection="2")
    peer.send(produce(1) + produce(2) + produce(3) + produce(4))
    await peer.settle()
    assert not peer.transport.is_reading
    assert peer.script.started == [1, 2]
    await peer.finish(2, PRODUCE_ANSWER)
    assert not peer.transport.is_reading
    await peer.finish(1, PRODUCE_ANSWER)
    assert peer.script.started == [1, 2, 3, 4]
    assert not peer.transport.is_reading
    await peer.finish(3, PRODUCE_ANSWER)
    assert peer.transport.is_reading


async def test_reading_pauses_while_all_connections_hold_too_many_bytes() -> None:
    peer = Peer(queued_max_request_bytes="1048576")
    peer.memory.take(1048576)
    peer.send(produce(1) + produce(2))
    await peer.settle()
    assert not peer.transport.is_reading
    assert peer.script.started == [1]
    peer.memory.give_back(1048576)
    await peer.settle()
    assert peer.transport.is_reading
    assert peer.script.started == [1, 2]


async def test_nothing_more_is_started_while_answers_are_unsent(peer: Peer) -> None:
    peer.connection.pause_writing()
    assert not peer.transport.is_reading
    peer.connection.resume_writing()
    peer.send(metadata(1))
    await peer.settle()
    peer.connection.pause_writing()
    await peer.finish(1, METADATA_ANSWER)
    assert peer.answers() == [1]
    assert not peer.transport.is_reading
    peer.connection.resume_writing()
    assert peer.transport.is_reading


async def test_one_connection_too_many_is_closed() -> None:
    peer = Peer(max_connections="1")
    _, refused = peer.connect()
    assert refused.is_closed
    assert not peer.transport.is_closed
    peer.connection.connection_lost(None)
    _, accepted = peer.connect()
    assert not accepted.is_closed


async def test_a_lost_client_ends_what_only_waits(peer: Peer) -> None:
    peer.send(frame(FETCH, 4, 1, struct.pack(">iiiibi", -1, 500, 1, 1, 0, 0)))
    await peer.settle()
    assert peer.script.started == [1]
    peer.connection.connection_lost(None)
    await peer.settle()
    assert peer.script.finish[1].cancelled()
    assert peer.memory.held_bytes == 0


async def test_a_lost_client_ends_what_only_reads(peer: Peer) -> None:
    operations = cast(dict[int, Operation], peer.services.operations)
    operations[METADATA] = replace(operations[METADATA], only_reads=True)
    peer.send(metadata(1))
    await peer.settle()
    peer.connection.connection_lost(None)
    await peer.settle()
    assert peer.script.finish[1].cancelled()
    assert peer.memory.held_bytes == 0


async def test_what_a_lost_client_asked_to_change_is_changed(peer: Peer) -> None:
    peer.send(metadata(1))
    await peer.settle()
    peer.connection.connection_lost(None)
    await peer.settle()
    assert not peer.script.finish[1].done()
    await peer.finish(1, METADATA_ANSWER)
    assert peer.memory.held_bytes == 0
    assert not peer.connection.is_busy


async def test_a_large_request_in_line_ends_with_its_client(peer: Peer) -> None:
    """It stayed in memory until its turn came, for nobody."""
    names = b"\0\1a" * 2 * LARGE_ELEMENTS
    async with peer.services.large_requests.turn:
        peer.send(frame(METADATA, 1, 1, struct.pack(">i", 2 * LARGE_ELEMENTS) + names))
        await peer.settle()
        assert peer.connection.is_busy
        peer.connection.connection_lost(None)
        await peer.settle()
        assert not peer.connection.is_busy
        assert peer.memory.held_bytes == 0
    await peer.settle()
    assert peer.script.started == []


async def test_not_too_many_elements_are_in_hand_at_once() -> None:
    """Twenty large requests took some 20 MB each, decoded and with their answers."""
    peer = Peer()
    room = peer.services.large_requests
    room._elements_max = 5 * LARGE_ELEMENTS
    connections = [(peer.connection, peer.transport)] + [peer.connect() for _ in range(2)]
    names = b"\0\1a" * 2 * LARGE_ELEMENTS
    for number, (peer.connection, peer.transport) in enumerate(connections, 1):
        peer.send(frame(METADATA, 1, number, struct.pack(">i", 2 * LARGE_ELEMENTS) + names))
    for _ in range(20):
        await peer.settle()
    assert peer.script.started == [1, 2], "the third has no room"
    await peer.finish(1, METADATA_ANSWER)
    await peer.settle()
    assert peer.script.started == [1, 2, 3]
    await peer.finish(2, METADATA_ANSWER)
    await peer.finish(3, METADATA_ANSWER)
    assert peer.memory.held_bytes == 0
    assert room._elements == 0


async def test_finishing_answers_what_runs_and_drops_what_is_queued(peer: Peer) -> None:
    peer.send(metadata(1) + metadata(2))
    await peer.settle()
    peer.connection.finish()
    assert not peer.transport.is_closed
    await peer.finish(1, METADATA_ANSWER)
    assert peer.answers() == [1]
    assert peer.script.started == [1]
    assert peer.transport.is_closed
    assert peer.memory.held_bytes == 0


async def test_a_newer_client_is_told_the_versions_in_version_0(peer: Peer) -> None:
    peer.send(frame(18, 77, 5, b"whatever a newer version has"))
    await peer.settle()
    size, correlation_id, error_code, count = struct.unpack_from(">iihi", peer.transport.written)
    assert (correlation_id, error_code, count) == (5, 35, 4)
    assert size == 4 + 2 + 4 + 4 * 6
    assert struct.pack(">hhh", PRODUCE, 3, 9) in peer.transport.written


async def test_what_need_not_wait_is_answered_in_one_turn_and_one_write(peer: Peer) -> None:
    async def handle(context: RequestContext, _request: Any) -> Any:
        peer.script.started.append(context.correlation_id)
        return PRODUCE_ANSWER

    _serve_at_once(peer, handle, overlaps=True)
    peer.send(produce(1) + produce(2) + metadata(3) + produce(4))
    await asyncio.sleep(0)
    assert peer.answers() == [1, 2]
    assert peer.transport.write_count == 1
    await peer.settle()
    assert peer.script.started == [1, 2, 3]
    await peer.finish(3, METADATA_ANSWER)
    assert peer.answers() == [1, 2, 3, 4]


async def test_a_first_step_that_waits_keeps_the_order_of_answers(peer: Peer) -> None:
    later = asyncio.get_running_loop().create_future()

    async def handle(context: RequestContext, _request: Any) -> Any:
        if context.correlation_id == 1:
            await later
        return PRODUCE_ANSWER

    _serve_at_once(peer, handle, overlaps=True)
    peer.send(produce(1) + produce(2))
    await peer.settle()
    assert peer.answers() == []
    later.set_result(None)
    await peer.settle()
    assert peer.answers() == [1, 2]


async def test_an_exclusive_answer_is_sent_before_the_next_is_made(peer: Peer) -> None:
    sent_before: list[list[int]] = []

    async def handle(_context: RequestContext, _request: Any) -> Any:
        sent_before.append(peer.answers())
        return PRODUCE_ANSWER

    _serve_at_once(peer, handle, overlaps=False)
    peer.send(produce(1) + produce(2) + produce(3))
    await peer.settle()
    assert sent_before == [[], [1], [1, 2]]
    assert peer.answers() == [1, 2, 3]


async def test_a_request_that_cannot_start_yet_stays_bytes(peer: Peer) -> None:
    peer.send(produce(1) + produce(2) + metadata(3) + metadata(4) + metadata(5))
    await peer.settle()
    queued = peer.connection._queued
    assert [(e.header.correlation_id, e.is_read) for e in queued] == [
        (3, True),
        (4, False),
        (5, False),
    ]
    await peer.finish(1, PRODUCE_ANSWER)
    await peer.finish(2, PRODUCE_ANSWER)
    for correlation_id in (3, 4, 5):
        assert peer.script.started[-1] == correlation_id
        await peer.finish(correlation_id, METADATA_ANSWER)
    assert peer.answers() == [1, 2, 3, 4, 5]


async def test_one_that_fails_at_once_closes_after_those_before_it(peer: Peer) -> None:
    async def handle(context: RequestContext, _request: Any) -> Any:
        if context.correlation_id == 2:
            raise CloseConnection("acks=0, and no")
        return PRODUCE_ANSWER

    _serve_at_once(peer, handle, overlaps=True)
    peer.send(produce(1) + produce(2) + produce(3))
    await peer.settle()
    assert peer.answers() == [1]
    assert peer.transport.is_closed
    assert peer.memory.held_bytes == 0


async def test_an_answer_that_is_ready_is_sent_before_the_connection_finishes(peer: Peer) -> None:
    peer.send(produce(1))
    await peer.settle()
    peer.script.finish[1].set_result(PRODUCE_ANSWER)
    await asyncio.sleep(0)
    peer.connection.finish()
    await peer.settle()
    assert peer.answers() == [1]
    assert peer.transport.is_closed


def _serve_at_once(peer: Peer, handle: Handle, *, overlaps: bool) -> None:
    cast(dict[int, Operation], peer.services.operations)[PRODUCE] = Operation(
        api_key=PRODUCE,
        name="Produce",
        min_version=3,
        max_version=9,
        handle=handle,
        needs=OPEN,
        overlaps=overlaps,
        starts_at_once=True,
    )
