"""InitProducerId: an identity for an idempotent or transactional producer."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, transaction_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.model.transactions.messages import InitProducerId
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v6.request import InitProducerIdRequest

_MILLISECOND: Final = timedelta(milliseconds=1)
_FIRST_VERSION_WITH_FENCED: Final = 4


async def handle(context: RequestContext, request: "InitProducerIdRequest") -> Message:
    if request.keep_prepared_txn:
        return _refused(ErrorCode.unsupported_version)
    if request.enable2_pc:
        return _refused(ErrorCode.transactional_id_authorization_failed)
    init = InitProducerId(
        transactional_id=request.transactional_id,
        timeout_ms=request.transaction_timeout // _MILLISECOND,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
    )
    try:
        answer = await context.service.transactions.init_producer_id(context.caller, init)
    except GoQueueError as error:
        return _refused(failure_code(error))
    code = transaction_code(
        answer.error, knows_producer_fenced=context.version >= _FIRST_VERSION_WITH_FENCED
    )
    return {
        "error_code": code,
        "producer_id": answer.producer_id,
        "producer_epoch": answer.producer_epoch,
    }


def _refused(code: ErrorCode) -> Message:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}


# Two-phase commit from outside (KIP-939, version 6) is refused; the rest of the version is served.
OPERATION = Operation(
    api_key=22,
    name="InitProducerId",
    min_version=0,
    max_version=6,
    handle=handle,
    needs=(
        Need(Resource.TRANSACTIONAL_ID, Verb.WRITE, names="transactional_id"),
        Need(Resource.CLUSTER, Verb.IDEMPOTENT_WRITE),
    ),
)
