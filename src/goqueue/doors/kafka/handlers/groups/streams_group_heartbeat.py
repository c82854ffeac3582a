"""StreamsGroupHeartbeat: join, stay in and leave a streams group (KIP-1071)."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from goqueue.doors.kafka.coordinator_errors import group_code
from goqueue.doors.kafka.heartbeat_answers import heartbeat_failure
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.streams_tasks import role_rows
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.assignment import assignment
from goqueue.model.groups.streams_messages import (
    EndpointPartitions,
    StreamsGroupHeartbeat,
    StreamsGroupHeartbeatResult,
)
from goqueue.model.groups.tasks import TaskKey, TaskRole, Tasks
from goqueue.model.groups.topology import (
    ApplicationTopic,
    CopartitionGroup,
    Endpoint,
    Subtopology,
    Topology,
)
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.streams_group_heartbeat.v0.request import (
        StreamsGroupHeartbeatRequest,
        TaskIds,
        TopicInfo,
    )
    from kio.schema.streams_group_heartbeat.v0.request import Subtopology as AskedSubtopology

_MILLISECOND: Final = timedelta(milliseconds=1)
# The protocol's defaults: how far behind a task may be that takes over, and how often members tell.
_ACCEPTABLE_RECOVERY_LAG: Final = 10_000
_TASK_OFFSET_INTERVAL_MS: Final = 60_000

_TOPICS: Final = ", ".join(
    f"topology.subtopologies.{field}"
    for field in (
        "source_topics",
        "repartition_sink_topics",
        "repartition_source_topics.name",
        "state_changelog_topics.name",
    )
)


async def handle(context: RequestContext, request: "StreamsGroupHeartbeatRequest") -> Message:
    topology, tags, endpoint = request.topology, request.client_tags, request.user_endpoint
    beat = StreamsGroupHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout // _MILLISECOND,
        topology=(
            None
            if topology is None
            else Topology(topology.epoch, tuple(map(_subtopology, topology.subtopologies)))
        ),
        owned=_owned(request),
        owns_warmups=bool(request.warmup_tasks),
        has_topic_regex=topology is not None
        and any(each.source_topic_regex for each in topology.subtopologies),
        process_id=request.process_id,
        endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        tags=None if tags is None else tuple((tag.key, tag.value) for tag in tags),
        shutdown_application=request.shutdown_application,
        client=context.client,
    )
    try:
        result = await context.service.streams_groups.heartbeat(context.caller, beat)
    except GoQueueError as error:
        return {
            **heartbeat_failure(error, request.member_id, request.member_epoch),
            **_NO_NEWS,
        }
    return _answer(result)


def _subtopology(asked: "AskedSubtopology") -> Subtopology:
    return Subtopology(
        subtopology_id=asked.subtopology_id,
        source_topics=tuple(asked.source_topics),
        sink_topics=tuple(asked.repartition_sink_topics),
        repartition_topics=_internal_topics(asked.repartition_source_topics),
        changelog_topics=_internal_topics(asked.state_changelog_topics),
        copartition_groups=tuple(
            CopartitionGroup(tuple(group.source_topics), tuple(group.repartition_source_topics))
            for group in asked.copartition_groups
        ),
    )


def _internal_topics(asked: "Iterable[TopicInfo]") -> tuple[ApplicationTopic, ...]:
    return tuple(
        ApplicationTopic(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=tuple(sorted((each.key, each.value) for each in topic.topic_configs)),
        )
        for topic in asked
    )


def _owned(request: "StreamsGroupHeartbeatRequest") -> Tasks | None:
    """Members tell all of what they own or nothing."""
    if request.active_tasks is None and request.standby_tasks is None:
        return None
    return assignment(
        (
            *_tasks(TaskRole.ACTIVE, request.active_tasks or ()),
            *_tasks(TaskRole.STANDBY, request.standby_tasks or ()),
        )
    )


def _tasks(role: TaskRole, asked: "Iterable[TaskIds]") -> Iterable[tuple[TaskKey, Iterable[int]]]:
    return ((TaskKey(role, each.subtopology_id), each.partitions) for each in asked)


_NO_NEWS: Final[Message] = {
    "acceptable_recovery_lag": _ACCEPTABLE_RECOVERY_LAG,
    "task_offset_interval": _TASK_OFFSET_INTERVAL_MS,
    "status": None,
    "active_tasks": None,
    "standby_tasks": None,
    "warmup_tasks": None,
    "endpoint_information_epoch": 0,
    "partitions_by_user_endpoint": None,
}


def _answer(result: StreamsGroupHeartbeatResult) -> Message:
    found = result.endpoints
    return {
        **_NO_NEWS,
        "error_code": group_code(result.error),
        "error_message": result.error_message or None,
        "member_id": result.member_id,
        "member_epoch": result.member_epoch,
        "heartbeat_interval": result.heartbeat_interval_ms,
        "status": [
            {"status_code": status.code, "status_detail": status.detail} for status in result.status
        ],
        **({} if result.tasks is None else role_rows(result.tasks)),
        "endpoint_information_epoch": result.endpoint_epoch,
        "partitions_by_user_endpoint": None if found is None else [_endpoint(e) for e in found],
    }


def _endpoint(found: EndpointPartitions) -> Message:
    return {
        "user_endpoint": {"host": found.endpoint.host, "port": found.endpoint.port},
        "active_partitions": _partitions(found.active),
        "standby_partitions": _partitions(found.standby),
    }


def _partitions(by_topic: Mapping[str, frozenset[int]]) -> list[Message]:
    return [
        {"topic": topic, "partitions": sorted(partitions)} for topic, partitions in by_topic.items()
    ]


OPERATION = Operation(
    api_key=88,
    name="StreamsGroupHeartbeat",
    min_version=0,
    max_version=0,
    handle=handle,
    needs=(
        Need(Resource.GROUP, Verb.READ, names="group_id"),
        Need(Resource.TOPIC, Verb.DESCRIBE, names=_TOPICS),
        # Who may not make the internal topics is told that they are missing.
        Need(Resource.TOPIC, Verb.CREATE, refused=Refused.LEFT_OUT, or_cluster=True),
    ),
)
