"""Log lines that a client cannot multiply."""

import logging

import pytest

from goqueue.doors.closing_lines import (
    LINES_MAX,
    LINES_PER_HOST,
    WINDOW_SECONDS,
    ClosingLines,
)
from tests.unit.doors.kafka.scripted_peer import Peer, frame

pytestmark = pytest.mark.anyio


def test_lines_are_limited_by_address_and_in_all(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    lines = ClosingLines(logging.getLogger("lines"), lambda: now)
    with caplog.at_level(logging.INFO):
        for _ in range(1_000):
            lines.write(logging.INFO, "10.0.0.1", "bad %s", "frame")
        assert [record.getMessage() for record in caplog.records] == ["bad frame"] * LINES_PER_HOST
        for number in range(1_000):
            lines.write(logging.INFO, f"10.0.1.{number}", "bad %s", "frame")
        assert len(caplog.records) == LINES_MAX
        now += WINDOW_SECONDS
        caplog.clear()
        lines.write(logging.INFO, "10.0.0.1", "bad %s", "frame")
    assert [record.getMessage() for record in caplog.records] == [
        f"{2_000 - LINES_MAX} more such lines were left out within a minute",
        "bad frame",
    ]


async def test_bad_frames_by_the_hundred_leave_a_few_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer = Peer()
    bad = frame(999, 0, 1, b"")
    with caplog.at_level(logging.INFO):
        for _ in range(300):
            connection, transport = peer.connect()
            connection.get_buffer(-1)[: len(bad)] = bad
            connection.buffer_updated(len(bad))
            assert transport.is_closed
            connection.connection_lost(None)
    assert len(caplog.records) == LINES_PER_HOST
