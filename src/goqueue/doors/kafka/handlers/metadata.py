"""Metadata: brokers, and topics by name or id with their partitions' leaders."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.authorized_operations import (
    CLUSTER_OPERATIONS,
    NOT_ASKED_FOR,
    TOPIC_OPERATIONS,
)
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError, UnknownTopicId
from goqueue.model.names import check_topic_name
from goqueue.model.topics import PartitionView, TopicView

if TYPE_CHECKING:
    from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

# From version 1 on, null asks for all topics and an empty list for none.
_FIRST_VERSION_WITH_NULL: Final = 1


async def handle(context: RequestContext, request: "MetadataRequest") -> Message:
    image = context.broker.image
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED_FOR
    wants_all = request.topics is None or (
        context.version < _FIRST_VERSION_WITH_NULL and not request.topics
    )
    if wants_all:
        topics = [_topic(topic, operations) for topic in image.topics.values()]
    else:
        topics = [
            await _asked_topic(
                context, topic, operations, may_create=request.allow_auto_topic_creation
            )
            for topic in dict.fromkeys(request.topics or ())
        ]
    # Creating a topic changed the image.
    image = context.broker.image
    # Up to version 10; newer clients use DescribeCluster.
    wants_cluster_operations = getattr(request, "include_cluster_authorized_operations", False)
    return {
        "brokers": [
            {
                "node_id": broker.node_id,
                "host": broker.host,
                "port": broker.kafka_port,
                "rack": broker.rack,
            }
            for broker in image.brokers.values()
        ],
        "cluster_id": context.broker.cluster_id,
        "controller_id": image.controller_id,
        "topics": topics,
        "cluster_authorized_operations": (
            CLUSTER_OPERATIONS if wants_cluster_operations else NOT_ASKED_FOR
        ),
        "error_code": ErrorCode.none,
    }


async def _asked_topic(
    context: RequestContext,
    asked: "MetadataRequestTopic",
    operations: int,
    *,
    may_create: bool,
) -> Message:
    # Version 10 and 11 have the id on the wire, but clients leave it empty (KIP-516).
    name, topic_id = asked.name, asked.topic_id
    try:
        if topic_id is not None:
            return _topic(context.broker.topic_by_id(topic_id), operations)
        checked = check_topic_name(name or "")
        if may_create:
            return _topic(await context.broker.ensure_topic(checked), operations)
        return _topic(context.broker.topic(checked), operations)
    except GoQueueError as error:
        by_id = isinstance(error, UnknownTopicId)
        return {
            "error_code": error_code(error),
            # Up to version 11 a name must be there.
            "name": None if by_id and context.version >= 12 else name or "",
            "topic_id": topic_id,
            "partitions": (),
        }


def _topic(topic: TopicView, operations: int) -> Message:
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
        "partitions": [_partition(partition) for partition in topic.partitions],
        "topic_authorized_operations": operations,
    }


def _partition(partition: PartitionView) -> Message:
    has_leader = partition.leader >= 0
    return {
        "error_code": ErrorCode.none if has_leader else ErrorCode.leader_not_available,
        "partition_index": partition.index,
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "offline_replicas": partition.offline,
    }


OPERATION = Operation(api_key=3, name="Metadata", min_version=0, max_version=13, handle=handle)
