"""What transaction coordinators and the leaders of partitions on other brokers tell each other."""

import logging
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from goqueue.broker.peers.connections import Peers
from goqueue.model.control import MarkerType
from goqueue.model.errors import GoQueueError
from goqueue.model.names import NodeId, TopicPartition, topic_partition
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import (
    AddPartitions,
    AddPartitionsAnswer,
    MarkerResult,
    WriteMarkers,
)

logger = logging.getLogger(__name__)

# Of WriteTxnMarkers; an epoch of its own for each transaction came with the second.
_VERSION_OF_TRANSACTION: Final = {False: 1, True: 2}
# Any other error may pass, also an unknown topic: the other broker may not have heard of it yet.
_FENCED: Final = frozenset({"invalid_producer_epoch", "transaction_coordinator_fenced"})


class _Result(NamedTuple):
    result: MarkerResult
    reason: str


class TransactionPeers:
    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self.leader_elsewhere = peers.leader_elsewhere

    async def write_markers(
        self, node_id: NodeId, places: Collection[TopicPartition], effect: WriteMarkers
    ) -> dict[TopicPartition, MarkerResult]:
        """End a transaction in partitions that another broker leads."""
        try:
            results = await self._ask_for_markers(node_id, places, effect)
        except GoQueueError as error:
            results = dict.fromkeys(places, _Result(MarkerResult.RETRY, error.message))
        for place, (result, reason) in results.items():
            if result is MarkerResult.FENCED:
                logger.warning("%s on broker %d: marker refused: %s", place, node_id, reason)
            elif result is MarkerResult.RETRY:
                logger.info("%s on broker %d: marker is tried again: %s", place, node_id, reason)
        return {place: result for place, (result, _) in results.items()}

    async def _ask_for_markers(
        self, node_id: NodeId, places: Collection[TopicPartition], effect: WriteMarkers
    ) -> dict[TopicPartition, _Result]:
        from kio.schema.types import ProducerId, TopicName
        from kio.schema.write_txn_markers.v2.request import (
            WritableTxnMarker,
            WritableTxnMarkerTopic,
            WriteTxnMarkersRequest,
        )
        from kio.schema.write_txn_markers.v2.response import WriteTxnMarkersResponse
        from kio.static.primitive import i8, i16, i32

        topics = tuple(
            WritableTxnMarkerTopic(name=TopicName(topic), partition_indexes=tuple(map(i32, each)))
            for topic, each in _by_topic(places).items()
        )
        marker = WritableTxnMarker(
            producer_id=ProducerId(effect.producer_id),
            producer_epoch=i16(effect.producer_epoch),
            transaction_result=effect.marker.type is MarkerType.COMMIT,
            topics=topics,
            coordinator_epoch=i32(effect.marker.coordinator_epoch),
            transaction_version=i8(_VERSION_OF_TRANSACTION[effect.bumps_epoch]),
        )
        request = WriteTxnMarkersRequest(markers=(marker,))
        response = await self._peers.call(node_id, request, WriteTxnMarkersResponse)
        results = dict.fromkeys(places, _Result(MarkerResult.RETRY, "it was not answered"))
        for answered in response.markers:
            for topic in answered.topics:
                for part in topic.partitions:
                    place = topic_partition(topic.name, part.partition_index)
                    results[place] = _result(part.error_code.name)
        return results

    async def add_partitions(self, node_id: NodeId, request: AddPartitions) -> AddPartitionsAnswer:
        """Ask the coordinator of a transaction; if it cannot be asked now, that is its answer."""
        try:
            errors = await self._ask_to_add(node_id, request)
        except GoQueueError as error:
            logger.info("transaction %r: %s", request.transactional_id, error)
            later = TransactionError.COORDINATOR_LOAD_IN_PROGRESS
            errors = dict.fromkeys(request.partitions, later)
        return AddPartitionsAnswer(transactional_id=request.transactional_id, errors=errors)

    async def _ask_to_add(
        self, node_id: NodeId, request: AddPartitions
    ) -> Mapping[TopicPartition, TransactionError]:
        from kio.schema.add_partitions_to_txn.v5.request import (
            AddPartitionsToTxnRequest,
            AddPartitionsToTxnTopic,
            AddPartitionsToTxnTransaction,
        )
        from kio.schema.add_partitions_to_txn.v5.response import AddPartitionsToTxnResponse
        from kio.schema.types import ProducerId, TopicName, TransactionalId
        from kio.static.primitive import i16, i32

        topics = tuple(
            AddPartitionsToTxnTopic(name=TopicName(topic), partitions=tuple(map(i32, each)))
            for topic, each in _by_topic(request.partitions).items()
        )
        asked = AddPartitionsToTxnTransaction(
            transactional_id=TransactionalId(request.transactional_id),
            producer_id=ProducerId(request.producer_id),
            producer_epoch=i16(request.producer_epoch),
            verify_only=request.verify_only,
            topics=topics,
        )
        response = await self._peers.call(
            node_id, AddPartitionsToTxnRequest(transactions=(asked,)), AddPartitionsToTxnResponse
        )
        later = TransactionError.COORDINATOR_LOAD_IN_PROGRESS
        errors = dict.fromkeys(request.partitions, later)
        for transaction in response.results_by_transaction:
            for topic in transaction.topic_results:
                for part in topic.results_by_partition:
                    place = topic_partition(topic.name, part.partition_index)
                    errors[place] = _error(part.partition_error_code.name)
        return errors


def _by_topic(places: Collection[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(places):
        topics.setdefault(topic, []).append(index)
    return topics


def _result(code: str) -> _Result:
    if code == "none":
        return _Result(MarkerResult.WRITTEN, code)
    return _Result(MarkerResult.FENCED if code in _FENCED else MarkerResult.RETRY, code)


def _error(code: str) -> TransactionError:
    """What is no word of a coordinator's says that it is not there just now."""
    try:
        return TransactionError(code.upper())
    except ValueError:
        return TransactionError.COORDINATOR_LOAD_IN_PROGRESS
