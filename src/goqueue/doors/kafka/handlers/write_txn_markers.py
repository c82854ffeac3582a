"""WriteTxnMarkers: end a transaction in single partitions; administrators abort hanging ones so."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.slices import in_slices
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import GoQueueError
from goqueue.model.names import topic_partition
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest


async def handle(context: RequestContext, request: "WriteTxnMarkersRequest") -> Message:
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {
                                "partition_index": index,
                                "error_code": await _written(context, topic.name, index, marker),
                            }
                            async for index in in_slices(topic.partition_indexes)
                        ],
                    }
                    async for topic in in_slices(marker.topics)
                ],
            }
            async for marker in in_slices(request.markers)
        ]
    }


async def _written(
    context: RequestContext, topic: str, index: int, asked: "WritableTxnMarker"
) -> ErrorCode:
    outcome = MarkerType.COMMIT if asked.transaction_result else MarkerType.ABORT
    try:
        await context.service.transactions.write_marker(
            context.caller,
            topic_partition(topic, index),
            Marker(outcome, asked.coordinator_epoch),
            producer_id=asked.producer_id,
            producer_epoch=asked.producer_epoch,
        )
    except GoQueueError as error:
        return error_code(error)
    return ErrorCode.none


OPERATION = Operation(
    api_key=27,
    name="WriteTxnMarkers",
    min_version=1,
    max_version=2,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.CLUSTER_ACTION, refused=Refused.EACH),),
)
