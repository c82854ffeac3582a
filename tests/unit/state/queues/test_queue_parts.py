"""The parts of a queue by themselves: range sets, pieces, settings, and what state costs."""

from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.lanes import Lane
from goqueue.model.queues.messages import (
    AckAction,
    Acknowledged,
    Acknowledgement,
    QueueDescription,
    QueueKey,
)
from goqueue.model.queues.settings import QueueSettings
from goqueue.state.machine import Outcome, StateRecord, Ticket
from goqueue.state.priority.index import LaneIndex
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.messages import (
    Acknowledge,
    Acquire,
    Acquired,
    DeleteQueues,
    OpenQueue,
    ResetQueue,
    Skip,
)
from goqueue.state.queues.pieces import BLOCK_OFFSETS, BlockMap
from goqueue.state.queues.range_set import RangeSet
from tests.unit.state import durable_records

KEY = QueueKey("g", UUID(int=1), 0)
ROOMY = QueueSettings(max_in_flight=10_000_000, max_in_flight_per_member=10_000_000)

edges = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda e: (min(e), max(e)))


@settings(max_examples=80, deadline=None)
@given(changes=st.lists(st.tuples(st.booleans(), edges), max_size=25), looked_at=edges)
def test_range_set_is_a_set(
    changes: list[tuple[bool, tuple[int, int]]], looked_at: tuple[int, int]
) -> None:
    ranges, members = RangeSet(), set[int]()
    for adds, (start, end) in changes:
        if adds:
            ranges.add(start, end)
            members |= set(range(start, end))
        else:
            ranges.remove(start, end)
            members -= set(range(start, end))
        assert ranges.size == len(members)
        assert {n for offsets in ranges for n in range(*offsets)} == members
        assert all(a.end < b.start for a, b in zip(list(ranges), list(ranges)[1:], strict=False))
    copy = ranges.copy()
    copy.add(100, 101)
    for number in range(61):
        assert (number in ranges) == (number in members)
        span_end = ranges.end_of(number)
        assert (span_end is None) == (number not in members)
        assert span_end is None or (span_end not in members and span_end - 1 in members)
    within = [n for offsets in ranges.within(*looked_at) for n in range(*offsets)]
    assert within == sorted(members & set(range(*looked_at)))
    assert 100 not in ranges


BASE = BLOCK_OFFSETS - 30


@settings(max_examples=80, deadline=None)
@given(changes=st.lists(st.tuples(edges, st.integers(0, 2)), max_size=25), looked_at=edges)
def test_block_map_is_a_list(
    changes: list[tuple[tuple[int, int], int]], looked_at: tuple[int, int]
) -> None:
    found: BlockMap[int] = BlockMap(0)
    values = dict.fromkeys(range(BASE, BASE + 60), 0)
    for (start, end), value in changes:
        found.assign(BASE + start, BASE + end, value)
        values.update(dict.fromkeys(range(BASE + start, BASE + end), value))
    assert {offset: found.get(offset) for offset in values} == values
    for block in found.blocks.values():
        assert block.starts[0] == 0
        assert block.starts == sorted(set(block.starts))
        assert all(a != b for a, b in zip(block.values, block.values[1:], strict=False))
        assert block.values != [0]
    start, end = BASE + looked_at[0], BASE + looked_at[1]
    pieces = list(found.pieces(start, end))
    assert {o: p.value for p in pieces for o in range(p.start, p.end)} == {
        offset: value for offset, value in values.items() if start <= offset < end
    }
    occupied = {o: p.value for p in found.occupied(0, 1 << 60) for o in range(p.start, p.end)}
    assert occupied == {offset: value for offset, value in values.items() if value}


@pytest.mark.parametrize(
    ("deliveries", "wait_ms"),
    [(1, 1_000), (2, 2_000), (3, 4_000), (6, 32_000), (7, 60_000), (10_000, 60_000)],
)
def test_back_off_doubles_up_to_a_minute(deliveries: int, wait_ms: int) -> None:
    assert QueueSettings().backoff_ms(deliveries) == wait_ms


def test_last_delivery() -> None:
    assert [n for n in range(1, 9) if QueueSettings().is_last(n)] == [4, 5, 6, 7, 8]
    endless = QueueSettings(max_deliveries=0)
    assert not any(endless.is_last(n) for n in (1, 100, 10_000))


@pytest.mark.parametrize(
    "name",
    [
        "lease_ms",
        "max_in_flight",
        "max_in_flight_per_member",
        "max_unsettled",
        "max_deliveries",
        "retry_backoff_ms",
        "retry_backoff_max_ms",
    ],
)
def test_settings_name_what_is_wrong(name: str) -> None:
    wrong = msgspec.structs.replace(QueueSettings(), **{name: -1})
    problem = wrong.problem()
    assert problem is not None
    assert problem.startswith(f"{name} is -1")
    assert QueueSettings().problem() is None


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (QueueError.UNKNOWN_QUEUE, "GROUP_ID_NOT_FOUND"),
        (QueueError.RECEIPT_EXPIRED, "INVALID_RECORD_STATE"),
        (QueueError.RECEIPT_FOREIGN, "INVALID_RECORD_STATE"),
        (QueueError.INVALID_REQUEST, "INVALID_REQUEST"),
    ],
)
def test_errors_have_a_kafka_name(error: QueueError, name: str) -> None:
    assert error.kafka_name == name
    assert error.is_receipt == (name == "INVALID_RECORD_STATE")


class Runtime:
    def __init__(self) -> None:
        self.table: dict[bytes, bytes] = {}
        self.records = 0
        self.machine = self.start()
        self.take(
            self.machine.open_queue(
                OpenQueue(queue=KEY, start=0, settings=ROOMY), ticket=Ticket(0), now_ms=1
            )
        )

    def start(self) -> QueueMachine:
        ids = iter(range(1, 1 << 30))
        return QueueMachine(new_lease_id=lambda: next(ids))

    def take(self, outcome: Outcome, *, stored: int | None = None) -> object:
        for record in outcome.records[:stored]:
            self.table.pop(record.key, None)
            if record.value is not None:
                self.table[record.key] = record.value
        for record in outcome.records:
            self.machine.replay(record)
        self.records += len(outcome.records)
        return outcome.replies[0].response if outcome.replies else None

    def acquire(self, size: int, end: int, lanes: LaneIndex | None = None) -> Acquired:
        request = Acquire(
            queue=KEY, member="m", max_messages=size, readable=OffsetRange(0, end), lanes=lanes
        )
        answer = self.take(self.machine.acquire(request, ticket=Ticket(0), now_ms=2))
        assert isinstance(answer, Acquired)
        return answer

    def accept(self, *ranges: OffsetRange) -> None:
        items = tuple(
            Acknowledgement(offsets=offsets, action=AckAction.ACCEPT) for offsets in ranges
        )
        request = Acknowledge(queue=KEY, member="m", items=items)
        answer = self.take(self.machine.acknowledge(request, ticket=Ticket(0), now_ms=3))
        assert isinstance(answer, Acknowledged)
        assert set(answer.errors) == {QueueError.NONE}

    def restart(self) -> None:
        self.machine = self.start()
        for key, value in self.table.items():
            self.machine.replay(StateRecord(key, value))
        self.take(self.machine.loaded(4))

    def describe(self, end: int) -> QueueDescription:
        outcome = self.machine.describe(KEY, ticket=Ticket(0), readable=OffsetRange(0, end))
        answer = outcome.replies[0].response
        assert isinstance(answer, QueueDescription)
        return answer


def test_ten_million_waiting_messages_cost_nothing() -> None:
    runtime = Runtime()
    end = 10_000_000
    for start in range(0, 50_000, 500):
        assert [s.offsets for s in runtime.acquire(500, end).leased] == [(start, start + 500)]
        runtime.accept(OffsetRange(start, start + 500))
        # The queue, its floor, and the block that the floor is in.
        assert len(runtime.table) <= 3
    assert runtime.describe(end).ready == end - 50_000
    # Per 500 messages: one or two blocks when delivered, a floor and at times a tombstone.
    assert runtime.records <= 100 * 4


def test_a_stuck_message_does_not_pile_up_blocks() -> None:
    """One message is never acknowledged, a hundred thousand after it are."""
    runtime = Runtime()
    end = 100 * BLOCK_OFFSETS
    for start in range(0, end, BLOCK_OFFSETS):
        runtime.acquire(BLOCK_OFFSETS, end)
        runtime.accept(OffsetRange(max(start, 1), start + BLOCK_OFFSETS))
    # The queue, its floor with one run of blocks, and the block of the stuck message.
    assert len(runtime.table) == 3
    assert runtime.describe(end).settled_above_floor == end - 1
    runtime.restart()
    assert [(*s.offsets, s.delivery_count) for s in runtime.acquire(10, end).leased] == [(0, 1, 2)]


def test_a_critical_message_overtakes_a_million() -> None:
    runtime = Runtime()
    lanes = LaneIndex()
    lanes.advance(1_000_000)
    first = runtime.acquire(1, 1_000_000, lanes)
    assert first.leased[0].offsets.start == 0
    lanes.append(Lane.CRITICAL, 1_000_000, 1_000_001)
    taken = runtime.acquire(1, 1_000_001, lanes).leased
    assert [(s.offsets.start, s.lane) for s in taken] == [(1_000_000, Lane.CRITICAL)]
    runtime.accept(OffsetRange(1_000_000, 1_000_001))
    taken = runtime.acquire(1, 1_000_001, lanes).leased
    assert [(s.offsets.start, s.lane) for s in taken] == [(1, Lane.NORMAL)]
    # And only what was touched takes room: two blocks.
    stored = durable_records.of_queues(runtime.machine)
    assert len([block for block in stored if block.value is not None]) == 4


def test_messages_wait_until_their_lane_is_known() -> None:
    runtime = Runtime()
    lanes = LaneIndex()
    lanes.advance(5)
    taken = runtime.acquire(100, 10, lanes).leased
    assert [s.offsets for s in taken] == [(0, 5)]
    lanes.append(Lane.CRITICAL, 7, 8)
    taken = runtime.acquire(100, 10, lanes).leased
    assert [(*s.offsets, s.lane) for s in taken] == [
        (7, 8, Lane.CRITICAL),
        (5, 7, Lane.NORMAL),
    ]


def test_retention_over_a_huge_span_is_cheap() -> None:
    runtime = Runtime()
    runtime.acquire(10, 100)
    end = 1 << 50
    runtime.take(runtime.machine.skip(Skip(queue=KEY, log_start=end), ticket=Ticket(0), now_ms=3))
    assert runtime.describe(end).floor == end
    assert runtime.describe(end).in_flight == 0
    runtime.take(
        runtime.machine.skip(
            Skip(queue=KEY, skipped=(OffsetRange(end + 5, 2 * end),)), ticket=Ticket(0), now_ms=3
        )
    )
    assert runtime.describe(2 * end).ready == 5
    assert len(runtime.table) == 3


@pytest.mark.parametrize("stored", range(6))
def test_a_reset_that_was_stored_in_part_is_whole_or_nothing(stored: int) -> None:
    runtime = Runtime()
    runtime.acquire(5_000, 5_000)
    runtime.accept(OffsetRange(1, 2), OffsetRange(2_000, 2_001), OffsetRange(4_000, 4_001))
    before = runtime.describe(5_000)
    request = ResetQueue(queue=KEY, start=0)
    runtime.take(runtime.machine.reset_queue(request, ticket=Ticket(0), now_ms=9), stored=stored)
    runtime.restart()
    after = runtime.describe(5_000)
    if stored == 0:
        assert after.settled_above_floor == before.settled_above_floor == 3
        assert after.ready == 4_997
    else:
        assert after.settled_above_floor == 0
        assert after.delivery_counts == {}
        assert after.ready == 5_000
        # Remains of the old generation are cleared away.
        assert not [key for key in runtime.table if b"block" in key]


@pytest.mark.parametrize("stored", range(1, 6))
def test_a_deletion_that_was_stored_in_part_is_finished(stored: int) -> None:
    runtime = Runtime()
    runtime.acquire(5_000, 5_000)
    runtime.accept(OffsetRange(0, 1), OffsetRange(2_000, 2_001))
    outcome = runtime.machine.delete_queues(DeleteQueues(group="g"), ticket=Ticket(0))
    runtime.take(outcome, stored=stored)
    assert runtime.table
    runtime.restart()
    assert runtime.machine.list_queues() == []
    assert not runtime.table


@pytest.mark.parametrize("stored", range(5))
def test_an_acknowledgement_stored_in_part_loses_nothing_else(stored: int) -> None:
    runtime = Runtime()
    runtime.acquire(4_000, 4_000)
    runtime.accept(OffsetRange(0, 10), OffsetRange(1_500, 1_600))
    items = (
        Acknowledgement(offsets=OffsetRange(10, 1_500), action=AckAction.ACCEPT),
        Acknowledgement(offsets=OffsetRange(1_600, 3_000), action=AckAction.ACCEPT),
    )
    request = Acknowledge(queue=KEY, member="m", items=items)
    runtime.take(runtime.machine.acknowledge(request, ticket=Ticket(0), now_ms=3), stored=stored)
    runtime.restart()
    again = {o for s in runtime.acquire(4_000, 4_000).leased for o in range(*s.offsets)}
    assert not again & {*range(10), *range(1_500, 1_600)}
    assert again >= set(range(3_000, 4_000))
    # The floor is stored first and covers all of it.
    assert (again == set(range(3_000, 4_000))) == (stored > 0)
