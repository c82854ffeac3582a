"""Streams groups as others see them: described, and where the state of which partitions is."""

from collections.abc import Iterable, Mapping

from goqueue.model.groups.assignment import union
from goqueue.model.groups.messages import Client
from goqueue.model.groups.streams_messages import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    EndpointPartitions,
)
from goqueue.model.groups.tasks import NO_TASKS, TaskRole, Tasks, of_role
from goqueue.model.groups.topology import Endpoint
from goqueue.state.groups.streams.group import StreamsGroup, StreamsMember
from goqueue.state.groups.streams.topology import ConfiguredTopology, configured
from goqueue.state.groups.topics import Topics

_Partitions = Mapping[str, frozenset[int]]


def partitions_of(tasks: Tasks, role: TaskRole, topology: ConfiguredTopology) -> _Partitions:
    """By topic. Tasks of a subtopology that is no longer there read nothing."""
    found: _Partitions = {}
    for name, numbers in of_role(tasks, role).items():
        if name in topology.subtopologies:
            found = union(found, topology.subtopologies[name].partitions_of(numbers))
    return found


def endpoints_of(
    members: Iterable[StreamsMember], topology: ConfiguredTopology
) -> tuple[EndpointPartitions, ...]:
    """Members of one process have one endpoint, and are told as one."""
    found: dict[Endpoint, EndpointPartitions] = {}
    for member in members:
        endpoint = member.said.endpoint
        if endpoint is None:
            continue
        before = found.get(endpoint, EndpointPartitions(endpoint, {}, {}))
        tasks = member.current.assigned
        found[endpoint] = EndpointPartitions(
            endpoint,
            union(before.active, partitions_of(tasks, TaskRole.ACTIVE, topology)),
            union(before.standby, partitions_of(tasks, TaskRole.STANDBY, topology)),
        )
    return tuple(found.values())


def described(group: StreamsGroup, topics: Topics) -> DescribedStreamsGroup:
    known = group.topology
    plan = ConfiguredTopology()
    if known is not None:
        plan = configured(known.topology, topics)
    return DescribedStreamsGroup(
        group_id=group.group_id,
        state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology_epoch=-1 if known is None else known.epoch,
        subtopologies=None if known is None else plan.described(known.topology),
        source_topics=() if known is None else tuple(sorted(known.topology.source_topics)),
        topics=frozenset() if known is None else known.topics,
        members=tuple(_member(group, member, plan) for member in group.members.values()),
    )


def _member(
    group: StreamsGroup, member: StreamsMember, plan: ConfiguredTopology
) -> DescribedStreamsMember:
    said = member.said
    return DescribedStreamsMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        rack_id=said.rack_id,
        client=Client(client_id=said.client_id, host=said.client_host),
        topology_epoch=said.topology_epoch,
        process_id=said.process_id,
        endpoint=said.endpoint,
        tags=said.tags,
        tasks=member.current.assigned,
        target=group.targets.get(member.member_id, NO_TASKS),
        reads=partitions_of(member.current.assigned, TaskRole.ACTIVE, plan),
    )
