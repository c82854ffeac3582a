"""One queue: its ledger, which is durable, and around it what a crash forgets."""

from dataclasses import dataclass, field

from goqueue.model.queues.lanes import LANES, Lane, LaneMode
from goqueue.model.queues.messages import QueueKey
from goqueue.model.queues.settings import QueueSettings
from goqueue.state.machine import StateRecord
from goqueue.state.priority.index import LaneIndex
from goqueue.state.priority.scheduler import LaneScheduler
from goqueue.state.queues.holds import Hold
from goqueue.state.queues.ledger import Ledger
from goqueue.state.queues.pieces import BlockMap
from goqueue.state.queues.range_set import RangeSet
from goqueue.state.queues.records import (
    BlockValue,
    FloorValue,
    HeadValue,
    block_tombstones,
    floor_record,
    head_record,
)

# Before the first record of a queue: any generation is newer.
_NO_GENERATION = -1
# The cursor of reads that ignore lanes.
ALL_LANES = len(LANES)


@dataclass(slots=True)
class Counters:
    """Messages since the machine was loaded."""

    accepted: int = 0
    released: int = 0
    retried: int = 0
    rejected: int = 0
    timed_out: int = 0
    expired: int = 0
    skipped: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    dequeued: list[int] = field(default_factory=lambda: [0] * len(LANES))
    last_served_ms: list[int | None] = field(default_factory=lambda: [None] * len(LANES))


class Queue:
    __slots__ = (
        "counters",
        "cursors",
        "head",
        "holds",
        "in_flight",
        "is_limited",
        "key",
        "ledger",
        "returned",
        "scheduler",
        "stale_blocks",
        "unsorted",
        "waiting",
    )

    def __init__(self, key: QueueKey) -> None:
        self.key = key
        # Durable. No head: only its remains are in the log.
        self.head: HeadValue | None = None
        self.ledger = Ledger(_NO_GENERATION, 0)
        # Blocks of older generations that the log still has.
        self.stale_blocks: set[int] = set()
        # Volatile.
        self.counters = Counters()
        self.scheduler = LaneScheduler()
        self.forget()

    def forget(self) -> None:
        """Start the volatile state anew; the holds must have been dropped."""
        self.holds: BlockMap[Hold | None] = BlockMap(None)
        self.in_flight = [0] * len(LANES)
        self.waiting = [0] * len(LANES)
        # Delivered before and ready again, by lane.
        self.returned = [RangeSet() for _ in LANES]
        # The same, when nobody has said yet which lanes they are in.
        self.unsorted = RangeSet()
        # No offset of the lane below its cursor is fresh; the last one is of all lanes as one.
        self.cursors = [0] * (len(LANES) + 1)
        # Somebody got less than there was: what ends a hold must wake them.
        self.is_limited = False

    @property
    def settings(self) -> QueueSettings:
        assert self.head is not None, f"{self.key} has no settings"
        return self.head.settings

    @property
    def unsettled(self) -> int:
        """Delivered and neither settled nor dying."""
        returned = sum(ranges.size for ranges in self.returned)
        return sum(self.in_flight) + sum(self.waiting) + returned + self.unsorted.size

    def sort_returned(self, lanes: LaneIndex | None) -> None:
        """Put what was found after loading into its lanes."""
        if lanes is None and not self.returned[Lane.NORMAL]:
            self.returned[Lane.NORMAL], self.unsorted = self.unsorted, RangeSet()
            return
        for start, end in self.unsorted:
            if lanes is None:
                self.returned[Lane.NORMAL].add(start, end)
                continue
            for lane in LANES:
                offset = start
                while (offsets := lanes.next_range(lane, offset, end)) is not None:
                    self.returned[lane].add(offsets.start, offsets.end)
                    offset = offsets.end
        self.unsorted = RangeSet()

    def withdraw(self, start: int, end: int) -> None:
        """These are not ready, whatever they were."""
        for ranges in self.returned:
            if ranges:
                ranges.remove(start, end)
        if self.unsorted:
            self.unsorted.remove(start, end)

    # --- replay and storing ---------------------------------------------------------------

    def replay_head(self, value: HeadValue) -> None:
        if self._is_current(value.generation):
            self.head = value
            self.ledger.replay_start(value.start)
            if self.scheduler.mode is not value.settings.lane_mode:
                self.scheduler = LaneScheduler(value.settings.lane_mode)

    def replay_floor(self, value: FloorValue) -> None:
        if self._is_current(value.generation):
            self.ledger.replay_floor(value)

    def replay_block(self, number: int, value: BlockValue | None) -> None:
        self.stale_blocks.discard(number)
        if value is None:
            self.ledger.blocks.pop(number, None)
        elif self._is_current(value.generation):
            self.ledger.replay_block(number, value)
        else:
            self.stale_blocks.add(number)

    def _is_current(self, generation: int) -> bool:
        if generation > self.ledger.generation:
            self.stale_blocks.update(self.ledger.blocks)
            self.ledger = Ledger(generation, 0)
        return generation == self.ledger.generation

    def tombstones(self) -> list[StateRecord]:
        """What deletes the queue. The head comes first: without it the rest counts no more."""
        numbers = sorted(self.stale_blocks.union(self.ledger.blocks))
        return [
            head_record(self.key, None),
            floor_record(self.key, None),
            *block_tombstones(self.key, numbers),
        ]

    @property
    def is_single_lane(self) -> bool:
        return self.settings.lane_mode is LaneMode.SINGLE
