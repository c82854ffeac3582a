"""UnregisterBroker (KIP-631): forget a broker that does not come back."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.names import NodeId
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest


async def handle(context: RequestContext, request: "UnregisterBrokerRequest") -> Message:
    try:
        await context.service.cluster.forget_node(context.caller, NodeId(int(request.broker_id)))
    except GoQueueError as error:
        return {"error_code": error_code(error), "error_message": error.message}
    return {"error_code": ErrorCode.none, "error_message": None}


OPERATION = Operation(
    api_key=64,
    name="UnregisterBroker",
    min_version=0,
    max_version=0,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.ALTER),),
)
