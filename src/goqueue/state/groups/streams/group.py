"""A streams group (KIP-1071). It is durable and changes by replay only, but for what says so.

Epochs are those of consumer groups. A member's target and what it has are tasks. A task is active
with one member at a time, and a process has it once, in whatever role.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from goqueue.model.groups.assignment import stored, union
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import GroupKind
from goqueue.model.groups.tasks import TaskKey, TaskRole, Tasks
from goqueue.model.groups.topology import Topology
from goqueue.state.groups.current_assignment import CurrentAssignment
from goqueue.state.groups.group import Committer
from goqueue.state.groups.records import (
    CommittedOffset,
    StreamsCurrentKey,
    StreamsGroupKey,
    StreamsGroupValue,
    StreamsMemberKey,
    StreamsMemberValue,
    StreamsTargetKey,
    StreamsTargetValue,
    StreamsTopologyKey,
    StreamsTopologyValue,
    record,
    tombstone,
)
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.room import names_bytes
from goqueue.state.groups.states import MemberState, StreamsState
from goqueue.state.groups.streams.topology import ConfiguredTopology
from goqueue.state.machine import StateRecord

PROTOCOL_TYPE: Final = "streams"


@dataclass(frozen=True, slots=True)
class StreamsMember:
    member_id: str
    said: StreamsMemberValue = field(default_factory=StreamsMemberValue)
    current: CurrentAssignment[TaskKey] = field(default_factory=CurrentAssignment)

    @property
    def epoch(self) -> int:
        return self.current.epoch

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.current.state is MemberState.STABLE and self.current.epoch == epoch


class GroupTopology:
    """A topology, and what follows from it."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    @property
    def epoch(self) -> int:
        return self.topology.epoch

    @cached_property
    def topics(self) -> frozenset[str]:
        return self.topology.topics

    @cached_property
    def read_topics(self) -> frozenset[str]:
        return frozenset(name for each in self.topology.subtopologies for name in each.read_topics)

    @cached_property
    def size_bytes(self) -> int:
        """Names count twice: as members of the sets above."""
        settings = (
            text
            for each in self.topology.subtopologies
            for topic in each.internal_topics
            for pair in topic.config
            for text in pair
        )
        ids = (each.subtopology_id for each in self.topology.subtopologies)
        return 2 * names_bytes(self.topics) + names_bytes(ids) + names_bytes(settings)


@dataclass(slots=True, eq=False)
class StreamsGroup:
    group_id: str
    facts: StreamsGroupValue = field(default_factory=StreamsGroupValue)
    topology: GroupTopology | None = None
    members: dict[str, StreamsMember] = field(default_factory=dict)
    targets: dict[str, Tasks] = field(default_factory=dict)
    # Who has a task, or has not confirmed yet that it gave it up.
    holders: dict[tuple[TaskKey, int], set[str]] = field(default_factory=dict)
    # What all members say of themselves.
    said_bytes: int = 0
    # Volatile: topics changed since the epoch was last compared with them.
    topics_changed: bool = True
    # Volatile: the topology with the topics as they were when it was last looked at.
    configured: ConfiguredTopology | None = None
    # Volatile: rises when the members' endpoints, or what they have, change.
    endpoint_epoch: int = 0
    # Volatile: who asked for the end of the application, until the last member has gone.
    shutdown_by: str | None = None

    # --- as a Group -----------------------------------------------------------------------

    @property
    def kind(self) -> GroupKind:
        return GroupKind.STREAMS

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def epoch(self) -> int:
        return self.facts.epoch

    @property
    def assignment_epoch(self) -> int:
        return self.facts.assignment_epoch

    @property
    def state(self) -> StreamsState:
        if not self.members:
            return StreamsState.EMPTY
        if self.topology is None or self.topology.epoch != self.facts.validated_epoch:
            return StreamsState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsState.ASSIGNING
        if all(m.is_reconciled_to(self.assignment_epoch) for m in self.members.values()):
            return StreamsState.STABLE
        return StreamsState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def topic_subscribers(self) -> frozenset[str]:
        """All topics that the group has to do with."""
        return frozenset() if self.topology is None else self.topology.topics

    def is_subscribed_to(self, topic: str) -> bool:
        """Offsets of a group without members may expire."""
        if self.topology is None or not self.members:
            return False
        return topic in self.topology.read_topics

    def check_offset_commit(self, committer: Committer) -> None:
        if committer.generation < 0 and self.is_empty:
            return
        if committer == Committer("", None, -1, transactional=True):
            # Producers need not say which member they write for.
            return
        self._check_epoch(self.member(committer.member_id), committer.generation)

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        if not member_id and member_epoch < 0:
            return
        self._check_epoch(self.member(member_id or ""), member_epoch)

    def check_offset_delete(self) -> None:
        """Offsets of topics nobody here reads may go at any time."""

    def retention_starts_ms(self, committed: CommittedOffset) -> int | None:
        return committed.commit_ms

    def tombstones(self) -> list[StateRecord]:
        records = [r for member_id in self.members for r in self.member_tombstones(member_id)]
        records.append(tombstone(StreamsTopologyKey(self.group_id)))
        records.append(tombstone(StreamsGroupKey(self.group_id)))
        return records

    # --- questions ------------------------------------------------------------------------

    def member(self, member_id: str) -> StreamsMember:
        member = self.members.get(member_id)
        if member is None:
            raise Refused(
                GroupError.UNKNOWN_MEMBER_ID,
                f"member {member_id!r} is not a member of group {self.group_id!r}",
            )
        return member

    def is_taken(self, key: TaskKey, partition: int, member: StreamsMember) -> bool:
        """Whether the member must wait for a task: another has it active, or another thread of its
        own process has it, whose files are the same."""
        for role in TaskRole:
            for name in self.holders.get((TaskKey(role, key.subtopology), partition), ()):
                if name == member.member_id:
                    continue
                if role is key.role is TaskRole.ACTIVE:
                    return True
                if self.members[name].said.process_id == member.said.process_id:
                    return True
        return False

    def _check_epoch(self, member: StreamsMember, epoch: int) -> None:
        if epoch != member.epoch:
            raise Refused(GroupError.STALE_MEMBER_EPOCH)

    # --- records --------------------------------------------------------------------------

    def facts_record(self, facts: StreamsGroupValue) -> StateRecord:
        return record(StreamsGroupKey(self.group_id), facts)

    def topology_record(self, topology: Topology) -> StateRecord:
        return record(StreamsTopologyKey(self.group_id), StreamsTopologyValue(topology))

    def said_record(self, member: StreamsMember) -> StateRecord:
        return record(StreamsMemberKey(self.group_id, member.member_id), member.said)

    def target_record(self, member_id: str, target: Tasks) -> StateRecord:
        key = StreamsTargetKey(self.group_id, member_id)
        return record(key, StreamsTargetValue(stored(target)))

    def current_record(self, member: StreamsMember) -> StateRecord:
        key = StreamsCurrentKey(self.group_id, member.member_id)
        return record(key, member.current.as_value())

    def member_tombstones(self, member_id: str) -> list[StateRecord]:
        return [
            tombstone(StreamsCurrentKey(self.group_id, member_id)),
            tombstone(StreamsTargetKey(self.group_id, member_id)),
            tombstone(StreamsMemberKey(self.group_id, member_id)),
        ]

    # --- replay ---------------------------------------------------------------------------

    def set_topology(self, topology: Topology | None) -> None:
        self.topology = None if topology is None else GroupTopology(topology)
        self.configured = None

    def set_said(self, member_id: str, said: StreamsMemberValue) -> None:
        before = self.members.get(member_id, StreamsMember(member_id))
        if member_id in self.members:
            self.said_bytes -= said_bytes(before.said)
        self.said_bytes += said_bytes(said)
        self.members[member_id] = StreamsMember(member_id, said, before.current)
        if said.endpoint != before.said.endpoint:
            self.endpoint_epoch += 1

    def set_current(self, member_id: str, current: CurrentAssignment[TaskKey]) -> None:
        before = self.members.get(member_id, StreamsMember(member_id))
        if member_id not in self.members:
            self.said_bytes += said_bytes(before.said)
        self._let_go(before)
        self.members[member_id] = StreamsMember(member_id, before.said, current)
        for place in _held(current):
            self.holders.setdefault(place, set()).add(member_id)
        if before.said.endpoint is not None and current.assigned != before.current.assigned:
            self.endpoint_epoch += 1

    def remove_current(self, member_id: str) -> None:
        if member_id in self.members:
            self.set_current(member_id, CurrentAssignment())

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._let_go(member)
        self.said_bytes -= said_bytes(member.said)
        if member.said.endpoint is not None:
            self.endpoint_epoch += 1
        if not self.members:
            self.shutdown_by = None

    def _let_go(self, member: StreamsMember) -> None:
        for place in _held(member.current):
            holders = self.holders.get(place, set())
            holders.discard(member.member_id)
            if not holders:
                self.holders.pop(place, None)


def _held(current: CurrentAssignment[TaskKey]) -> Iterator[tuple[TaskKey, int]]:
    for key, partitions in union(current.assigned, current.pending_revocation).items():
        yield from ((key, partition) for partition in partitions)


def said_bytes(said: StreamsMemberValue) -> int:
    texts = [said.process_id, said.rack_id or "", *(text for pair in said.tags for text in pair)]
    if said.endpoint is not None:
        texts.append(said.endpoint.host)
    return names_bytes(texts)
