"""Batches of idempotent and transactional producers against one partition."""

import pytest

from goqueue.model.aborted import AbortedTransaction
from goqueue.model.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import (
    DuplicateSequence,
    GoQueueError,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    PartitionOffline,
    TransactionCoordinatorFenced,
)
from goqueue.model.log import ProducerView
from goqueue.state.producers.partition import (
    Duplicate,
    PartitionProducers,
)
from goqueue.state.producers.snapshot import SnapshotCorrupt
from goqueue.state.producers.verification import ALREADY_ONGOING

PRODUCER = 7
LAST_SEQUENCE = 2**31 - 1
DAY_MS = 86_400_000


def batch(
    sequence: int,
    count: int = 1,
    *,
    offset: int = 0,
    epoch: int = 0,
    producer_id: int = PRODUCER,
    transactional: bool = False,
    control: bool = False,
    timestamp_ms: int = 1_000,
) -> BatchHeader:
    attributes = (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)
    return BatchHeader(
        base_offset=offset,
        length=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


class Log:
    """A partition: checks, gives offsets, replays."""

    def __init__(self) -> None:
        self.producers = PartitionProducers()
        self.end = 0
        self.headers: list[tuple[BatchHeader, Marker | None]] = []

    def send(self, header: BatchHeader, *, guard: int | None = None) -> Duplicate | int:
        duplicate = self.producers.check(header, guard=guard)
        if duplicate is not None:
            return duplicate
        offset = self.end
        self._store(header._replace(base_offset=offset), None)
        return offset

    def mark(
        self,
        type_: MarkerType,
        *,
        epoch: int = 0,
        producer_id: int = PRODUCER,
        coordinator_epoch: int = 0,
        bumps_epoch: bool = False,
    ) -> AbortedTransaction | bool | None:
        if not self.producers.check_marker(
            producer_id, epoch, coordinator_epoch, bumps_epoch=bumps_epoch
        ):
            return False
        header = batch(
            -1,
            offset=self.end,
            epoch=epoch,
            producer_id=producer_id,
            transactional=True,
            control=True,
        )
        return self._store(header, Marker(type_, coordinator_epoch))

    def _store(self, header: BatchHeader, marker: Marker | None) -> AbortedTransaction | None:
        self.headers.append((header, marker))
        self.end = header.next_offset
        return self.producers.update(header, marker)

    @property
    def stable(self) -> int:
        return self.producers.last_stable_offset(self.end)


@pytest.fixture
def log() -> Log:
    return Log()


def test_batches_in_sequence_are_appended(log: Log) -> None:
    assert log.send(batch(0, 3)) == 0
    assert log.send(batch(3, 2)) == 3
    assert log.send(batch(5)) == 5


def test_batches_without_a_producer_leave_no_trace(log: Log) -> None:
    assert log.send(batch(-1, producer_id=-1)) == 0
    assert len(log.producers) == 0


def test_a_retry_is_answered_with_the_original_place(log: Log) -> None:
    for sequence in range(5):
        log.send(batch(sequence * 2, 2, timestamp_ms=100 + sequence))
    for sequence in range(5):
        assert log.send(batch(sequence * 2, 2)) == Duplicate(
            sequence * 2, sequence * 2 + 1, 100 + sequence
        )
    assert log.end == 10


def test_a_retry_older_than_five_batches_is_only_known_as_duplicate(log: Log) -> None:
    for sequence in range(6):
        log.send(batch(sequence))
    with pytest.raises(DuplicateSequence, match="sequence 0 again"):
        log.send(batch(0))


def test_a_batch_cut_differently_is_a_duplicate_without_offset(log: Log) -> None:
    log.send(batch(0, 4))
    log.send(batch(4, 4))
    with pytest.raises(DuplicateSequence):
        log.send(batch(2, 3))


def test_a_partly_new_batch_is_refused(log: Log) -> None:
    log.send(batch(0, 4))
    with pytest.raises(OutOfOrderSequence):
        log.send(batch(2, 4))


@pytest.mark.parametrize("sequence", [2, 100, LAST_SEQUENCE])
def test_a_gap_is_refused(log: Log, sequence: int) -> None:
    log.send(batch(0))
    with pytest.raises(OutOfOrderSequence, match=f"sequence {sequence}, expected 1"):
        log.send(batch(sequence))


def test_an_unknown_producer_may_begin_anywhere(log: Log) -> None:
    assert log.send(batch(41)) == 0
    with pytest.raises(OutOfOrderSequence):
        log.send(batch(40))  # never seen here, so no duplicate
    assert log.send(batch(42)) == 1


def test_sequences_wrap_around(log: Log) -> None:
    log.send(batch(LAST_SEQUENCE - 1, 4))  # … MAX-1, MAX, 0, 1
    assert log.send(batch(LAST_SEQUENCE - 1, 4)) == Duplicate(0, 3, 1_000)
    with pytest.raises(OutOfOrderSequence):
        log.send(batch(3))
    assert log.send(batch(2)) == 4


def test_an_older_epoch_is_fenced(log: Log) -> None:
    log.send(batch(0, epoch=3))
    with pytest.raises(InvalidProducerEpoch, match="epoch 2; epoch 3"):
        log.send(batch(1, epoch=2))


def test_a_new_epoch_begins_with_sequence_zero(log: Log) -> None:
    log.send(batch(0, 5))
    with pytest.raises(OutOfOrderSequence, match="a new epoch begins with 0"):
        log.send(batch(5, epoch=1))
    assert log.send(batch(0, epoch=1)) == 5
    assert log.send(batch(0, epoch=1)) == Duplicate(5, 5, 1_000)


def test_commit_moves_the_stable_offset(log: Log) -> None:
    log.send(batch(0, transactional=True))
    log.send(batch(1, transactional=True))
    assert log.stable == 0
    assert log.mark(MarkerType.COMMIT) is None
    assert log.stable == 3


def test_abort_gives_an_index_entry(log: Log) -> None:
    log.send(batch(-1, producer_id=-1))
    log.send(batch(0, 2, transactional=True))
    log.send(batch(0, producer_id=8, transactional=True))
    assert log.mark(MarkerType.ABORT) == AbortedTransaction(PRODUCER, 1, 4, 3)
    assert log.stable == 3
    assert log.mark(MarkerType.ABORT, producer_id=8) == AbortedTransaction(8, 3, 5, 6)
    assert log.stable == 6


def test_a_marker_without_data_gives_no_index_entry(log: Log) -> None:
    assert log.mark(MarkerType.ABORT) is None
    assert log.end == 1
    assert log.stable == 1


def test_an_ended_transaction_is_unstable_until_its_marker_is_committed(log: Log) -> None:
    log.send(batch(0, transactional=True))
    log.mark(MarkerType.COMMIT)
    assert log.producers.last_stable_offset(1) == 0
    assert log.producers.last_stable_offset(2) == 2


def test_a_plain_batch_inside_a_transaction_is_refused(log: Log) -> None:
    log.send(batch(0, transactional=True))
    with pytest.raises(InvalidTransactionState, match="open since offset 0"):
        log.send(batch(1))


def test_offset_commits_carry_no_sequence_but_are_fenced(log: Log) -> None:
    log.send(batch(-1, epoch=1, transactional=True))
    log.send(batch(-1, epoch=1, transactional=True))
    assert log.stable == 0
    with pytest.raises(InvalidProducerEpoch):
        log.send(batch(-1, epoch=0, transactional=True))


def test_a_fencing_marker_shuts_the_old_epoch_out(log: Log) -> None:
    log.send(batch(0, transactional=True))
    log.mark(MarkerType.ABORT, epoch=1, bumps_epoch=True)
    with pytest.raises(InvalidProducerEpoch):
        log.send(batch(1, transactional=True))
    assert log.send(batch(0, epoch=1, transactional=True)) == 2


def test_a_repeated_marker_of_version_two_is_not_written_again(log: Log) -> None:
    log.send(batch(0, transactional=True))
    assert log.mark(MarkerType.COMMIT, epoch=1, bumps_epoch=True) is None
    assert log.mark(MarkerType.COMMIT, epoch=1, bumps_epoch=True) is False
    assert log.end == 2


def test_a_late_marker_of_version_two_cannot_end_the_next_transaction(log: Log) -> None:
    log.send(batch(0, transactional=True))
    log.mark(MarkerType.ABORT, epoch=1, bumps_epoch=True)
    log.send(batch(0, epoch=1, transactional=True))
    with pytest.raises(InvalidProducerEpoch):
        log.mark(MarkerType.ABORT, epoch=1, bumps_epoch=True)
    assert log.stable == 2


def test_markers_of_an_older_producer_or_coordinator_are_refused(log: Log) -> None:
    log.send(batch(0, epoch=5, transactional=True))
    log.mark(MarkerType.COMMIT, epoch=5, coordinator_epoch=9)
    with pytest.raises(InvalidProducerEpoch):
        log.mark(MarkerType.COMMIT, epoch=4, coordinator_epoch=9)
    with pytest.raises(TransactionCoordinatorFenced, match="8; 9 was seen"):
        log.mark(MarkerType.COMMIT, epoch=5, coordinator_epoch=8)


def test_compaction_may_empty_a_control_batch(log: Log) -> None:
    log.send(batch(0, transactional=True))
    header = batch(-1, offset=1, transactional=True, control=True)
    assert log.producers.update(header, None) is None
    assert log.producers.first_undecided_offset == 0


# --- verification (KIP-890) ---------------------------------------------------------------


def start(log: Log, header: BatchHeader, *, bumps_epoch: bool = False) -> int:
    return log.producers.start_verification(header, bumps_epoch=bumps_epoch, now_ms=0)


def test_a_verified_batch_opens_the_transaction(log: Log) -> None:
    header = batch(0, transactional=True)
    guard = start(log, header)
    assert guard != ALREADY_ONGOING
    assert log.send(header, guard=guard) == 0
    follower = batch(1, transactional=True)
    assert start(log, follower) == ALREADY_ONGOING
    assert log.send(follower, guard=ALREADY_ONGOING) == 1


def test_a_marker_between_verification_and_append_wins(log: Log) -> None:
    header = batch(0, transactional=True)
    guard = start(log, header)
    log.mark(MarkerType.ABORT)
    with pytest.raises(InvalidTransactionState, match="ended while"):
        log.send(header, guard=guard)
    new_guard = start(log, header)
    assert new_guard != guard
    with pytest.raises(InvalidTransactionState):
        log.send(header, guard=guard)
    assert log.send(header, guard=new_guard) == 1


def test_an_abort_after_the_first_batch_stops_those_that_trusted_it(log: Log) -> None:
    first = batch(0, transactional=True)
    log.send(first, guard=start(log, first))
    second = batch(1, transactional=True)
    guard = start(log, second)
    log.mark(MarkerType.ABORT)
    with pytest.raises(InvalidTransactionState):
        log.send(second, guard=guard)


def test_the_lowest_sequence_under_verification_goes_first(log: Log) -> None:
    second, first = batch(1, transactional=True), batch(0, transactional=True)
    guard = start(log, second)
    assert start(log, first) == guard
    with pytest.raises(OutOfOrderSequence, match="sequence 1 before 0"):
        log.send(second, guard=guard)
    log.send(first, guard=guard)
    assert log.send(second, guard=guard) == 1


def test_version_two_producers_must_begin_with_zero(log: Log) -> None:
    header = batch(3, transactional=True)
    guard = start(log, header, bumps_epoch=True)
    with pytest.raises(OutOfOrderSequence, match="must begin with sequence 0"):
        log.send(header, guard=guard)


def test_a_newer_epoch_takes_the_verification_over(log: Log) -> None:
    old, new = batch(5, transactional=True), batch(0, epoch=1, transactional=True)
    guard = start(log, old)
    assert start(log, new) == guard
    assert log.send(new, guard=guard) == 0


# --- upkeep -------------------------------------------------------------------------------


def test_idle_producers_are_forgotten_unless_in_a_transaction(log: Log) -> None:
    log.send(batch(0, producer_id=1))
    log.send(batch(0, producer_id=2, transactional=True))
    start(log, batch(0, producer_id=3, transactional=True))
    assert log.producers.expire(1_000 + DAY_MS - 1) == 0
    assert log.producers.expire(1_000 + DAY_MS) == 1
    assert [view.producer_id for view in log.producers.describe()] == [2]
    assert log.send(batch(17, producer_id=1)) == 2


def test_old_record_timestamps_do_not_make_a_producer_idle() -> None:
    producers = PartitionProducers()
    producers.update(batch(0, timestamp_ms=5), now_ms=10 * DAY_MS)
    assert producers.expire(10 * DAY_MS + 1) == 0


def test_description(log: Log) -> None:
    log.send(batch(0, 3, epoch=2, transactional=True, timestamp_ms=55))
    assert log.producers.describe() == [ProducerView(PRODUCER, 2, 2, 55, -1, 0)]
    log.mark(MarkerType.COMMIT, epoch=2, coordinator_epoch=4)
    assert log.producers.describe() == [ProducerView(PRODUCER, 2, 2, 1_000, 4, -1)]


def test_a_snapshot_carries_windows_and_open_transactions(log: Log) -> None:
    for sequence in range(7):
        log.send(batch(sequence))
    log.send(batch(0, producer_id=9, transactional=True))
    log.send(batch(0, producer_id=8, transactional=True))
    restored = PartitionProducers.from_snapshot(log.producers.snapshot())
    assert restored.describe() == log.producers.describe()
    assert restored.end_offset == 9
    assert restored.last_stable_offset(9) == 7
    assert restored.check(batch(2)) == Duplicate(2, 2, 1_000)
    with pytest.raises(DuplicateSequence):
        restored.check(batch(1))


@pytest.mark.parametrize("damage", ["cut", "flipped", "version", "short", "garbage"])
def test_a_damaged_snapshot_is_noticed(log: Log, damage: str) -> None:
    log.send(batch(0))
    data = bytearray(log.producers.snapshot())
    if damage == "cut":
        del data[-1]
    elif damage == "flipped":
        data[-2] ^= 4
    elif damage == "version":
        data[1] = 9
    elif damage == "short":
        del data[4:]
    else:
        data[6:] = b""
        data[2:6] = bytes(4)  # the CRC-32C of nothing
    with pytest.raises(SnapshotCorrupt):
        PartitionProducers.from_snapshot(bytes(data))


def test_truncation_needs_a_rebuild_only_when_it_cuts_producers_off(log: Log) -> None:
    log.send(batch(0))
    log.send(batch(-1, producer_id=-1))
    assert log.producers.can_truncate_to(1)
    assert not log.producers.can_truncate_to(0)


def test_errors_are_not_retriable_as_they_stand() -> None:
    for error in (InvalidProducerEpoch, OutOfOrderSequence, DuplicateSequence):
        assert issubclass(error, GoQueueError)
        assert not error.retriable


def test_too_many_producers_push_out_those_unused_for_longest() -> None:
    producers = PartitionProducers(max_producers=100)
    producers.update(batch(0, producer_id=0, transactional=True), now_ms=0)
    for producer_id in range(1, 1_000):
        producers.update(batch(0, offset=producer_id, producer_id=producer_id), now_ms=producer_id)
        assert len(producers) <= 100
    kept = {view.producer_id for view in producers.describe()}
    assert 0 in kept, "its transaction is open"
    assert set(range(950, 1_000)) < kept
    # One that was forgotten goes on as if its state had expired.
    assert producers.check(batch(7, producer_id=1)) is None


# --- batches behind one that could not be appended ------------------------------------------


FULL = PartitionOffline("the disk is full")


def refuse(log: Log, sequence: int, *, epoch: int = 0) -> GoQueueError:
    """As the partition does, whatever the reason is."""
    header = batch(sequence, epoch=epoch)
    try:
        log.producers.check(header)
        error: GoQueueError = FULL
    except GoQueueError as refusal:
        error = refusal
    if isinstance(error, PartitionOffline):
        log.producers.refused(header, error)
    return error


@pytest.mark.parametrize("known", [True, False])
def test_what_was_sent_behind_a_refused_batch_is_refused_for_the_same_reason(
    log: Log, known: bool
) -> None:
    """It was out of order, for which clients begin an epoch in which retries are not known."""
    first = 1 if known else 0
    if known:
        log.send(batch(0))
    refuse(log, first)
    for sequence in (first + 1, first + 2, first + 3):
        error = refuse(log, sequence)
        assert isinstance(error, PartitionOffline)
        assert f"behind {first}" in str(error)
        assert "the disk is full" in str(error)
    assert log.send(batch(first)) == first
    assert log.send(batch(first + 1)) == first + 1


def test_the_first_batches_of_a_new_epoch_may_be_refused_too(log: Log) -> None:
    log.send(batch(0))
    refuse(log, 0, epoch=1)
    assert isinstance(refuse(log, 1, epoch=1), PartitionOffline)
    assert log.send(batch(0, epoch=1)) == 1
    assert log.send(batch(1, epoch=1)) == 2


def test_a_producer_that_does_not_send_a_refused_batch_again_is_out_of_order(log: Log) -> None:
    log.send(batch(0))
    refuse(log, 1)
    for sequence in (2, 3, 4, 5):
        assert isinstance(refuse(log, sequence), PartitionOffline)
    with pytest.raises(OutOfOrderSequence):
        log.send(batch(6))


def test_a_batch_refused_again_and_again_excuses_those_behind_it(log: Log) -> None:
    log.send(batch(0))
    for _ in range(10):
        assert refuse(log, 1) is FULL
        for sequence in (2, 3, 4, 5):
            assert isinstance(refuse(log, sequence), PartitionOffline)


def test_a_stored_batch_that_was_refused_on_its_retry_excuses_nothing(log: Log) -> None:
    log.send(batch(0))
    log.send(batch(1))
    log.producers.refused(batch(0), FULL)
    assert log.send(batch(2)) == 2, "in order"
    with pytest.raises(OutOfOrderSequence):
        log.send(batch(9))


def test_an_earlier_batch_of_a_refused_one_is_still_known(log: Log) -> None:
    log.send(batch(0))
    refuse(log, 1)
    assert log.send(batch(0)) == Duplicate(0, 0, 1_000)


def test_refusals_wrap_around_with_sequences(log: Log) -> None:
    log.send(batch(LAST_SEQUENCE - 1))
    refuse(log, LAST_SEQUENCE)
    assert isinstance(refuse(log, 0), PartitionOffline)


def test_refusals_are_bounded() -> None:
    producers = PartitionProducers(max_producers=3)
    for producer_id in range(10):
        producers.refused(batch(0, producer_id=producer_id), FULL)
    refused = []
    for producer_id in range(10):
        try:
            producers.check(batch(1, producer_id=producer_id))
        except PartitionOffline:
            refused.append(producer_id)
    assert refused == [7, 8, 9]
    producers.expire(0)
    assert producers.check(batch(1, producer_id=9)) is None


@pytest.mark.parametrize("bumps_epoch", [True, False])
def test_a_transaction_whose_first_batch_is_refused_keeps_its_order(
    log: Log, bumps_epoch: bool
) -> None:
    first, second = batch(0, transactional=True), batch(1, transactional=True)
    guards = [
        log.producers.start_verification(header, bumps_epoch=bumps_epoch, now_ms=1)
        for header in (first, second)
    ]
    log.producers.refused(first, FULL)
    with pytest.raises(PartitionOffline, match="behind 0"):
        log.send(second, guard=guards[1])
    assert log.send(first, guard=guards[0]) == 0
    assert log.send(second, guard=guards[1]) == 1
