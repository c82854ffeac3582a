"""Entries on their way out: bounded, counted when lost, written at the end."""

import asyncio
from collections.abc import Sequence

import pytest

from goqueue.broker.audit.line import GATHERED_MAX, QUEUE_MAX, AuditLine

pytestmark = pytest.mark.anyio


class Taken:
    def __init__(self) -> None:
        self.entries: list[bytes] = []

    async def write(self, entries: Sequence[bytes]) -> None:
        self.entries += entries


async def test_what_does_not_fit_is_dropped_and_counted() -> None:
    taken = Taken()
    line = AuditLine("file", taken.write)
    for number in range(QUEUE_MAX + 7):
        line.offer(b"%d" % number, is_gathered=False)
    assert line.dropped == 7
    line.start()
    await line.close()
    assert taken.entries == [b"%d" % number for number in range(QUEUE_MAX)]
    assert line.dropped == 7


async def test_a_flood_of_refusals_leaves_room_for_changes() -> None:
    taken = Taken()
    line = AuditLine("file", taken.write)
    for _ in range(QUEUE_MAX):
        line.offer(b"refused", is_gathered=True)
    assert line.dropped == QUEUE_MAX - GATHERED_MAX
    line.offer(b"topic deleted", is_gathered=False)
    line.start()
    await line.close()
    assert taken.entries[-1] == b"topic deleted"


async def test_what_cannot_be_written_is_counted_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(_: Sequence[bytes]) -> None:
        raise OSError("no space left")

    line = AuditLine("file", fail)
    for _ in range(1_200):
        line.offer(b"entry", is_gathered=False)
    line.start()
    await line.close()
    assert line.dropped == 1_200
    assert [record.getMessage() for record in caplog.records] == [
        "500 entries of the audit lost (file): no space left"
    ]


async def test_a_hanging_target_holds_up_the_end_for_a_second_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("goqueue.broker.audit.line.CLOSE_TIMEOUT_S", 0.01)
    began = asyncio.Event()

    async def hang(_: Sequence[bytes]) -> None:
        began.set()
        await asyncio.Event().wait()

    line = AuditLine("topic", hang)
    for _ in range(700):
        line.offer(b"entry", is_gathered=False)
    line.start()
    await began.wait()
    await line.close()
    assert line.dropped == 700


async def test_a_flood_of_changes_of_one_tenant_leaves_room_for_those_of_others() -> None:
    taken = Taken()
    line = AuditLine("file", taken.write)
    for number in range(QUEUE_MAX + 7):
        line.offer(b"%d" % number, is_gathered=False, party="acme@")
    line.offer(b"topic deleted", is_gathered=False, party="root")
    line.offer(b"user made", is_gathered=False, party="zeta@")
    assert line.dropped == 9
    line.start()
    await line.close()
    assert taken.entries[-2:] == [b"topic deleted", b"user made"]
    assert taken.entries[:-2] == [b"%d" % number for number in range(QUEUE_MAX - 2)]


async def test_a_flood_of_refusals_of_one_tenant_leaves_room_for_those_of_others() -> None:
    taken = Taken()
    line = AuditLine("file", taken.write)
    line.offer(b"topic made", is_gathered=False, party="acme@")
    for number in range(QUEUE_MAX):
        line.offer(b"%d" % number, is_gathered=True, party="acme@")
    line.offer(b"topic deleted", is_gathered=False, party="acme@")
    line.offer(b"root refused", is_gathered=True, party="root")
    line.offer(b"zeta refused", is_gathered=True, party="zeta@")
    assert line.dropped == QUEUE_MAX - GATHERED_MAX + 2
    line.start()
    await line.close()
    kept = [b"%d" % number for number in range(GATHERED_MAX - 2)]
    others = [b"topic deleted", b"root refused", b"zeta refused"]
    assert taken.entries == [b"topic made", *kept, *others]


async def test_many_changes_leave_room_for_refusals() -> None:
    taken = Taken()
    line = AuditLine("file", taken.write)
    for number in range(GATHERED_MAX + 1):
        line.offer(b"%d" % number, is_gathered=False, party="acme@")
    line.offer(b"zeta refused", is_gathered=True, party="zeta@")
    assert line.dropped == 0
    line.start()
    await line.close()
    assert taken.entries[-1] == b"zeta refused"
