"""Reading a streams heartbeat: is it valid, and does it say anything new?"""

from collections import Counter
from typing import Final

import msgspec

from goqueue.model.errors import InvalidTopicName
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import JOIN_EPOCH, LEAVE_EPOCH
from goqueue.model.groups.streams_messages import StreamsGroupHeartbeat
from goqueue.model.groups.topology import Subtopology, Topology
from goqueue.model.names import check_topic_name
from goqueue.model.topics import is_internal
from goqueue.state.groups.records import StreamsMemberValue
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.states import MemberState
from goqueue.state.groups.streams.group import StreamsGroup

# Kafka's, in characters; a generated id has 36.
_ID_MAX_LENGTH: Final = 1_000


def check_request(request: StreamsGroupHeartbeat) -> None:
    epoch = request.member_epoch
    _require(bool(request.group_id.strip()), "group id must not be empty")
    _require(bool(request.member_id.strip()), "member id must not be empty")
    _require(
        len(request.member_id) <= _ID_MAX_LENGTH,
        f"member id has {len(request.member_id)} characters; the limit is {_ID_MAX_LENGTH}",
    )
    _require(request.rack_id != "", "rack id must not be empty")
    # Kafka's brokers refuse these as well, so that no client sends them.
    _require(request.instance_id is None, "streams groups have no static members")
    _require(not request.has_topic_regex, "source topics cannot be given by regular expressions")
    _require(not request.owns_warmups, "no warm-up tasks are assigned, so that nobody owns any")
    _require(epoch >= LEAVE_EPOCH, f"member epoch {epoch} is below {LEAVE_EPOCH}")
    _require(request.rebalance_timeout_ms >= -1, "rebalance timeout must not be negative")
    if epoch == JOIN_EPOCH:
        _require(request.rebalance_timeout_ms != -1, "rebalance timeout must be set when joining")
        _require(not request.owned, "owned tasks must be empty when joining")
        _require(bool(request.process_id), "process id must be set when joining")
        if request.topology is None:
            raise Refused(GroupError.INVALID_REQUEST, "topology must be set when joining")
        check_topology(request.topology)
    else:
        _require(request.topology is None, "topology can be given only when joining")


def check_topology(topology: Topology) -> None:
    _fit(topology.epoch >= 0, "the topology's epoch is negative")
    _fit(bool(topology.subtopologies), "the topology has no subtopologies")
    ids = Counter(each.subtopology_id for each in topology.subtopologies)
    _fit("" not in ids, "a subtopology has no id")
    _fit(max(ids.values()) == 1, f"subtopology {_most(ids)!r} is given twice")
    for name in sorted(topology.topics):
        try:
            check_topic_name(name)
        except InvalidTopicName as error:
            raise Refused(GroupError.STREAMS_INVALID_TOPOLOGY, error.message) from None
        _fit(not is_internal(name), f"topic {name!r} is the broker's own")
    reads = Counter(name for each in topology.subtopologies for name in each.read_topics)
    for each in topology.subtopologies:
        _check_subtopology(each)
    _fit(max(reads.values()) == 1, f"topic {_most(reads)!r} is read in more than one place")
    logs = Counter(t.name for each in topology.subtopologies for t in each.changelog_topics)
    _fit(max(logs.values(), default=1) == 1, f"changelog {_most(logs)!r} is given twice")


def _check_subtopology(each: Subtopology) -> None:
    name = each.subtopology_id
    _fit(any(each.read_topics), f"subtopology {name!r} reads nothing")
    for topic in each.internal_topics:
        _fit(topic.partitions >= 0, f"topic {topic.name!r} has a negative number of partitions")
        _fit(
            topic.replication_factor >= -1,
            f"topic {topic.name!r} has a replication factor of {topic.replication_factor}",
        )
    for group in each.copartition_groups:
        for places, topics in (
            (group.source_topics, len(each.source_topics)),
            (group.repartition_topics, len(each.repartition_topics)),
        ):
            _fit(
                all(0 <= place < topics for place in places),
                f"subtopology {name!r}: a copartition group names a topic that is not there",
            )


def _most(counted: Counter[str]) -> str:
    return max(counted, key=lambda name: counted[name], default="")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Refused(GroupError.INVALID_REQUEST, message)


def _fit(condition: bool, message: str) -> None:
    if not condition:
        raise Refused(GroupError.STREAMS_INVALID_TOPOLOGY, message)


def says_nothing_new(group: StreamsGroup, request: StreamsGroupHeartbeat) -> bool:
    """The heartbeat of a settled member in a settled group, which is nearly all of them."""
    member = group.members.get(request.member_id)
    return (
        member is not None
        and request.member_epoch == member.current.epoch == group.epoch == group.assignment_epoch
        and member.current.state is MemberState.STABLE
        and not group.topics_changed
        and group.configured is not None
        and group.configured.is_ready
        and group.shutdown_by is None
        and group.topology is not None
        and member.said.topology_epoch >= group.topology.epoch
        and request.endpoint_epoch == group.endpoint_epoch
        and request.owned is None
        and request.topology is None
        and request.process_id is None
        and request.endpoint is None
        and request.tags is None
        and request.rack_id is None
        and request.instance_id is None
        and request.rebalance_timeout_ms == -1
        and not request.shutdown_application
        and not request.owns_warmups
        and request.client.client_id == member.said.client_id
        and request.client.host == member.said.client_host
    )


def said_by(before: StreamsMemberValue, request: StreamsGroupHeartbeat) -> StreamsMemberValue:
    changes: dict[str, object] = {
        "client_id": request.client.client_id,
        "client_host": request.client.host,
    }
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.topology is not None:
        changes["topology_epoch"] = request.topology.epoch
    if request.process_id:
        changes["process_id"] = request.process_id
    if request.endpoint is not None:
        changes["endpoint"] = request.endpoint
    if request.tags is not None:
        changes["tags"] = tuple(sorted(dict(request.tags).items()))
    return msgspec.structs.replace(before, **changes)
