"""Producer state against a plain oracle: retries, zombies, reordering, markers and restarts."""

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from goqueue.model.aborted import AbortedTransaction
from goqueue.model.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import (
    DuplicateSequence,
    GoQueueError,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from goqueue.state.producers.partition import Duplicate, PartitionProducers

SEQUENCES = 2**31
WINDOW = 5

producer_ids = st.integers(0, 2)
epochs = st.integers(0, 3)
counts = st.integers(1, 4)


class Stored(NamedTuple):
    first: int
    size: int
    offset: int


class KnownProducer:
    def __init__(self) -> None:
        self.epoch = -1
        self.batches: list[Stored] = []
        self.sequences: set[int] = set()
        self.transaction_at: int | None = None

    def enter(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.batches, self.sequences = epoch, [], set()

    @property
    def next(self) -> int:
        if not self.batches:
            return 0
        last = self.batches[-1]
        return (last.first + last.size) % SEQUENCES


def header_of(
    producer_id: int, epoch: int, sequence: int, count: int, *, offset: int, attributes: int
) -> BatchHeader:
    return BatchHeader(
        offset, 0, 0, 2, 0, attributes, count - 1, 0, offset, producer_id, epoch, sequence, count
    )


class ProducersAgainstOracle(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.producers = PartitionProducers()
        self.known: dict[int, KnownProducer] = {}
        self.log: list[tuple[BatchHeader, Marker | None]] = []
        self.snapshots: list[tuple[int, bytes]] = []
        self.end = 0

    def expected(
        self, producer_id: int, epoch: int, sequence: int, count: int, transactional: bool
    ) -> type[GoQueueError] | int | None:
        """The error, the offset of the duplicate, or None for a batch to append."""
        known = self.known.get(producer_id)
        if known is None:
            return None
        wanted = {(sequence + i) % SEQUENCES for i in range(count)}
        if epoch == known.epoch:
            for stored in known.batches[-WINDOW:]:
                if (stored.first, stored.size) == (sequence, count):
                    return stored.offset
        if epoch < known.epoch:
            return InvalidProducerEpoch
        if known.transaction_at is not None and not transactional:
            return InvalidTransactionState
        if epoch > known.epoch:
            return None if sequence == 0 else OutOfOrderSequence
        if sequence == known.next:
            return None
        return DuplicateSequence if wanted <= known.sequences else OutOfOrderSequence

    @rule(
        producer_id=producer_ids,
        epoch=epochs,
        step=st.integers(-12, 2),
        count=counts,
        transactional=st.booleans(),
        begin=st.sampled_from([0, 0, 3, SEQUENCES - 2]),
    )
    def send(
        self, producer_id: int, epoch: int, step: int, count: int, transactional: bool, begin: int
    ) -> None:
        known = self.known.get(producer_id)
        following = begin if known is None else known.next
        self.attempt(producer_id, epoch, (following + step) % SEQUENCES, count, transactional)

    @rule(producer_id=producer_ids, count=counts, transactional=st.booleans())
    def send_in_order(self, producer_id: int, count: int, transactional: bool) -> None:
        known = self.known.get(producer_id)
        epoch, following = (0, 0) if known is None else (known.epoch, known.next)
        self.attempt(producer_id, epoch, following, count, transactional)

    @precondition(lambda self: any(k.batches for k in self.known.values()))
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        producer_id = data.draw(st.sampled_from([i for i, k in self.known.items() if k.batches]))
        known = self.known[producer_id]
        stored = data.draw(st.sampled_from(known.batches))
        self.attempt(producer_id, known.epoch, stored.first, stored.size, False)

    def attempt(
        self, producer_id: int, epoch: int, sequence: int, count: int, transactional: bool
    ) -> None:
        expected = self.expected(producer_id, epoch, sequence, count, transactional)
        attributes = TRANSACTIONAL_BIT if transactional else 0
        header = header_of(
            producer_id, epoch, sequence, count, offset=self.end, attributes=attributes
        )
        outcome: type[GoQueueError] | int | None
        try:
            answer = self.producers.check(header)
            outcome = answer.base_offset if isinstance(answer, Duplicate) else None
        except GoQueueError as error:
            outcome = type(error)
        assert outcome == expected
        if outcome is None:
            self.append(header, None)
            known = self.known.setdefault(producer_id, KnownProducer())
            known.enter(epoch)
            known.batches.append(Stored(sequence, count, header.base_offset))
            known.sequences |= {(sequence + i) % SEQUENCES for i in range(count)}
            if transactional and known.transaction_at is None:
                known.transaction_at = header.base_offset

    @rule(producer_id=producer_ids, raise_by=st.integers(0, 1), commit=st.booleans())
    def mark(self, producer_id: int, raise_by: int, commit: bool) -> None:
        known = self.known.setdefault(producer_id, KnownProducer())
        epoch = max(known.epoch, 0) + raise_by
        header = header_of(
            producer_id, epoch, -1, 1, offset=self.end, attributes=TRANSACTIONAL_BIT | CONTROL_BIT
        )
        assert self.producers.check_marker(producer_id, epoch, 0, bumps_epoch=False)
        entry = self.append(header, Marker(MarkerType.COMMIT if commit else MarkerType.ABORT, 0))
        first = known.transaction_at
        known.enter(epoch)
        known.transaction_at = None
        if commit or first is None:
            assert entry is None
        else:
            stable = min(self.open_transactions(), default=self.end)
            assert entry == AbortedTransaction(producer_id, first, header.base_offset, stable)

    def append(self, header: BatchHeader, marker: Marker | None) -> AbortedTransaction | None:
        self.log.append((header, marker))
        self.end = header.next_offset
        return self.producers.update(header, marker)

    @rule()
    def take_snapshot(self) -> None:
        self.snapshots.append((len(self.log), self.producers.snapshot()))

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        position, snapshot = data.draw(st.sampled_from([(0, b""), *self.snapshots]))
        empty = PartitionProducers()
        rebuilt = PartitionProducers.from_snapshot(snapshot) if snapshot else empty
        for header, marker in self.log[position:]:
            rebuilt.update(header, marker)
        assert sorted(rebuilt.describe()) == sorted(self.producers.describe())
        self.producers = rebuilt

    def open_transactions(self) -> list[int]:
        return [k.transaction_at for k in self.known.values() if k.transaction_at is not None]

    @invariant()
    def stable_offset_is_the_oldest_open_transaction(self) -> None:
        assert self.producers.last_stable_offset(self.end) == min(
            self.open_transactions(), default=self.end
        )


TestProducersAgainstOracle = ProducersAgainstOracle.TestCase
TestProducersAgainstOracle.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None
)
