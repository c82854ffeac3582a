"""Metadata: brokers, and topics by name or id with their partitions' leaders."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.authorized_operations import (
    NOT_ASKED_FOR,
    operations_on,
    operations_on_cluster,
)
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import CloseConnection, Operation, RequestContext
from goqueue.doors.kafka.rows import Rows
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.names import NO_LEADER, check_topic_name
from goqueue.model.rights import Resource, Verb
from goqueue.model.topics import PartitionView, TopicView
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

# From version 1 on, null asks for all topics and an empty list for none.
_FIRST_VERSION_WITH_NULL: Final = 1
# Others get their turn after this many.
_SLICE_TOPICS: Final = 200


async def handle(context: RequestContext, request: "MetadataRequest") -> Message:
    stepped_down = context.service.administration.stepped_down
    if stepped_down is not None:
        # What it knows is old. A client that reaches this broker alone would ask it again and
        # again, and never the others, for as long as it answers.
        raise CloseConnection(stepped_down)
    wants_operations = request.include_topic_authorized_operations
    wants_all = request.topics is None or (
        context.version < _FIRST_VERSION_WITH_NULL and not request.topics
    )
    topics: Rows[TopicView] | list[Message]
    if wants_all:
        views = [view async for view in in_slices(context.service.topics.views(context.caller))]
        topics = Rows(
            views,
            partial(_topic, context, wants_operations=wants_operations),
            elements=sum(1 + len(view.partitions) for view in views),
        )
    else:
        topics = []
        for count, asked in enumerate(dict.fromkeys(request.topics or ()), 1):
            topic = await _asked_topic(
                context,
                asked,
                may_create=request.allow_auto_topic_creation,
                wants_operations=wants_operations,
            )
            topics.append(topic)
            if count % _SLICE_TOPICS == 0:
                await asyncio.sleep(0)
    cluster = await context.service.administration.cluster_at_work()
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
            for broker in cluster.brokers + cluster.departed
        ],
        "cluster_id": cluster.cluster_id,
        "controller_id": cluster.controller_id,
        "topics": topics,
        "cluster_authorized_operations": (
            operations_on_cluster(context) if wants_cluster_operations else NOT_ASKED_FOR
        ),
        "error_code": ErrorCode.none,
    }


async def _asked_topic(
    context: RequestContext,
    asked: "MetadataRequestTopic",
    *,
    may_create: bool,
    wants_operations: bool,
) -> Message:
    # Version 10 and 11 have the id on the wire, but clients leave it empty (KIP-516).
    name, topic_id = asked.name, asked.topic_id
    try:
        topic = await _find(context, name or "", topic_id, may_create=may_create)
        return _topic(context, topic, wants_operations=wants_operations)
    except GoQueueError as error:
        by_id = topic_id is not None
        return {
            "error_code": error_code(error),
            # Up to version 11 a name must be there.
            "name": None if by_id and context.version >= 12 else name or "",
            "topic_id": topic_id,
            "partitions": (),
        }


async def _find(
    context: RequestContext, name: str, topic_id: UUID | None, *, may_create: bool
) -> TopicView:
    topics, caller = context.service.topics, context.caller
    if topic_id is not None:
        return topics.view(caller, topics.name_of(caller, topic_id, Verb.DESCRIBE))
    checked = check_topic_name(name)
    if may_create:
        return await topics.ensure(caller, checked)
    return topics.view(caller, checked)


def _topic(context: RequestContext, topic: TopicView, *, wants_operations: bool) -> Message:
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
        "partitions": Rows(topic.partitions, _partition),
        "topic_authorized_operations": (
            operations_on(context, Resource.TOPIC, topic.name)
            if wants_operations
            else NOT_ASKED_FOR
        ),
    }


def _partition(partition: PartitionView) -> Message:
    # As in Kafka, one that is not there does not lead: clients ask again instead of waiting at it.
    has_leader = partition.leader >= 0 and partition.leader not in partition.offline
    return {
        "error_code": ErrorCode.none if has_leader else ErrorCode.leader_not_available,
        "partition_index": partition.index,
        "leader_id": partition.leader if has_leader else NO_LEADER,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "offline_replicas": partition.offline,
    }


OPERATION = Operation(
    api_key=3,
    name="Metadata",
    min_version=0,
    max_version=13,
    handle=handle,
    starts_at_once=True,
    # Brokers are told to anyone. Of all topics, those that may not be described are left out. To
    # create is asked for only where a topic is not there.
    needs=(
        Need(
            Resource.TOPIC,
            Verb.DESCRIBE,
            names="topics.name, topics.topic_id",
            refused=Refused.EACH,
        ),
        Need(
            Resource.TOPIC,
            Verb.CREATE,
            names="topics.name",
            refused=Refused.EACH,
            or_cluster=True,
        ),
    ),
)
