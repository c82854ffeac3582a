"""Markers: how partitions learn that a transaction has ended."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from goqueue.broker.own_grants import OwnWork, own_action
from goqueue.broker.peers.transactions import TransactionPeers
from goqueue.broker.runtime.topic import ShardHost
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import (
    GoQueueError,
    InvalidProducerEpoch,
    TransactionCoordinatorFenced,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.model.names import NodeId, TopicPartition
from goqueue.model.rights import ActingCluster
from goqueue.model.topics import OFFSETS_TOPIC
from goqueue.model.transactions.messages import MarkerResult, MarkersWritten, WriteMarkers

logger = logging.getLogger(__name__)

# How long one try of a marker waits for its commit; then it is tried again.
MARKER_TIMEOUT_MS: Final = 10_000


class PendingOffsets(Protocol):
    """Offsets of groups that wait for the end of a transaction."""

    async def end_transaction(
        self, partition: TopicPartition, marker: Marker, producer_id: int, producer_epoch: int
    ) -> None: ...


class PendingDelays(Protocol):
    """Delayed messages that wait for the end of a transaction."""

    async def end_transaction(
        self, place: TopicPartition, producer_id: int, last_epoch: int, *, commit: bool
    ) -> None: ...


class MarkerWriter:
    def __init__(
        self,
        host: ShardHost,
        groups: PendingOffsets,
        delays: PendingDelays,
        peers: TransactionPeers,
    ) -> None:
        self._host = host
        self._peers = peers
        self._groups = groups
        self._delays = delays

    async def write(
        self,
        _right: ActingCluster,
        place: TopicPartition,
        marker: Marker,
        *,
        producer_id: int,
        producer_epoch: int,
        bumps_epoch: bool = False,
    ) -> None:
        """End a transaction in one partition, and wait until that is committed there."""
        if place.topic == OFFSETS_TOPIC:
            await self._groups.end_transaction(place, marker, producer_id, producer_epoch)
            return
        is_commit = marker.type is MarkerType.COMMIT
        partition = self._host.partition(*place)
        end_offset = partition.append_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, bumps_epoch=bumps_epoch
        )
        # Transactions of version 2 end with an epoch of their own.
        last_epoch = producer_epoch - 1 if bumps_epoch else producer_epoch
        # After a crash in between, the coordinator has the marker written again, and this with it.
        await self._delays.end_transaction(place, producer_id, last_epoch, commit=is_commit)
        await partition.wait_committed(end_offset, MARKER_TIMEOUT_MS)

    async def write_all(self, effect: WriteMarkers) -> MarkersWritten:
        """Tell every partition what the coordinator has decided, wherever it is led."""
        by_leader: dict[NodeId | None, list[TopicPartition]] = {}
        for place in sorted(effect.partitions):
            by_leader.setdefault(self._peers.leader_elsewhere(place), []).append(place)
        told = await asyncio.gather(
            *(
                self._write_here(places, effect)
                if leader is None
                else self._peers.write_markers(leader, places, effect)
                for leader, places in by_leader.items()
            )
        )
        return MarkersWritten(
            transactional_id=effect.transactional_id,
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
            results={place: result for results in told for place, result in results.items()},
        )

    async def _write_here(
        self, places: Sequence[TopicPartition], effect: WriteMarkers
    ) -> dict[TopicPartition, MarkerResult]:
        results = await asyncio.gather(*(self._tried(place, effect) for place in places))
        return dict(zip(places, results, strict=True))

    async def _tried(self, place: TopicPartition, effect: WriteMarkers) -> MarkerResult:
        try:
            await self.write(
                own_action(OwnWork.MARKERS),
                place,
                effect.marker,
                producer_id=effect.producer_id,
                producer_epoch=effect.producer_epoch,
                bumps_epoch=effect.bumps_epoch,
            )
        except (UnknownTopic, UnknownPartition):
            return MarkerResult.GONE
        except (InvalidProducerEpoch, TransactionCoordinatorFenced) as error:
            logger.warning("%s: marker refused: %s", place, error)
            return MarkerResult.FENCED
        except GoQueueError as error:
            logger.warning("%s: marker will be tried again: %s", place, error)
            return MarkerResult.RETRY
        except Exception:
            # Every partition must be reported, or the transaction would stay prepared for ever.
            logger.exception("%s: marker will be tried again", place)
            return MarkerResult.RETRY
        return MarkerResult.WRITTEN
