"""Markers on their way: which partitions of a prepared transaction still lack theirs."""

from collections.abc import Mapping
from typing import Final

from goqueue.model.control import Marker, MarkerType
from goqueue.model.names import TopicPartition
from goqueue.model.transactions.messages import MarkerResult, WriteMarkers
from goqueue.model.transactions.states import TransactionState
from goqueue.state.transactions.transaction import Transaction

# A partition that is moving is back in well under a second; one that is offline may take minutes.
FIRST_RETRY_MS: Final = 50
MAX_RETRY_MS: Final = 5_000


class PendingMarkers:
    """Volatile: after a crash all markers are written again, which partitions notice."""

    __slots__ = ("_bumps_epoch", "_failures", "_marker", "failed", "in_flight", "owner")

    def __init__(self, transaction: Transaction, coordinator_epoch: int) -> None:
        is_commit = transaction.state is TransactionState.PREPARE_COMMIT
        self.owner = (
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
        )
        self._bumps_epoch = transaction.bumps_epoch
        self._marker = Marker(
            MarkerType.COMMIT if is_commit else MarkerType.ABORT, coordinator_epoch
        )
        self.in_flight: set[TopicPartition] = set(transaction.partitions)
        self.failed: set[TopicPartition] = set()
        self._failures = 0

    @property
    def is_done(self) -> bool:
        return not self.in_flight and not self.failed

    def effect(self) -> WriteMarkers:
        transactional_id, producer_id, producer_epoch = self.owner
        return WriteMarkers(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            marker=self._marker,
            bumps_epoch=self._bumps_epoch,
            partitions=frozenset(self.in_flight),
        )

    def settle(self, results: Mapping[TopicPartition, MarkerResult]) -> None:
        for partition, result in results.items():
            if result is MarkerResult.RETRY:
                if partition in self.in_flight:
                    self.in_flight.discard(partition)
                    self.failed.add(partition)
            else:
                self.in_flight.discard(partition)
                self.failed.discard(partition)

    def retry_after_ms(self) -> int:
        delay_ms: int = min(FIRST_RETRY_MS << self._failures, MAX_RETRY_MS)
        # Seven doublings reach the maximum.
        self._failures = min(self._failures + 1, 7)
        return delay_ms

    def retry(self) -> WriteMarkers:
        """Send the failed ones again, and only those."""
        again = frozenset(self.failed)
        self.in_flight |= again
        self.failed.clear()
        effect = self.effect()
        return WriteMarkers(
            transactional_id=effect.transactional_id,
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
            marker=effect.marker,
            bumps_epoch=effect.bumps_epoch,
            partitions=again,
        )
