"""A group of the consumer protocol (KIP-848). All of it is durable and changes by replay only.

Epochs: the group epoch counts changes of members, subscriptions and topics; the assignment epoch is
the group epoch the target assignment was computed for; a member's epoch is the assignment epoch it
has reached.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from uuid import UUID

from goqueue.model.groups.assignment import NOTHING, Assignment, stored
from goqueue.model.groups.consumer_protocol import PROTOCOL_TYPE
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import GroupKind, MemberProtocol
from goqueue.state.groups.current_assignment import CurrentAssignment
from goqueue.state.groups.group import Committer
from goqueue.state.groups.records import (
    CommittedOffset,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberKey,
    ConsumerMemberValue,
    CurrentMemberKey,
    TargetEpochKey,
    TargetEpochValue,
    TargetMemberKey,
    TargetMemberValue,
    record,
    tombstone,
)
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.room import names_bytes
from goqueue.state.groups.states import ConsumerState, MemberState
from goqueue.state.groups.topic_regex import RegexCache, Search
from goqueue.state.groups.topics import TopicInfo, Topics
from goqueue.state.machine import StateRecord


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    said: ConsumerMemberValue = field(default_factory=ConsumerMemberValue)
    current: CurrentAssignment[UUID] = field(default_factory=CurrentAssignment)

    @property
    def epoch(self) -> int:
        return self.current.epoch

    @property
    def uses_classic_protocol(self) -> bool:
        return self.said.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.current.state is MemberState.STABLE and self.current.epoch == epoch


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    group_id: str
    # Shared by all groups; what a search finds follows the topics and the rights.
    regexes: RegexCache
    epoch: int = 0
    topics_digest: int = 0
    assignment_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    # Who has a partition, or has not confirmed yet that it gave it up.
    owners: dict[UUID, dict[int, str]] = field(default_factory=dict)
    topic_subscribers: Counter[str] = field(default_factory=Counter)
    searches: Counter[Search] = field(default_factory=Counter)
    # What all members subscribe to.
    subscription_bytes: int = 0
    # Volatile: topics changed since the epoch was last compared with them.
    topics_changed: bool = True

    # --- as a Group -----------------------------------------------------------------------

    @property
    def kind(self) -> GroupKind:
        return GroupKind.CONSUMER

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        if all(m.is_reconciled_to(self.assignment_epoch) for m in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topic_subscribers or any(
            topic in self.regexes.topics(search) for search in self.searches
        )

    def check_offset_commit(self, committer: Committer) -> None:
        if committer.generation < 0 and self.is_empty:
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
        if self.assignment_epoch:
            records.append(tombstone(TargetEpochKey(self.group_id)))
        records.append(tombstone(ConsumerGroupKey(self.group_id)))
        return records

    def records(self) -> Iterable[StateRecord]:
        """Records that make the group."""
        yield record(
            ConsumerGroupKey(self.group_id), ConsumerGroupValue(self.epoch, self.topics_digest)
        )
        if self.assignment_epoch:
            yield record(TargetEpochKey(self.group_id), TargetEpochValue(self.assignment_epoch))
        for member in self.members.values():
            yield record(ConsumerMemberKey(self.group_id, member.member_id), member.said)
        for member_id, target in self.targets.items():
            yield self.target_record(member_id, target)
        for member in self.members.values():
            if member.current != CurrentAssignment():
                yield self.current_record(member)

    # --- questions ------------------------------------------------------------------------

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise Refused(
                GroupError.UNKNOWN_MEMBER_ID,
                f"member {member_id!r} is not a member of group {self.group_id!r}",
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        if instance_id is None or instance_id not in self.static_members:
            return None
        return self.members[self.static_members[instance_id]]

    def owner(self, topic_id: UUID, partition: int) -> str | None:
        return self.owners.get(topic_id, {}).get(partition)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether a partition of the member's target is still with somebody else."""
        return any(
            self.owner(topic_id, partition) not in (None, member.member_id)
            for topic_id, partitions in self.targets.get(member.member_id, NOTHING).items()
            for partition in partitions
        )

    def supports_classic(self, protocol_type: str, protocols: tuple[MemberProtocol, ...]) -> bool:
        if protocol_type != PROTOCOL_TYPE or not protocols:
            return False
        known = [
            {name for name, _ in m.said.classic.protocols}
            for m in self.members.values()
            if m.said.classic is not None
        ]
        return any(all(p.name in names for names in known) for p in protocols)

    def topics_of(self, said: ConsumerMemberValue) -> frozenset[str]:
        """All names a member subscribes to, whether or not they exist."""
        names = frozenset(said.topics)
        return names | self.regexes.topics(search_of(said)) if said.regex else names

    def _check_epoch(self, member: ConsumerMember, epoch: int) -> None:
        if epoch != member.epoch:
            raise Refused(
                GroupError.ILLEGAL_GENERATION
                if member.uses_classic_protocol
                else GroupError.STALE_MEMBER_EPOCH
            )

    # --- records --------------------------------------------------------------------------

    def epoch_record(self, epoch: int, topics_digest: int) -> StateRecord:
        return record(ConsumerGroupKey(self.group_id), ConsumerGroupValue(epoch, topics_digest))

    def said_record(self, member: ConsumerMember) -> StateRecord:
        return record(ConsumerMemberKey(self.group_id, member.member_id), member.said)

    def current_record(self, member: ConsumerMember) -> StateRecord:
        key = CurrentMemberKey(self.group_id, member.member_id)
        return record(key, member.current.as_value())

    def target_record(self, member_id: str, target: Assignment) -> StateRecord:
        key = TargetMemberKey(self.group_id, member_id)
        return record(key, TargetMemberValue(stored(target)))

    def member_tombstones(self, member_id: str) -> list[StateRecord]:
        return [
            tombstone(CurrentMemberKey(self.group_id, member_id)),
            tombstone(TargetMemberKey(self.group_id, member_id)),
            tombstone(ConsumerMemberKey(self.group_id, member_id)),
        ]

    # --- replay ---------------------------------------------------------------------------

    def set_said(self, member_id: str, said: ConsumerMemberValue) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._count(before.said, -1)
            self._forget_instance(before)
        current = before.current if before is not None else CurrentAssignment()
        self.members[member_id] = ConsumerMember(member_id, said, current)
        self._count(said, 1)
        if said.instance_id is not None:
            self.static_members[said.instance_id] = member_id

    def set_current(self, member_id: str, current: CurrentAssignment[UUID]) -> None:
        before = self.members.get(member_id, ConsumerMember(member_id))
        self._disown(before)
        self.members[member_id] = ConsumerMember(member_id, before.said, current)
        for partitions in (current.assigned, current.pending_revocation):
            for topic_id, numbers in partitions.items():
                self.owners.setdefault(topic_id, {}).update(dict.fromkeys(numbers, member_id))

    def remove_current(self, member_id: str) -> None:
        if member_id in self.members:
            self.set_current(member_id, CurrentAssignment())

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._disown(member)
        self._count(member.said, -1)
        self._forget_instance(member)

    def _forget_instance(self, member: ConsumerMember) -> None:
        """The instance id is free again, unless another member has taken it over."""
        instance_id = member.said.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _disown(self, member: ConsumerMember) -> None:
        for partitions in (member.current.assigned, member.current.pending_revocation):
            for topic_id, numbers in partitions.items():
                held = self.owners.get(topic_id, {})
                for number in numbers:
                    if held.get(number) == member.member_id:
                        del held[number]
                if not held:
                    self.owners.pop(topic_id, None)

    def _count(self, said: ConsumerMemberValue, step: int) -> None:
        self.subscription_bytes += step * said_bytes(said)
        for topic in said.topics:
            self.topic_subscribers[topic] += step
            if not self.topic_subscribers[topic]:
                del self.topic_subscribers[topic]
        if said.regex:
            search = search_of(said)
            self.searches[search] += step
            if not self.searches[search]:
                del self.searches[search]


def search_of(said: ConsumerMemberValue) -> Search:
    """Of a member with a regular expression."""
    return Search(said.regex, said.viewer)


def said_bytes(said: ConsumerMemberValue) -> int:
    protocols = () if said.classic is None else said.classic.protocols
    return names_bytes((*said.topics, said.regex)) + sum(
        len(name) + len(metadata) for name, metadata in protocols
    )


def _nothing(_: TopicInfo) -> frozenset[int]:
    return frozenset()


def digest_of(
    names: Iterable[str],
    topics: Topics,
    withheld: Callable[[TopicInfo], frozenset[int]] = _nothing,
    seen: Iterable[tuple[Search, frozenset[str]]] = (),
) -> int:
    """A number that changes when a subscribed topic comes, goes, is remade or gets partitions, or
    when other partitions than before are withheld. `seen` is what members find who may see only
    some topics: it may change while the group as a whole has the same."""
    digest = blake2b(digest_size=7)
    for name in sorted(set(names) & topics.by_name.keys()):
        topic = topics.by_name[name]
        digest.update(f"{name}\0{topic.id.hex}\0{topic.partition_count}\0".encode())
        if topic.splits:
            digest.update(f"{sorted(withheld(topic))}\0".encode())
    for search, found in sorted(seen, key=lambda each: each[0]):
        digest.update("\0".join((search.pattern, *map(str, search.viewer or ()), "")).encode())
        digest.update("\0".join((*sorted(found & topics.by_name.keys()), "")).encode())
    return int.from_bytes(digest.digest())
