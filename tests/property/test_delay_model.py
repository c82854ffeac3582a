"""The state of delayed messages: an index of any moment and the log after it make the whole.

Random messages, claims, deliveries, cancellations, rewrites and deletions run against a machine. At
random moments an index takes over what changed, as the broker does it: in slices, while the machine
goes on. A machine that begins with the index and replays the rest must know the same.
"""

import copy
from collections import deque
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.state.delays.machine import Claim, DelayMachine, Target, Unindexed
from goqueue.state.delays.pending import Entry
from goqueue.state.delays.records import (
    Cancelled,
    Delivered,
    Dropped,
    Note,
    ProducerTaken,
    Restarted,
    Scheduled,
    TargetKey,
)

NOW_MS = 1_000_000
HOT_UNTIL_MS = NOW_MS + 1_000
TARGETS = [TargetKey(UUID(int=number // 2), number % 2) for number in range(6)]
Item = tuple[Scheduled, int, int] | Note


class Index:
    """What the table on disk holds: rows, and the machine's other knowledge at an offset."""

    def __init__(self) -> None:
        self.rows: dict[int, Entry] = {}
        self.offset = 0
        self.position: tuple[int, int | None, list[Target]] | None = None


class World:
    def __init__(self) -> None:
        self.machine = DelayMachine(now_ms=NOW_MS, hot_until_ms=HOT_UNTIL_MS)
        self.log: list[Item] = []
        self.index = Index()
        self.gone_topics: set[UUID] = set()
        self._work: Unindexed | None = None
        self._pending_position: tuple[int, int, int | None, list[Target]] | None = None
        self.write(ProducerTaken(7))

    def write(self, item: Item) -> None:
        self.log.append(item)
        apply(self.machine, item)

    # --- what may happen ------------------------------------------------------------------

    def schedule(self, target: TargetKey, due_ms: int, count: int) -> None:
        if target.topic_id in self.gone_topics:
            return
        first = self.machine.next_number
        for at in range(count):
            address = Scheduled(first + at, due_ms + at, target, count - 1 - at)
            self.write((address, len(self.log), 100 + at))

    def claim(self, now_ms: int, count: int) -> None:
        by_target: dict[int, list[int]] = {}
        for number in sorted(self.machine.pending):
            entry = self.machine.pending.get(number)
            assert entry is not None
            if entry.due_ms <= now_ms and not self.machine.targets[entry.target].is_dropped:
                by_target.setdefault(entry.target, []).append(number)
        for target, numbers in by_target.items():
            for note in self.machine.claim(target, [numbers[:count]]):
                self.write(note)

    def deliver(self, pick: int) -> None:
        waiting = [target for target in self.machine.targets if target.claims]
        if waiting:
            target = waiting[pick % len(waiting)]
            claim = target.claims[pick % len(target.claims)]
            self.write(Delivered(*target.key, claim.next_sequence))

    def restart(self, pick: int) -> None:
        waiting = [target for target in self.machine.targets if target.claims]
        if waiting:
            self.write(Restarted(*waiting[pick % len(waiting)].key, 8))

    def cancel(self, pick: int) -> None:
        entries = self._all_pending()
        if entries:
            entry = entries[pick % len(entries)]
            key = self.machine.targets[entry.target].key
            self.write(Cancelled(*key, entry.number, entry.due_ms, entry.size_bytes))

    def write_again(self, pick: int) -> None:
        entries = self._all_pending()
        if entries:
            entry = entries[pick % len(entries)]
            key = self.machine.targets[entry.target].key
            address = Scheduled(entry.number, entry.due_ms, key, 0)
            self.write((address, len(self.log), entry.size_bytes))

    def drop(self, topic: int) -> None:
        topic_id = UUID(int=topic % 3)
        self.gone_topics.add(topic_id)
        self.write(Dropped(topic_id))

    def _all_pending(self) -> list[Entry]:
        """In memory, or in the index only."""
        machine = self.machine
        in_memory = [*machine.pending, *machine.far, *(self._work.far if self._work else ())]
        found = {number: machine.find(number) for number in in_memory}
        # On its way out of the index; the broker looks there when that is done.
        leaving = self._work.settled if self._work else ()
        for number, entry in self.index.rows.items():
            is_gone = machine.is_settled(number) or number in leaving
            if entry.due_ms >= HOT_UNTIL_MS and not is_gone:
                found.setdefault(number, entry)
        return [
            entry
            for _, entry in sorted(found.items())
            if entry is not None and not machine.targets[entry.target].is_dropped
        ]

    # --- the index ------------------------------------------------------------------------

    def index_step(self) -> None:
        """Begin to index, or end what was begun."""
        machine = self.machine
        if self._work is None:
            targets = [copy.deepcopy(target) for target in machine.targets]
            self._pending_position = (
                len(self.log),
                machine.next_number,
                machine.producer_id,
                targets,
            )
            self._work = machine.begin_indexing()
            return
        work, self._work = self._work, None
        numbers = [*work.numbers, *work.moved]
        rows = machine.near_rows(numbers)
        for start in range(0, len(rows), 5):
            entry = Entry(*rows[start : start + 5])
            self.index.rows[entry.number] = entry
        self.index.rows |= work.far
        for number in work.settled:
            self.index.rows.pop(number, None)
        dropped = set(work.dropped)
        self.index.rows = {
            number: entry
            for number, entry in self.index.rows.items()
            if entry.target not in dropped
        }
        machine.end_indexing(work, succeeded=True)
        assert self._pending_position is not None
        self.index.offset, next_number, producer_id, targets = self._pending_position
        self.index.position = (next_number, producer_id, targets)

    def index_fails(self) -> None:
        if self._work is not None:
            self.machine.end_indexing(self._work, succeeded=False)
            self._work = None


def apply(machine: DelayMachine, item: Item) -> None:
    if isinstance(item, tuple):
        machine.replay_scheduled(*item)
    else:
        machine.replay(item)


def recovered(world: World) -> tuple[DelayMachine, dict[int, Entry]]:
    """A machine from the index and the rest of the log, and the rows it relies on."""
    machine = DelayMachine(now_ms=NOW_MS, hot_until_ms=HOT_UNTIL_MS)
    index = world.index
    rows = dict(index.rows)
    if index.position is not None:
        next_number, producer_id, targets = index.position
        fresh = []
        for target in targets:
            claims = deque(Claim(*claim) for claim in target.claims)
            fresh.append(
                Target(
                    target.key,
                    producer_id=target.producer_id,
                    next_sequence=target.next_sequence,
                    is_dropped=target.is_dropped,
                    claims=claims,
                )
            )
        machine.restore(next_number=next_number, producer_id=producer_id, targets=fresh, origins=[])
        machine.restore_near(entry for entry in rows.values() if entry.due_ms < HOT_UNTIL_MS)
        for entry in rows.values():
            if entry.due_ms >= HOT_UNTIL_MS:
                machine.restore_far(entry.target, 1, entry.size_bytes)
    for item in world.log[index.offset :]:
        apply(machine, item)
    return machine, rows


def known(machine: DelayMachine, rows: dict[int, Entry]) -> dict[str, object]:
    """What must be the same, whatever way the machine took."""

    def alive(entry: Entry) -> bool:
        return not machine.targets[entry.target].is_dropped

    def named(entry: Entry) -> tuple[object, ...]:
        key = machine.targets[entry.target].key
        return entry.number, entry.due_ms, key, entry.offset, entry.size_bytes

    near = [machine.pending.get(number) for number in machine.pending]
    far = {
        number: entry
        for number, entry in rows.items()
        if entry.due_ms >= HOT_UNTIL_MS and not machine.is_settled(number)
    }
    far |= machine.far
    return {
        "near": {named(entry) for entry in near if entry is not None and alive(entry)},
        "far": {named(entry) for entry in far.values() if alive(entry)},
        "claimed": {named(entry) for entry in machine.claimed.values()},
        "targets": {
            target.key: (
                target.pending,
                target.producer_id,
                target.next_sequence,
                [(c.producer_id, c.base_sequence, list(c.numbers)) for c in target.claims],
            )
            for target in machine.targets
            if not target.is_dropped
        },
        "next": (machine.next_number, machine.producer_id),
    }


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("schedule"),
            st.sampled_from(TARGETS),
            st.sampled_from([NOW_MS - 5, NOW_MS + 10, NOW_MS + 500, NOW_MS + 5_000]),
            st.integers(1, 4),
        ),
        st.tuples(st.just("claim"), st.integers(NOW_MS, HOT_UNTIL_MS), st.integers(1, 5)),
        st.tuples(st.sampled_from(["deliver", "cancel", "write_again"]), st.integers(0, 50)),
        st.tuples(st.sampled_from(["restart", "drop"]), st.integers(0, 50)),
        st.tuples(st.sampled_from(["index_step", "index_step", "index_fails"])),
    ),
    max_size=60,
)


@settings(max_examples=300)
@given(STEPS)
def test_recovery_reaches_the_same_state(steps: list[tuple[object, ...]]) -> None:
    world = World()
    for name, *arguments in steps:
        getattr(world, str(name))(*arguments)
    machine, rows = recovered(world)
    world.index_fails()
    assert known(machine, rows) == known(world.machine, world.index.rows)
