"""WriteTxnMarkers: end a transaction in single partitions.

Coordinators on other brokers ask for it, and administrators, who abort hanging ones.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import GoQueueError
from goqueue.model.names import topic_partition
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.write_txn_markers.v2.request import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

# The transaction version in which each transaction has an epoch of its own (KIP-890).
_FIRST_WITH_EPOCHS: Final = 2
# Markers that are written at once: a request may ask for very many.
_TOGETHER: Final = 100


async def handle(context: RequestContext, request: "WriteTxnMarkersRequest") -> Message:
    context.quota = None
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": await _all_written(context, topic, marker),
                    }
                    async for topic in in_slices(marker.topics)
                ],
            }
            async for marker in in_slices(request.markers)
        ]
    }


async def _all_written(
    context: RequestContext, topic: "WritableTxnMarkerTopic", asked: "WritableTxnMarker"
) -> list[Message]:
    """Partitions wait for their commits together."""
    answers: list[Message] = []
    indexes = topic.partition_indexes
    for start in range(0, len(indexes), _TOGETHER):
        part = indexes[start : start + _TOGETHER]
        codes = await asyncio.gather(
            *(_written(context, topic.name, index, asked) for index in part)
        )
        answers += (
            {"partition_index": index, "error_code": code}
            for index, code in zip(part, codes, strict=True)
        )
    return answers


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
            # Version 1 of the request does not say.
            bumps_epoch=getattr(asked, "transaction_version", 0) >= _FIRST_WITH_EPOCHS,
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
    needs=(Need(Resource.CLUSTER, Verb.CLUSTER_ACTION, refused=Refused.EACH, or_verb=Verb.ALTER),),
)
