"""DescribeQuorum (KIP-595): who decides about the metadata.

There it is kept by etcd, or in the folder of a node of one, and Kafka has no words for these. What
its tools ask for is answered from the brokers' side: the controller leads, all brokers that were
admitted could, and each has the metadata up to the revision that this one knows.
"""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.model.topics import BrokerView, QuorumView
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest

_TOPIC: Final = "__cluster_metadata"
_LISTENER: Final = "PLAINTEXT"


async def handle(context: RequestContext, request: "DescribeQuorumRequest") -> Message:
    try:
        quorum = context.service.cluster.quorum(context.caller)
    except GoQueueError as error:
        return {
            "error_code": error_code(error),
            "error_message": error.message,
            "topics": (),
            "nodes": (),
        }
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "topics": [
            {
                "topic_name": topic.topic_name,
                "partitions": [
                    _partition(quorum, part.partition_index)
                    if topic.topic_name == _TOPIC and part.partition_index == 0
                    else _unknown(part.partition_index)
                    for part in topic.partitions
                ],
            }
            for topic in request.topics
        ],
        "nodes": [_node(broker) for broker in quorum.brokers],
    }


def _partition(quorum: QuorumView, index: int) -> Message:
    return {
        "partition_index": index,
        "error_code": ErrorCode.none,
        "error_message": None,
        "leader_id": quorum.controller_id,
        "leader_epoch": 0,
        "high_watermark": quorum.revision,
        "current_voters": [
            {
                "replica_id": broker.node_id,
                "replica_directory_id": (
                    None if broker.registration is None else broker.registration.directory
                ),
                "log_end_offset": quorum.revision,
            }
            for broker in quorum.brokers
        ],
        "observers": (),
    }


def _unknown(index: int) -> Message:
    return {
        "partition_index": index,
        "error_code": ErrorCode.unknown_topic_or_partition,
        "error_message": f"the metadata are partition 0 of {_TOPIC}",
        "leader_id": -1,
        "leader_epoch": -1,
        "high_watermark": -1,
        "current_voters": (),
        "observers": (),
    }


def _node(broker: BrokerView) -> Message:
    listener = {"name": _LISTENER, "host": broker.host, "port": broker.kafka_port}
    return {"node_id": broker.node_id, "listeners": [listener]}


OPERATION = Operation(
    api_key=55,
    name="DescribeQuorum",
    min_version=0,
    max_version=2,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.DESCRIBE),),
    only_reads=True,
)
