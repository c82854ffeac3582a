"""DescribeTransactions: state, producer and partitions of transactions (KIP-664)."""

from itertools import groupby
from typing import TYPE_CHECKING

from goqueue.doors.kafka.coordinator_errors import failure_code, transaction_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.state.transactions.errors import TransactionError
from goqueue.state.transactions.messages import DescribeTransaction, TransactionDescription

if TYPE_CHECKING:
    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest


async def handle(context: RequestContext, request: "DescribeTransactionsRequest") -> Message:
    return {
        "transaction_states": [
            await _described(context, transactional_id)
            for transactional_id in request.transactional_ids
        ]
    }


async def _described(context: RequestContext, transactional_id: str) -> Message:
    try:
        found = await context.broker.transactions.describe(
            DescribeTransaction(transactional_id=transactional_id)
        )
        code = transaction_code(found.error)
    except GoQueueError as error:
        code = failure_code(error)
        found = TransactionDescription(
            error=TransactionError.NONE, transactional_id=transactional_id
        )
    by_topic = groupby(sorted(found.partitions), key=lambda name: name.topic)
    return {
        "error_code": code,
        "transactional_id": transactional_id,
        "transaction_state": found.state,
        "transaction_timeout": found.timeout_ms,
        "transaction_start_time": found.start_ms,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "topics": [
            {"topic": topic, "partitions": [name.partition for name in names]}
            for topic, names in by_topic
        ],
    }


OPERATION = Operation(
    api_key=65, name="DescribeTransactions", min_version=0, max_version=0, handle=handle
)
