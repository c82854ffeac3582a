"""Large requests wake the broker when much of them is there, and none waits for ever."""

import asyncio
import struct
from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.doors.kafka import low_water as low_water_module
from goqueue.doors.kafka.low_water import END_BYTES, STEP_BYTES, LowWater
from goqueue.doors.tls.records import RECORD_BYTES
from tests.unit.doors.kafka.scripted_peer import FakeTransport, Peer

pytestmark = pytest.mark.anyio

LARGE_BYTES = 1024 * 1024


@pytest.fixture(autouse=True, scope="module")
def _on_linux() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(low_water_module, "IS_KNOWN", True)
        yield


def as_transport(fake: FakeTransport) -> asyncio.Transport:
    return cast(asyncio.Transport, fake)


@given(st.lists(st.integers(0, 3 * LARGE_BYTES)))
def test_a_mark_leaves_room_for_a_record_that_is_not_whole(missing: list[int]) -> None:
    fake, low_water = FakeTransport(), LowWater()
    mark = 1
    for missing_bytes in missing:
        low_water.expect(missing_bytes, as_transport(fake))
        mark = fake.low_waters[-1] if fake.low_waters else mark
        assert mark == 1 or mark + 2 * RECORD_BYTES <= missing_bytes
        assert mark <= STEP_BYTES


def test_the_socket_is_asked_only_for_another_mark() -> None:
    fake, low_water = FakeTransport(), LowWater()
    for missing_bytes in (0, LARGE_BYTES, LARGE_BYTES // 2, 3 * END_BYTES, END_BYTES, 0):
        low_water.expect(missing_bytes, as_transport(fake))
    assert fake.low_waters == [STEP_BYTES, 2 * END_BYTES, 1]


def test_a_socket_that_is_closed_is_left_alone() -> None:
    fake, low_water = FakeTransport(), LowWater()
    fake.is_closed = True
    low_water.expect(LARGE_BYTES, as_transport(fake))
    low_water.expect(LARGE_BYTES, None)
    assert not fake.low_waters


async def test_a_request_has_a_mark_until_it_is_whole_or_comes_slowly() -> None:
    peer = Peer()
    connection, transport = peer.connect()
    request = struct.pack(">ihhih", 200_000, 0, 9, 1, -1) + b"\x00" + bytes(199_989)
    at = 0
    for size in (60_000, 1_000, 100_000, len(request) - 161_000):
        while size:
            room = connection.get_buffer(-1)
            part = request[at : at + min(size, len(room))]
            room[: len(part)] = part
            connection.buffer_updated(len(part))
            at, size = at + len(part), size - len(part)
        if at == 60_000:
            assert transport.low_waters == [STEP_BYTES]
            connection.look_for_progress(connection.last_active_seconds + 1)
            assert transport.low_waters == [STEP_BYTES, 1]
        elif at == 61_000:
            assert transport.low_waters == [STEP_BYTES, 1, STEP_BYTES]
    assert at == len(request)
    assert transport.low_waters[-1] == 1
