"""However the bytes arrive, a connection does the same with them."""

import asyncio
from collections.abc import Sequence

import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.doors.kafka.scripted_peer import (
    METADATA_ANSWER,
    PRODUCE_ANSWER,
    Peer,
    frame,
    metadata,
    produce,
)

REQUESTS = st.one_of(
    st.integers(0, 99).map(metadata),
    st.integers(0, 99).map(produce),
    st.integers(0, 99).map(lambda n: produce(n, padding=300)),
    st.integers(0, 9).map(lambda version: frame(18, version, 7, b"")),
    st.builds(frame, st.integers(0, 4), st.integers(0, 9), st.just(8), st.binary(max_size=20)),
    st.binary(max_size=12),
)


async def _outcome(pieces: Sequence[bytes]) -> tuple[bytes, bool, int]:
    peer = Peer(max_requests_in_flight_per_connection="1000")
    for piece in pieces:
        peer.send(piece)
    for _ in range(len(b"".join(pieces)) // 10 + 1):
        await peer.settle()
        for future, is_produce in peer.script.take_waiting():
            future.set_result(PRODUCE_ANSWER if is_produce else METADATA_ANSWER)
    held_bytes = peer.memory.held_bytes if peer.transport.is_closed else 0
    return peer.transport.written, peer.transport.is_closed, held_bytes


@settings(max_examples=150, deadline=None)
@given(requests=st.lists(REQUESTS, max_size=6), cuts=st.lists(st.integers(1, 40), min_size=1))
def test_pieces_do_not_matter(requests: list[bytes], cuts: list[int]) -> None:
    data = b"".join(requests)
    pieces: list[bytes] = []
    position = 0
    while position < len(data):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(data[position : position + size])
        position += size

    async def both() -> None:
        whole = await _outcome([data] if data else [])
        assert whole == await _outcome(pieces)
        assert whole[2] == 0, "bytes of a closed connection are given back"

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(both())
