"""EndTxn: commit or abort a transaction."""

from typing import TYPE_CHECKING, Final

from goqueue.doors.kafka.coordinator_errors import failure_code, transaction_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.model.transactions.messages import EndTransaction
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.end_txn.v5.request import EndTxnRequest

_FIRST_VERSION_WITH_FENCED: Final = 2
_FIRST_VERSION_WITH_ABORTABLE: Final = 4
# Transaction version 2: every transaction ends with a new epoch (KIP-890).
_FIRST_VERSION_WITH_EPOCH_BUMP: Final = 5


async def handle(context: RequestContext, request: "EndTxnRequest") -> Message:
    end = EndTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        commit=request.committed,
        bumps_epoch=context.version >= _FIRST_VERSION_WITH_EPOCH_BUMP,
    )
    try:
        answer = await context.service.transactions.end(context.caller, end)
    except GoQueueError as error:
        return {"error_code": failure_code(error)}
    return {
        "error_code": transaction_code(
            answer.error,
            knows_producer_fenced=context.version >= _FIRST_VERSION_WITH_FENCED,
            knows_abortable=context.version >= _FIRST_VERSION_WITH_ABORTABLE,
        ),
        "producer_id": answer.producer_id,
        "producer_epoch": answer.producer_epoch,
    }


OPERATION = Operation(
    api_key=26,
    name="EndTxn",
    min_version=0,
    max_version=5,
    handle=handle,
    needs=(Need(Resource.TRANSACTIONAL_ID, Verb.WRITE, names="transactional_id"),),
)
