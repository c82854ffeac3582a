"""Computes a consumer group's target assignment and what of it must be recorded."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from goqueue.model.groups.assignment import NOTHING, Assignment
from goqueue.state.groups.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, MemberSpec
from goqueue.state.groups.consumer_group import ConsumerGroup, ConsumerMember
from goqueue.state.groups.gates import Gates
from goqueue.state.groups.records import TargetEpochKey, TargetEpochValue, record
from goqueue.state.groups.topics import Topics
from goqueue.state.layouts import readable
from goqueue.state.machine import StateRecord


@dataclass(frozen=True, slots=True)
class TargetAssignment:
    by_member: Mapping[str, Assignment]
    records: list[StateRecord]


def preferred_assignor(members: Mapping[str, ConsumerMember]) -> str:
    """The one most members ask for; on a tie the first by name, so that it does not flap."""
    votes = Counter(m.said.assignor for m in members.values() if m.said.assignor)
    if not votes:
        return DEFAULT_ASSIGNOR
    return min(votes, key=lambda name: (-votes[name], name))


def compute_target(
    group: ConsumerGroup,
    *,
    epoch: int,
    members: Mapping[str, ConsumerMember],
    targets: Mapping[str, Assignment],
    topics: Topics,
    gates: Gates,
) -> TargetAssignment:
    """`members` and `targets` are the group's as they will be once this command is replayed."""
    specs = {
        member_id: MemberSpec(
            instance_id=member.said.instance_id,
            subscribed=topics.ids_of(group.topics_of(member.said)),
            target=targets.get(member_id, NOTHING),
        )
        for member_id, member in members.items()
    }
    subscribed = frozenset().union(*(spec.subscribed for spec in specs.values()))
    partitions = {
        topic.id: readable(topic.partition_count, gates.withheld(group.group_id, topic))
        for topic in map(topics.by_id.__getitem__, subscribed)
    }
    by_member = ASSIGNORS[preferred_assignor(members)](specs, partitions)
    records = [
        group.target_record(member_id, target)
        for member_id, target in by_member.items()
        if targets.get(member_id) != target
    ]
    records.append(record(TargetEpochKey(group.group_id), TargetEpochValue(epoch)))
    return TargetAssignment(by_member, records)
