"""ListTransactions: transactional ids and their states, by filters."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, transaction_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import ListTransactions

if TYPE_CHECKING:
    from kio.schema.list_transactions.v2.request import ListTransactionsRequest


async def handle(context: RequestContext, request: "ListTransactionsRequest") -> Message:
    wanted = ListTransactions(
        states=frozenset(request.state_filters),
        producer_ids=frozenset(request.producer_id_filters),
        running_longer_than_ms=request.duration_filter,
        id_pattern=request.transactional_id_pattern,
    )
    try:
        answers = await context.broker.transactions.list(wanted)
    except GoQueueError as error:
        return {"error_code": failure_code(error), "transaction_states": ()}
    refused = next((a.error for a in answers if a.error is not TransactionError.NONE), None)
    return {
        "error_code": ErrorCode.none if refused is None else transaction_code(refused),
        "unknown_state_filters": answers[0].unknown_states if answers else (),
        "transaction_states": [
            {
                "transactional_id": transaction.transactional_id,
                "producer_id": transaction.producer_id,
                "transaction_state": transaction.state,
            }
            for answer in answers
            for transaction in answer.transactions
        ],
    }


OPERATION = Operation(
    api_key=66, name="ListTransactions", min_version=0, max_version=2, handle=handle
)
