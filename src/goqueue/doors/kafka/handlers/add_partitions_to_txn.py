"""AddPartitionsToTxn: partitions that a transaction is going to write to."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, transaction_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.transactions.messages import AddPartitions

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest

_FIRST_VERSION_WITH_MANY_TRANSACTIONS: Final = 4
_FIRST_VERSION_WITH_FENCED: Final = 2
_FIRST_VERSION_WITH_ABORTABLE: Final = 5


async def handle(context: RequestContext, request: "AddPartitionsToTxnRequest") -> Message:
    if context.version >= _FIRST_VERSION_WITH_MANY_TRANSACTIONS:
        return {
            "error_code": ErrorCode.none,
            "results_by_transaction": [
                {
                    "transactional_id": transaction.transactional_id,
                    "topic_results": await _added(context, transaction, transaction.topics),
                }
                for transaction in request.transactions
            ],
        }
    old = _OneTransaction(request)
    return {"results_by_topic_v3_and_below": await _added(context, old, old.topics)}


class _OneTransaction:
    """The request up to version 3, under the names of the newer ones."""

    def __init__(self, request: Any) -> None:
        self.transactional_id: str = request.v3_and_below_transactional_id
        self.producer_id: int = request.v3_and_below_producer_id
        self.producer_epoch: int = request.v3_and_below_producer_epoch
        self.topics = request.v3_and_below_topics
        self.verify_only = False


async def _added(context: RequestContext, transaction: Any, topics: Iterable[Any]) -> list[Message]:
    asked = [topic_partition(topic.name, index) for topic in topics for index in topic.partitions]
    image = context.broker.image
    refused: dict[TopicPartition, ErrorCode] = {}
    for name in asked:
        topic = image.topics.get(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            refused[name] = ErrorCode.unknown_topic_or_partition
        elif topic.is_internal and not transaction.verify_only:
            # Offsets come in by AddOffsetsToTxn; nothing else of ours takes part in transactions.
            refused[name] = ErrorCode.topic_authorization_failed
    if refused:
        # All or nothing: the others say that they were not tried.
        codes = dict.fromkeys(asked, ErrorCode.operation_not_attempted) | refused
    else:
        codes = await _codes(context, transaction, asked)
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {
                    "partition_index": index,
                    "partition_error_code": codes[topic_partition(topic.name, index)],
                }
                for index in topic.partitions
            ],
        }
        for topic in topics
    ]


async def _codes(
    context: RequestContext, transaction: Any, asked: list[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    request = AddPartitions(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=frozenset(asked),
        verify_only=transaction.verify_only,
    )
    try:
        answer = await context.broker.transactions.add_partitions(request)
    except GoQueueError as error:
        return dict.fromkeys(asked, failure_code(error))
    return {
        name: transaction_code(
            answer.errors[name],
            knows_producer_fenced=context.version >= _FIRST_VERSION_WITH_FENCED,
            knows_abortable=context.version >= _FIRST_VERSION_WITH_ABORTABLE,
        )
        for name in asked
    }


OPERATION = Operation(
    api_key=24, name="AddPartitionsToTxn", min_version=0, max_version=5, handle=handle
)
