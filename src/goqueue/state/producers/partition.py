"""The producers of one partition: check a batch before the append, replay it after."""

import heapq
from collections import OrderedDict
from typing import Final, NamedTuple

from goqueue.model.aborted import AbortedTransaction
from goqueue.model.batch import CONTROL_BIT, NO_SEQUENCE, TRANSACTIONAL_BIT, BatchHeader
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import (
    DuplicateSequence,
    GoQueueError,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from goqueue.model.log import ProducerView
from goqueue.state.producers.producer import (
    NO_OFFSET,
    SEQUENCE_MASK,
    SEQUENCE_WINDOW_BATCHES,
    Producer,
    StoredBatch,
)
from goqueue.state.producers.refusals import Refusals
from goqueue.state.producers.snapshot import decode_snapshot, encode_snapshot
from goqueue.state.producers.verification import ALREADY_ONGOING, Verifications

__all__ = [
    "SEQUENCE_WINDOW_BATCHES",
    "Duplicate",
    "PartitionProducers",
]

# Kafka's default for `producer.id.expiration.ms`: a day without a batch.
PRODUCER_EXPIRATION_MS: Final = 86_400_000
# Where nobody says otherwise.
MAX_PRODUCERS: Final = 10_000
# When there are too many, this part of them is forgotten at once: looking for them takes a while.
FORGOTTEN_PART: Final = 10


class Duplicate(NamedTuple):
    """The batch is stored already: answer with where it is."""

    base_offset: int
    last_offset: int
    timestamp_ms: int


class PartitionProducers:
    """Producer state of one partition.

    `check` and `check_marker` decide and change nothing; `update` replays what was appended and is
    the only thing that changes durable state, during recovery too.
    """

    def __init__(
        self, *, expiration_ms: int = PRODUCER_EXPIRATION_MS, max_producers: int = MAX_PRODUCERS
    ) -> None:
        self.expiration_ms = expiration_ms
        self._max_producers = max_producers
        self._producers: dict[int, Producer] = {}
        # First offset -> producer id. Transactions begin in offset order, so this stays sorted.
        self._ongoing: OrderedDict[int, int] = OrderedDict()
        # (first offset, marker offset) of ended transactions whose marker is not committed yet.
        self._unreplicated: list[tuple[int, int]] = []
        self._verifications = Verifications()
        self._refusals = Refusals(max_producers)
        self._end_offset = 0

    # --- before the append ----------------------------------------------------------------

    def check(self, header: BatchHeader, *, guard: int | None = None) -> Duplicate | None:
        """Return None if the batch may be appended, `Duplicate` if it is stored already, or raise.

        `guard` is what `start_verification` gave out before the coordinator was asked; None means
        that this write needs no verification.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        producer = self._producers.get(producer_id)
        if producer is not None and header.base_sequence >= 0:
            duplicate = self._find_duplicate(producer, header)
            if duplicate is not None:
                return duplicate
        if header.attributes & TRANSACTIONAL_BIT and guard is not None:
            self._check_guard(producer, header, guard)
        if producer is not None:
            if header.producer_epoch < producer.epoch:
                raise InvalidProducerEpoch(
                    f"producer {producer_id} sent epoch {header.producer_epoch}; "
                    f"epoch {producer.epoch} has written here"
                )
            if producer.transaction_first_offset >= 0 and not header.is_transactional:
                raise InvalidTransactionState(
                    f"producer {producer_id} has a transaction open since offset "
                    f"{producer.transaction_first_offset} but sent a batch outside of it"
                )
        # Offset commits of the group coordinator are transactional but carry no sequence.
        if header.base_sequence != NO_SEQUENCE:
            self._check_sequence(producer, header)
        return None

    def refused(self, header: BatchHeader, error: GoQueueError) -> None:
        """A batch was not appended, for a reason that may pass; see `refusals`."""
        if header.producer_id >= 0 and header.base_sequence >= 0:
            self._refusals.add(header, error)

    def _find_duplicate(self, producer: Producer, header: BatchHeader) -> Duplicate | None:
        if header.producer_epoch != producer.epoch or not producer.batches:
            return None
        first = header.base_sequence
        if first == (producer.last_sequence + 1) & SEQUENCE_MASK:
            return None
        found = producer.find(first, (first + header.last_offset_delta) & SEQUENCE_MASK)
        if found is None:
            return None
        return Duplicate(found.base_offset, found.last_offset, found.timestamp_ms)

    def _check_guard(self, producer: Producer | None, header: BatchHeader, guard: int) -> None:
        if (
            producer is not None
            and producer.transaction_first_offset >= 0
            and producer.epoch == header.producer_epoch
        ):
            return
        verification = self._verifications.get(header.producer_id)
        if guard == ALREADY_ONGOING or verification is None or verification.guard != guard:
            raise InvalidTransactionState(
                f"producer {header.producer_id} sent a transactional batch, but its transaction "
                "ended while the batch was being verified"
            )
        sequence = header.base_sequence
        if verification.bumps_epoch and sequence > 0 and producer is None:
            raise self._out_of_order(
                header,
                f"producer {header.producer_id} is unknown here and must begin with sequence 0, "
                f"not {sequence}",
            )
        if sequence > verification.lowest_sequence:
            raise self._out_of_order(
                header,
                f"producer {header.producer_id} sent sequence {sequence} before "
                f"{verification.lowest_sequence}, which it sent earlier",
            )

    def _check_sequence(self, producer: Producer | None, header: BatchHeader) -> None:
        # An unknown producer may begin anywhere: its state may have expired, or its batches may
        # have been deleted by retention (KIP-360).
        if producer is None:
            if (excuse := self._refusals.excuse(header)) is not None:
                raise excuse
            return
        first = header.base_sequence
        if header.producer_epoch != producer.epoch:
            if first != 0:
                raise self._out_of_order(
                    header,
                    f"producer {header.producer_id} began epoch {header.producer_epoch} with "
                    f"sequence {first}; a new epoch begins with 0",
                )
            return
        expected = (producer.last_sequence + 1) & SEQUENCE_MASK
        if first == expected:
            return
        if producer.batches and producer.has_stored(
            first, (first + header.last_offset_delta) & SEQUENCE_MASK
        ):
            # Kafka reports this as out of order; clients treat the duplicate code as success,
            # which is the truth here, where every sequence is known to be stored.
            raise DuplicateSequence(
                f"producer {header.producer_id} sent sequence {first} again; the last "
                f"{SEQUENCE_WINDOW_BATCHES} batches end at {producer.last_sequence}"
            )
        raise self._out_of_order(
            header, f"producer {header.producer_id} sent sequence {first}, expected {expected}"
        )

    def _out_of_order(self, header: BatchHeader, message: str) -> GoQueueError:
        return self._refusals.excuse(header) or OutOfOrderSequence(message)

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, *, bumps_epoch: bool
    ) -> bool:
        """Whether to append this marker: False if it stands here already. Raises if fenced.

        With `bumps_epoch` (transaction version 2) each marker has an epoch of its own, so that a
        repeated marker can be told from one that is late (KIP-890).
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return True
        is_open = producer.transaction_first_offset >= 0
        if bumps_epoch and producer_epoch == producer.epoch and not is_open:
            return False
        is_late = producer_epoch < producer.epoch
        if is_late or (bumps_epoch and producer_epoch == producer.epoch):
            raise InvalidProducerEpoch(
                f"marker for producer {producer_id} has epoch {producer_epoch}; "
                f"epoch {producer.epoch} has written here"
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"marker for producer {producer_id} has coordinator epoch {coordinator_epoch}; "
                f"{producer.coordinator_epoch} was seen"
            )
        return True

    def start_verification(self, header: BatchHeader, *, bumps_epoch: bool, now_ms: int) -> int:
        """Return the guard to pass to `check` once the coordinator has verified the batch.

        `ALREADY_ONGOING` says that the coordinator need not be asked. `bumps_epoch`: the client
        speaks transaction version 2 (Produce v12 and later).
        """
        if self.has_ongoing(header.producer_id, header.producer_epoch):
            return ALREADY_ONGOING
        return self._verifications.start(
            header.producer_id,
            epoch=header.producer_epoch,
            sequence=header.base_sequence,
            bumps_epoch=bumps_epoch,
            now_ms=now_ms,
        )

    # --- after the append -----------------------------------------------------------------

    def update(
        self, header: BatchHeader, marker: Marker | None = None, *, now_ms: int | None = None
    ) -> AbortedTransaction | None:
        """Replay an appended batch; a control batch comes with its decoded marker.

        Live appends pass `now_ms`, so that a producer of old timestamps does not look idle.
        """
        if header.producer_id < 0:
            return None
        self._end_offset = header.base_offset + header.last_offset_delta + 1
        used_ms = header.max_timestamp_ms if now_ms is None else now_ms
        if header.attributes & CONTROL_BIT:
            # Compaction leaves an empty control batch once the whole transaction is gone.
            return None if marker is None else self._end(header, marker, used_ms)
        producer = self._enter(header, used_ms)
        self._refusals.end(header.producer_id)
        if header.base_sequence >= 0:
            delta = header.last_offset_delta
            producer.add(
                StoredBatch(
                    header.base_sequence,
                    (header.base_sequence + delta) & SEQUENCE_MASK,
                    header.base_offset,
                    header.base_offset + delta,
                    header.max_timestamp_ms,
                )
            )
        if header.attributes & TRANSACTIONAL_BIT and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = header.base_offset
            self._ongoing[header.base_offset] = header.producer_id
            self._verifications.end(header.producer_id)
        return None

    def _enter(self, header: BatchHeader, used_ms: int) -> Producer:
        producer = self._producers.get(header.producer_id)
        if producer is None:
            if len(self._producers) >= self._max_producers:
                self._forget_idle()
            producer = self._producers[header.producer_id] = Producer(header.producer_epoch)
        else:
            producer.enter_epoch(header.producer_epoch)
        producer.last_timestamp_ms = header.max_timestamp_ms
        producer.last_used_ms = used_ms
        return producer

    def _forget_idle(self) -> None:
        """Those unused for longest; never one with an open transaction."""
        idle = [
            (producer.last_used_ms, producer_id)
            for producer_id, producer in self._producers.items()
            if producer.transaction_first_offset < 0
        ]
        for _, producer_id in heapq.nsmallest(self._max_producers // FORGOTTEN_PART + 1, idle):
            del self._producers[producer_id]

    def _end(self, header: BatchHeader, marker: Marker, used_ms: int) -> AbortedTransaction | None:
        producer = self._enter(header, used_ms)
        producer.coordinator_epoch = marker.coordinator_epoch
        self._verifications.end(header.producer_id)
        first_offset = producer.transaction_first_offset
        if first_offset < 0:
            return None
        producer.transaction_first_offset = NO_OFFSET
        del self._ongoing[first_offset]
        heapq.heappush(self._unreplicated, (first_offset, header.base_offset))
        if marker.type is not MarkerType.ABORT:
            return None
        stable = next(iter(self._ongoing), header.base_offset + 1)
        return AbortedTransaction(header.producer_id, first_offset, header.base_offset, stable)

    # --- what the partition asks ----------------------------------------------------------

    def last_stable_offset(self, high_watermark: int) -> int:
        """The first offset whose outcome is unknown or not committed, else the high watermark."""
        ended = self._unreplicated
        while ended and ended[0][1] < high_watermark:
            heapq.heappop(ended)
        stable = high_watermark
        if ended:
            stable = min(stable, ended[0][0])
        if self._ongoing:
            stable = min(stable, next(iter(self._ongoing)))
        return stable

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction begins: compaction must not go beyond it."""
        return next(iter(self._ongoing), None)

    @property
    def open_transaction_count(self) -> int:
        return len(self._ongoing)

    def has_ongoing(self, producer_id: int, producer_epoch: int) -> bool:
        producer = self._producers.get(producer_id)
        return (
            producer is not None
            and producer.transaction_first_offset >= 0
            and producer.epoch == producer_epoch
        )

    def next_sequence(self, producer_id: int, producer_epoch: int) -> int:
        """What the producer's next batch here must begin with."""
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != producer_epoch:
            return 0
        return (producer.last_sequence + 1) & SEQUENCE_MASK

    @property
    def end_offset(self) -> int:
        """The offset after the last batch replayed here: a snapshot stands for all below it."""
        return self._end_offset

    def __len__(self) -> int:
        return len(self._producers)

    def describe(self) -> list[ProducerView]:
        return [
            ProducerView(
                producer_id,
                producer.epoch,
                producer.last_sequence,
                producer.last_timestamp_ms,
                producer.coordinator_epoch,
                producer.transaction_first_offset,
            )
            for producer_id, producer in self._producers.items()
        ]

    # --- upkeep ---------------------------------------------------------------------------

    def expire(self, now_ms: int) -> int:
        """Forget producers idle for too long, never one with an open transaction. Returns how many.

        Walks all producers; call it every ten minutes or so.
        """
        before_ms = now_ms - self.expiration_ms
        idle = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.transaction_first_offset < 0 and producer.last_used_ms <= before_ms
        ]
        for producer_id in idle:
            del self._producers[producer_id]
        self._verifications.expire(before_ms)
        self._refusals.clear()
        return len(idle)

    def kept_batches(self) -> dict[int, tuple[int, ...]]:
        """Base offsets of the last batches of each known producer.

        Their headers tell its sequence, so compaction must leave them in the log.
        """
        return {
            producer_id: tuple(batch.base_offset for batch in producer.batches)
            for producer_id, producer in self._producers.items()
        }

    def can_truncate_to(self, offset: int) -> bool:
        """Whether cutting the log at `offset` leaves this state as it is.

        Otherwise rebuild it: the latest snapshot not beyond `offset`, then `update` up to there.
        """
        return self._end_offset <= offset

    def snapshot(self) -> bytes:
        return encode_snapshot(self._end_offset, self._producers.items())

    @classmethod
    def from_snapshot(
        cls,
        data: bytes,
        *,
        expiration_ms: int = PRODUCER_EXPIRATION_MS,
        max_producers: int = MAX_PRODUCERS,
    ) -> "PartitionProducers":
        """Raises `SnapshotCorrupt` if the bytes are damaged."""
        restored = cls(expiration_ms=expiration_ms, max_producers=max_producers)
        restored._end_offset, restored._producers = decode_snapshot(data)
        restored._ongoing = OrderedDict(
            sorted(
                (producer.transaction_first_offset, producer_id)
                for producer_id, producer in restored._producers.items()
                if producer.transaction_first_offset >= 0
            )
        )
        return restored
