"""AddPartitionsToTxn: partitions that a transaction is going to write to."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, transaction_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.rights import Resource, Verb
from goqueue.model.transactions.messages import AddPartitions
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

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
                async for transaction in in_slices(request.transactions)
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
        # Clients send older versions (KIP-890).
        is_of_broker=context.version >= _FIRST_VERSION_WITH_MANY_TRANSACTIONS,
    )
    try:
        answer = await context.service.transactions.add_partitions(context.caller, request)
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
    api_key=24,
    name="AddPartitionsToTxn",
    min_version=0,
    max_version=5,
    handle=handle,
    names_resources=True,
    needs=(
        Need(
            Resource.TRANSACTIONAL_ID,
            Verb.WRITE,
            names="v3_and_below_transactional_id, transactions.transactional_id",
            refused=Refused.EACH,
        ),
        Need(
            Resource.TOPIC,
            Verb.WRITE,
            names="v3_and_below_topics.name, transactions.topics.name",
            refused=Refused.EACH,
        ),
    ),
)
