"""DescribeProducers: who writes to a partition, and which transactions are open there (KIP-664)."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest


async def handle(context: RequestContext, request: "DescribeProducersRequest") -> Message:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    _described(context, topic.name, index)
                    async for index in in_slices(dict.fromkeys(topic.partition_indexes))
                ],
            }
            async for topic in in_slices(request.topics)
        ]
    }


def _described(context: RequestContext, topic: str, index: int) -> Message:
    try:
        producers = context.service.log.producers(context.caller, topic, index)
    except GoQueueError as error:
        return {
            "partition_index": index,
            "error_code": error_code(error),
            "error_message": error.message,
            "active_producers": (),
        }
    return {
        "partition_index": index,
        "error_code": ErrorCode.none,
        "active_producers": [
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_timestamp_ms,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": producer.transaction_first_offset,
            }
            for producer in producers
        ],
    }


OPERATION = Operation(
    api_key=61,
    name="DescribeProducers",
    min_version=0,
    max_version=0,
    handle=handle,
    needs=(Need(Resource.TOPIC, Verb.READ, names="topics.name", refused=Refused.EACH),),
    only_reads=True,
)
