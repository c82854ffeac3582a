"""AddOffsetsToTxn: a transaction is going to commit offsets of a group."""

from typing import TYPE_CHECKING, Final

from goqueue.doors.kafka.coordinator_errors import failure_code, transaction_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.model.transactions.messages import AddOffsets
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest

_FIRST_VERSION_WITH_FENCED: Final = 2
_FIRST_VERSION_WITH_ABORTABLE: Final = 4


async def handle(context: RequestContext, request: "AddOffsetsToTxnRequest") -> Message:
    add = AddOffsets(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        group_id=request.group_id,
    )
    try:
        answer = await context.service.transactions.add_offsets(context.caller, add)
    except GoQueueError as error:
        return {"error_code": failure_code(error)}
    return {
        "error_code": transaction_code(
            answer.error,
            knows_producer_fenced=context.version >= _FIRST_VERSION_WITH_FENCED,
            knows_abortable=context.version >= _FIRST_VERSION_WITH_ABORTABLE,
        )
    }


OPERATION = Operation(
    api_key=25,
    name="AddOffsetsToTxn",
    min_version=0,
    max_version=4,
    handle=handle,
    needs=(
        Need(Resource.TRANSACTIONAL_ID, Verb.WRITE, names="transactional_id"),
        Need(Resource.GROUP, Verb.READ, names="group_id"),
    ),
)
