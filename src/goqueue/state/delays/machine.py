"""The delayed messages of one partition of a topic, in the states that `states` lists.

Messages due soon wait in memory (`pending`); those due later stand in an index on disk that the
broker keeps, and until it has taken them, in `far`. Taken in hand for delivery they are `claimed`:
from then on they can no longer be cancelled, and they are forgotten once their target keeps them.
"""

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from goqueue.state.delays.held import HeldMessages, HeldPart
from goqueue.state.delays.pending import Entry, PendingTable
from goqueue.state.delays.records import (
    NO_SPLIT,
    Abandoned,
    Cancelled,
    Claimed,
    Delivered,
    Dropped,
    Held,
    HeldEnded,
    Note,
    Numbered,
    Originated,
    ProducerTaken,
    Remembered,
    Restarted,
    Scheduled,
    TargetKey,
)

SEQUENCE_MASK: Final = 0x7FFF_FFFF
# As many batches as an idempotent producer has on the way at once, per producer and target.
ORIGINS_KEPT: Final = 5
# A producer that falls out of this memory would have to retry across a crash to be noticed.
ORIGIN_PRODUCERS_MAX: Final = 10_000


class Claim(NamedTuple):
    """Messages that go to their target as one batch of a producer."""

    producer_id: int
    base_sequence: int
    numbers: Sequence[int]

    @property
    def next_sequence(self) -> int:
        return (self.base_sequence + len(self.numbers)) & SEQUENCE_MASK


@dataclass(slots=True)
class Target:
    """A partition that messages wait for, and how far it was served, by which producer."""

    key: TargetKey
    producer_id: int | None = None
    next_sequence: int = 0
    pending: int = 0
    is_dropped: bool = False
    claims: deque[Claim] = field(default_factory=deque)


class Origin(NamedTuple):
    """A batch of an idempotent producer, part of which was delayed."""

    target: TargetKey
    producer_id: int
    producer_epoch: int
    base_sequence: int


class KnownBatch(NamedTuple):
    """Of a producer that is known, and when its records were told apart."""

    producer_epoch: int
    base_sequence: int
    split_at_ms: int


@dataclass(slots=True)
class Unindexed:
    """What the index on disk has to take over to stand at this point of the log."""

    numbers: "array[int]"
    far: dict[int, Entry]
    moved: set[int]
    settled: set[int]
    dropped: list[int]
    # Of the log, for messages.
    size_bytes: int


class DelayMachine:
    def __init__(self, *, now_ms: int, hot_until_ms: int) -> None:
        self.pending = PendingTable(now_ms)
        self.far: dict[int, Entry] = {}
        self.claimed: dict[int, Entry] = {}
        self.targets: list[Target] = []
        self.producer_id: int | None = None
        self.next_number = 0
        self.live_bytes = 0
        self.hot_until_ms = hot_until_ms
        self._target_numbers: dict[TargetKey, int] = {}
        self.held = HeldMessages()
        self._origins: dict[tuple[TargetKey, int], list[KnownBatch]] = {}
        # The last group, while its end was not seen.
        self._open_group: list[int] = []
        self._open_origin: Origin | None = None
        # Messages with smaller numbers stand in the index, or are on their way to it.
        self._indexed_below = 0
        # New ones since; those that are gone again among them.
        self._unindexed = array("q")
        # What a start would have to read of messages that the index has not.
        self.unindexed_bytes = 0
        self._indexing_far: dict[int, Entry] = {}
        # While the index takes over: what has changed meanwhile, as it was. The index is to stand
        # where it was begun, and what came later may be cut off the log.
        self._is_indexing = False
        self._indexing_before: dict[int, Entry] = {}
        self._moved: set[int] = set()
        self._settled: set[int] = set()
        self._dropped: list[int] = []
        self._claimed_before: set[int] = set()

    # --- replay ---------------------------------------------------------------------------

    def replay_scheduled(self, address: Scheduled, offset: int, size_bytes: int) -> None:
        number, due_ms, key, group_left = address
        self.unindexed_bytes += size_bytes
        entry = Entry(number, due_ms, self.target_number(key), offset, size_bytes)
        if number < self.next_number and self._replay_moved(entry):
            return
        self._insert(entry)
        self._unindexed.append(number)
        self.targets[entry.target].pending += 1
        self.live_bytes += size_bytes
        if number < self.next_number:
            return
        self.next_number = number + 1
        if group_left:
            self._open_group.append(number)
        else:
            self._open_group = []
            self._open_origin = None

    def _replay_moved(self, entry: Entry) -> bool:
        """The message was written again so that the old part of the log can go.

        False if it is not known here: its first copy is gone already, or it has been settled by a
        note that follows. Messages move only before they are claimed.
        """
        number = entry.number
        before = self.pending.get(number)
        if before is not None:
            self._keep_for_index(before)
            self.pending.move(number, entry.offset)
            if number < self._indexed_below:
                self._moved.add(number)
            return True
        if number in self.far or (
            number < self._indexed_below and entry.due_ms >= self.hot_until_ms
        ):
            self.far[number] = entry
            return True
        return False

    def replay_held(self, note: Held, offset: int) -> None:
        """Its messages stay in the log, at `offset`."""
        size_bytes = len(note.packed_messages)
        batch = (note.producer_epoch, note.base_sequence)
        part = HeldPart(*batch, offset, size_bytes, note.split_at_ms)
        target = TargetKey(note.topic_id, note.partition)
        self.target_number(target)  # known, and so dropped with its topic
        self.held.add(target, note.producer_id, part)
        self.live_bytes += size_bytes
        self.unindexed_bytes += size_bytes

    def replay(self, note: Note) -> None:
        match note:
            case HeldEnded():
                target = TargetKey(note.topic_id, note.partition)
                self.live_bytes -= self.held.end(
                    target, note.producer_id, note.producer_epoch, note.base_sequence
                )
            case Claimed():
                self._replay_claimed(note)
            case Delivered():
                self._replay_delivered(note)
            case Cancelled():
                self._replay_cancelled(note)
            case Originated():
                self._replay_originated(note)
            case Dropped():
                self._replay_dropped(note.topic_id)
            case Abandoned():
                self._replay_abandoned()
            case Restarted():
                self._replay_restarted(note)
            case ProducerTaken():
                self.producer_id = note.producer_id
            case Remembered():
                self._remember(_origin(note), NO_SPLIT)
            case Numbered():
                self.next_number = max(self.next_number, note.next_number)

    def _insert(self, entry: Entry) -> None:
        if entry.due_ms < self.hot_until_ms:
            self.pending.add(entry)
        else:
            self.far[entry.number] = entry

    def _replay_claimed(self, note: Claimed) -> None:
        target = self.targets[self.target_number(TargetKey(note.topic_id, note.partition))]
        taken = Claim(note.producer_id, note.base_sequence, note.numbers)
        target.claims.append(taken)
        target.producer_id = note.producer_id
        target.next_sequence = taken.next_sequence
        for number in taken.numbers:
            # Missing if the index already knows how the story ends.
            entry = self.pending.remove(number) or self.far.pop(number, None)
            if entry is not None:
                target.pending -= 1
                self.claimed[number] = entry

    def _replay_delivered(self, note: Delivered) -> None:
        claims = self.targets[self.target_number(TargetKey(note.topic_id, note.partition))].claims
        while claims:
            settled = claims.popleft()
            for number in settled.numbers:
                entry = self.claimed.pop(number, None)
                if entry is not None:
                    self._settle(entry)
            if settled.next_sequence == note.next_sequence:
                return

    def _replay_cancelled(self, note: Cancelled) -> None:
        number = note.number
        entry = self.pending.remove(number) or self.far.pop(number, None)
        if entry is None and note.due_ms < self.hot_until_ms:
            return  # the index already knows
        target = self.targets[self.target_number(TargetKey(note.topic_id, note.partition))]
        target.pending -= 1
        if entry is None:
            self._forget(number, note.size_bytes)
        else:
            self._settle(entry)

    def _replay_originated(self, note: Originated) -> None:
        origin = _origin(note)
        self._remember(origin, note.split_at_ms)
        self._open_origin = origin

    def _remember(self, origin: Origin, split_at_ms: int) -> None:
        key = (origin.target, origin.producer_id)
        known = self._origins.pop(key, [])
        known.append(KnownBatch(origin.producer_epoch, origin.base_sequence, split_at_ms))
        self._origins[key] = known[-ORIGINS_KEPT:]
        if len(self._origins) > ORIGIN_PRODUCERS_MAX:
            del self._origins[next(iter(self._origins))]

    def _replay_dropped(self, topic_id: UUID) -> None:
        for number, target in enumerate(self.targets):
            if target.key.topic_id != topic_id or target.is_dropped:
                continue
            for taken in target.claims:
                for message in taken.numbers:
                    entry = self.claimed.pop(message, None)
                    if entry is not None:
                        self._settle(entry)
            target.claims.clear()
            target.is_dropped = True
            target.pending = 0
            self._dropped.append(number)
        for key in [key for key in self._origins if key[0].topic_id == topic_id]:
            del self._origins[key]
        self.live_bytes -= self.held.drop(topic_id)

    def _replay_restarted(self, note: Restarted) -> None:
        target = self.targets[self.target_number(TargetKey(note.topic_id, note.partition))]
        target.producer_id = note.producer_id
        target.next_sequence = 0
        for _ in range(len(target.claims)):
            numbers = target.claims.popleft().numbers
            target.claims.append(Claim(note.producer_id, target.next_sequence, numbers))
            target.next_sequence = target.claims[-1].next_sequence

    def _replay_abandoned(self) -> None:
        for number in self._open_group:
            entry = self.pending.remove(number) or self.far.pop(number, None)
            if entry is not None:
                self.targets[entry.target].pending -= 1
                self._settle(entry)
        self._open_group = []
        origin, self._open_origin = self._open_origin, None
        if origin is not None:
            self._origins[origin.target, origin.producer_id].pop()

    def _settle(self, entry: Entry) -> None:
        self._keep_for_index(entry)
        self._forget(entry.number, entry.size_bytes)

    def _forget(self, number: int, size_bytes: int) -> None:
        self.live_bytes -= size_bytes
        if number < self._indexed_below:
            self._settled.add(number)

    def _keep_for_index(self, before: Entry) -> None:
        if self._is_indexing:
            self._indexing_before.setdefault(before.number, before)

    def target_number(self, key: TargetKey) -> int:
        number = self._target_numbers.get(key)
        if number is None:
            number = self._target_numbers[key] = len(self.targets)
            self.targets.append(Target(key))
        return number

    # --- deciding -------------------------------------------------------------------------

    @property
    def is_between_groups(self) -> bool:
        """Whether all messages that came together are known."""
        return not self._open_group and self._open_origin is None

    def loaded(self) -> Note | None:
        """What recovery has to write down first."""
        return None if self.is_between_groups else Abandoned()

    def is_known(self, origin: Origin) -> bool:
        """Whether the delayed part of this batch is here already."""
        return self.split_at_ms(origin) is not None

    def split_at_ms(self, origin: Origin) -> int | None:
        """By which time this batch was split; None if its delayed part is not here."""
        for batch in self._origins.get((origin.target, origin.producer_id), ()):
            if batch[:2] == (origin.producer_epoch, origin.base_sequence):
                return batch.split_at_ms
        return None

    def claim(self, target: int, batches: Iterable[Sequence[int]]) -> list[Claimed]:
        """Take messages in hand for their target, batch by batch."""
        assert self.producer_id is not None
        found = self.targets[target]
        sequence = found.next_sequence if found.producer_id == self.producer_id else 0
        claims = []
        for numbers in batches:
            packed = array("q", numbers).tobytes()
            claims.append(Claimed(*found.key, self.producer_id, sequence, packed))
            sequence = (sequence + len(numbers)) & SEQUENCE_MASK
        return claims

    def is_settled(self, number: int) -> bool:
        """Whether the index still has a message that is gone."""
        return number in self._settled

    def waits(self, entry: Entry) -> bool:
        """Whether a message that the index has is still `WAITING`."""
        if entry.number in self._settled or self.targets[entry.target].is_dropped:
            return False
        return entry.number in self.pending or entry.due_ms >= self.hot_until_ms

    def find(self, number: int) -> Entry | None:
        """A message that waits in memory."""
        entry = self.pending.get(number) or self.far.get(number)
        if entry is None and number not in self._settled:
            entry = self._indexing_far.get(number)
        return entry

    def in_memory(self) -> Iterator[Entry]:
        """All that are `WAITING`, as long as the index has none and takes none over."""
        for number in (*self.pending, *self.far):
            entry = self.find(number)
            if entry is not None and not self.targets[entry.target].is_dropped:
                yield entry

    def discard(self, number: int) -> None:
        """Forget a message whose topic is gone."""
        entry = self.pending.remove(number)
        if entry is not None:
            self._settle(entry)

    # --- the index on disk ----------------------------------------------------------------

    @property
    def changes(self) -> int:
        """About how much the index has to take over."""
        return len(self._unindexed) + len(self._settled) + len(self._dropped) + len(self._moved)

    def begin_indexing(self) -> Unindexed:
        """Hand over what changed. What settles from now on is for the next time."""
        work = Unindexed(
            self._unindexed,
            self.far,
            self._moved,
            self._settled,
            self._dropped,
            self.unindexed_bytes,
        )
        self.unindexed_bytes = 0
        self._is_indexing = True
        self._indexed_below = self.next_number
        self._unindexed = array("q")
        self._indexing_far, self.far = self.far, {}
        self._moved, self._settled, self._dropped = set(), set(), []
        return work

    def near_rows(self, numbers: Sequence[int]) -> list[int]:
        """The fields of entries that were due soon or claimed when the index began to take over,
        all in one list."""
        before = self._indexing_before
        rows = self.pending.rows(n for n in numbers if n not in before)
        if self.claimed or before:
            for number in numbers:
                rows += before.get(number, self.claimed.get(number, ()))
        return rows

    def end_indexing(self, work: Unindexed, *, succeeded: bool) -> None:
        self._indexing_far = {}
        self._is_indexing, self._indexing_before = False, {}
        if succeeded:
            return
        self._unindexed = work.numbers + self._unindexed
        self.far = {n: e for n, e in work.far.items() if n not in self._settled} | self.far
        self._moved |= work.moved
        self._settled |= work.settled
        self._dropped = work.dropped + self._dropped
        self.unindexed_bytes += work.size_bytes

    def warm(self, rows: Iterable[Entry], until_ms: int) -> None:
        """Take messages due before `until_ms` into memory: `rows` are those of the index."""
        self.hot_until_ms = until_ms
        near = {entry.number: entry for entry in rows if entry.number not in self._settled}
        for number in [n for n, entry in self.far.items() if entry.due_ms < until_ms]:
            near[number] = self.far.pop(number)
        for entry in near.values():
            if entry.number not in self.claimed and not self.targets[entry.target].is_dropped:
                self.pending.add(entry)

    # --- recovery ---------------------------------------------------------------------------

    def origins(self) -> list[tuple[TargetKey, int, list[KnownBatch]]]:
        """What is remembered of idempotent producers: target, producer, batches."""
        return [(target, producer, known) for (target, producer), known in self._origins.items()]

    def restore(
        self,
        *,
        next_number: int,
        producer_id: int | None,
        targets: Iterable[Target],
        origins: Iterable[tuple[TargetKey, int, list[KnownBatch]]],
        held: Iterable[tuple[TargetKey, int, HeldPart]] = (),
    ) -> None:
        """Begin where an index stands; its messages follow."""
        self.next_number = self._indexed_below = next_number
        self.producer_id = producer_id
        for target in targets:
            self._target_numbers[target.key] = len(self.targets)
            self.targets.append(target)
        for key, producer, known in origins:
            self._origins[key, producer] = known
        for key, producer, part in held:
            self.held.add(key, producer, part)
            self.live_bytes += part.size_bytes
        self._claimed_before = {
            number for target in self.targets for taken in target.claims for number in taken.numbers
        }

    def restore_near(self, entries: Iterable[Entry]) -> None:
        """Messages of the index that are due before `hot_until_ms`, claimed ones among them."""
        for entry in entries:
            target = self.targets[entry.target]
            if target.is_dropped:
                continue
            self.live_bytes += entry.size_bytes
            if entry.number in self._claimed_before:
                self.claimed[entry.number] = entry
            else:
                self.pending.add(entry)
                target.pending += 1

    def restore_far(self, target: int, count: int, size_bytes: int) -> None:
        """How much the index holds for a target beyond that."""
        if not self.targets[target].is_dropped:
            self.targets[target].pending += count
            self.live_bytes += size_bytes


def _origin(note: Originated | Remembered) -> Origin:
    target = TargetKey(note.topic_id, note.partition)
    return Origin(target, note.producer_id, note.producer_epoch, note.base_sequence)
