"""Requests and responses of streams groups (KIP-1071)."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import UNKNOWN_MEMBER_ID, Client
from goqueue.model.groups.tasks import Tasks
from goqueue.model.groups.topology import ApplicationTopic, Endpoint, Topology
from goqueue.model.names import TopicPartition, topic_partition

_NOBODY: Final = Client()
# Kafka's name of the one assignor that streams groups have.
STREAMS_ASSIGNOR: Final = "sticky"


class StatusCode(IntEnum):
    """What a member is told besides its tasks; numbers are the protocol's."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4


class Status(NamedTuple):
    code: StatusCode
    detail: str


class StreamsGroupHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """None means: not changed since the last heartbeat. The member always brings its own id."""

    group_id: str
    member_id: str
    member_epoch: int
    # The endpoints that the member knows; they are told when there are others.
    endpoint_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    # Only of a member that joins.
    topology: Topology | None = None
    owned: Tasks | None = None
    # Whether it says to have tasks that warm up, and reads topics by regular expressions.
    owns_warmups: bool = False
    has_topic_regex: bool = False
    process_id: str | None = None
    endpoint: Endpoint | None = None
    tags: tuple[tuple[str, str], ...] | None = None
    shutdown_application: bool = False
    client: Client = _NOBODY


class EndpointPartitions(NamedTuple):
    """What can be asked for at an endpoint: partitions by topic."""

    endpoint: Endpoint
    active: Mapping[str, frozenset[int]]
    standby: Mapping[str, frozenset[int]]


class StreamsGroupHeartbeatResult(msgspec.Struct, frozen=True, kw_only=True):
    error: GroupError = GroupError.NONE
    error_message: str = ""
    member_id: str = UNKNOWN_MEMBER_ID
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    status: tuple[Status, ...] = ()
    tasks: Tasks | None = None
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    # To be made by whoever may do so for the member, with the counts that were found for them.
    missing_topics: tuple[ApplicationTopic, ...] = ()


class DescribedSubtopology(msgspec.Struct, frozen=True, kw_only=True):
    """Internal topics have the counts that were found for them."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    sink_topics: tuple[str, ...]
    repartition_topics: tuple[ApplicationTopic, ...]
    changelog_topics: tuple[ApplicationTopic, ...]


class DescribedStreamsMember(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    member_epoch: int
    rack_id: str | None
    client: Client
    topology_epoch: int
    process_id: str
    endpoint: Endpoint | None
    tags: tuple[tuple[str, str], ...]
    tasks: Tasks
    target: Tasks
    # The partitions that its active tasks read, by topic.
    reads: Mapping[str, frozenset[int]]

    @property
    def held(self) -> list[TopicPartition]:
        return [
            topic_partition(topic, partition)
            for topic, partitions in self.reads.items()
            for partition in sorted(partitions)
        ]


class DescribedStreamsGroup(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    error: GroupError = GroupError.NONE
    error_message: str = ""
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    topology_epoch: int = -1
    # None while topics are missing or do not fit together.
    subtopologies: tuple[DescribedSubtopology, ...] | None = None
    source_topics: tuple[str, ...] = ()
    # All that the topology names.
    topics: frozenset[str] = frozenset()
    members: tuple[DescribedStreamsMember, ...] = ()
