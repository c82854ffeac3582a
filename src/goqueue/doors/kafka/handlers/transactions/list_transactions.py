"""ListTransactions: transactional ids and their states, by filters."""

from typing import TYPE_CHECKING

from goqueue.doors.kafka.coordinator_errors import failure_code, transaction_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.model.transactions.messages import ListTransactions
from goqueue.service.needs import Need, Refused

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
        answer = await context.service.transactions.list(context.caller, wanted)
    except GoQueueError as error:
        return {"error_code": failure_code(error), "transaction_states": ()}
    return {
        "error_code": transaction_code(answer.error),
        "unknown_state_filters": answer.unknown_states,
        "transaction_states": [
            {
                "transactional_id": transaction.transactional_id,
                "producer_id": transaction.producer_id,
                "transaction_state": transaction.state,
            }
            for transaction in answer.transactions
        ],
    }


OPERATION = Operation(
    api_key=66,
    name="ListTransactions",
    min_version=0,
    max_version=2,
    handle=handle,
    names_resources=True,
    needs=(Need(Resource.TRANSACTIONAL_ID, Verb.DESCRIBE, refused=Refused.LEFT_OUT),),
    only_reads=True,
)
