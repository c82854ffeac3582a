"""A group of the classic protocol: its state, its members, and its generations.

The last completed generation is durable (`durable`, set by replay). Everything else lives from
request to request and is rebuilt from the durable part after a restart, as in Kafka.
"""

from collections import Counter
from dataclasses import dataclass, field

from goqueue.model.groups.consumer_protocol import (
    PROTOCOL_TYPE,
    MalformedProtocol,
    read_subscription,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    Client,
    GroupKind,
    JoinedMember,
    JoinGroupResult,
    MemberProtocol,
    SyncGroupResult,
)
from goqueue.state.groups.group import Committer
from goqueue.state.groups.records import (
    ClassicGroupKey,
    ClassicGroupValue,
    ClassicMemberValue,
    CommittedOffset,
    record,
    tombstone,
)
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.states import CLASSIC_MOVES, ClassicState
from goqueue.state.machine import StateRecord, Ticket


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    member_id: str
    instance_id: str | None
    client: Client
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    # Never had a join answered, so it cannot know its id and cannot send heartbeats.
    is_new: bool = False
    join_ticket: Ticket[JoinGroupResult] | None = None
    sync_ticket: Ticket[SyncGroupResult] | None = None

    def metadata_for(self, protocol_name: str | None) -> bytes:
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""


def size_bytes(protocols: tuple[MemberProtocol, ...]) -> int:
    return sum(len(each.name) + len(each.metadata) for each in protocols)


@dataclass(slots=True, eq=False)
class ClassicGroup:
    group_id: str
    state: ClassicState = ClassicState.EMPTY
    previous_state: ClassicState = ClassicState.EMPTY
    state_since_ms: int = -1
    rebalance_since_ms: int = -1
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    # Told their new id, not yet back with it (KIP-394).
    pending_members: set[str] = field(default_factory=set)
    pending_sync: set[str] = field(default_factory=set)
    # A member came since the initial rebalance delay last started, so it starts again.
    new_member_added: bool = False
    initial_delay_left_ms: int = 0
    # None: the members do not say, or not in a form that can be read.
    subscribed_topics: frozenset[str] | None = None
    durable: ClassicGroupValue | None = None
    # What all members have said under all their protocols.
    subscription_bytes: int = 0
    _supporters: Counter[str] = field(default_factory=Counter)
    _awaiting_join: set[str] = field(default_factory=set)

    # --- as a Group -----------------------------------------------------------------------

    @property
    def kind(self) -> GroupKind:
        return GroupKind.CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol and not self.is_empty
        return topic in self.subscribed_topics

    def check_offset_commit(self, committer: Committer) -> None:
        member_id, instance_id, generation, transactional = committer
        if generation < 0 and self.is_empty:
            return
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation != self.generation:
                raise Refused(GroupError.ILLEGAL_GENERATION)
        elif not transactional:
            # Old transactional commits carry no member; plain ones without need an empty group.
            raise Refused(GroupError.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            raise Refused(GroupError.REBALANCE_IN_PROGRESS)

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        """Members of the classic protocol do not identify themselves here."""

    def check_offset_delete(self) -> None:
        if not self.is_empty and not self.uses_consumer_protocol:
            raise Refused(GroupError.NON_EMPTY_GROUP)

    def retention_starts_ms(self, committed: CommittedOffset) -> int | None:
        if self.protocol_type is None:
            return committed.commit_ms
        if self.is_empty:
            return self.state_since_ms if self.state_since_ms >= 0 else committed.commit_ms
        if self.subscribed_topics is not None and self.state is ClassicState.STABLE:
            return committed.commit_ms
        return None

    def tombstones(self) -> list[StateRecord]:
        return [tombstone(ClassicGroupKey(self.group_id))] if self.durable is not None else []

    # --- members --------------------------------------------------------------------------

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def awaiting_join_count(self) -> int:
        return len(self._awaiting_join)

    @property
    def all_have_joined(self) -> bool:
        return len(self._awaiting_join) == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest any member asked for."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise Refused(GroupError.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise Refused(GroupError.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise Refused(GroupError.UNKNOWN_MEMBER_ID)

    def supports(self, protocol_type: str, protocols: tuple[MemberProtocol, ...]) -> bool:
        """Whether a member with these protocols fits: one of them must suit all other members."""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self._supporters[p.name] == len(self.members) for p in protocols
        )

    def add(self, member: ClassicMember) -> None:
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.pending_members.discard(member.member_id)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._supporters.update({p.name for p in member.protocols})
        self.subscription_bytes += size_bytes(member.protocols)
        self._note_join(member)

    def update(
        self,
        member: ClassicMember,
        protocols: tuple[MemberProtocol, ...],
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._supporters.subtract({p.name for p in member.protocols})
        self.subscription_bytes += size_bytes(protocols) - size_bytes(member.protocols)
        member.protocols = protocols
        self._supporters.update({p.name for p in protocols})
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def set_join_ticket(
        self, member: ClassicMember, ticket: Ticket[JoinGroupResult] | None
    ) -> Ticket[JoinGroupResult] | None:
        """Park or unpark a join; returns the ticket that was parked before."""
        before, member.join_ticket = member.join_ticket, ticket
        self._note_join(member)
        return before

    def remove(self, member_id: str) -> None:
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._awaiting_join.discard(member_id)
        self._supporters.subtract({p.name for p in member.protocols})
        self.subscription_bytes -= size_bytes(member.protocols)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def rename(self, member: ClassicMember, new_id: str) -> None:
        """Give a static member that came back its new id; everything else of it stays."""
        old_id = member.member_id
        self.members = {(new_id if k == old_id else k): m for k, m in self.members.items()}
        member.member_id = new_id
        self._awaiting_join.discard(old_id)
        self.pending_sync.discard(old_id)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        self._note_join(member)

    def elect_joined_leader(self) -> bool:
        """Make sure the leader is one who has rejoined; False when nobody has."""
        if self.leader in self._awaiting_join:
            return True
        joined = next((m for m in self.members if m in self._awaiting_join), None)
        if joined is None:
            return False
        self.leader = joined
        return True

    def joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata_for(self.protocol_name),
            )
            for member in self.members.values()
        )

    def _note_join(self, member: ClassicMember) -> None:
        if member.join_ticket is None:
            self._awaiting_join.discard(member.member_id)
        else:
            self._awaiting_join.add(member.member_id)

    # --- generations ----------------------------------------------------------------------

    def transition(self, state: ClassicState, now_ms: int) -> None:
        assert state in CLASSIC_MOVES[self.state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state, self.state = self.state, state
        self.state_since_ms = now_ms
        if state is ClassicState.PREPARING_REBALANCE:
            self.rebalance_since_ms = now_ms

    def select_protocol(self) -> str:
        """The protocol most members list first among those that all members support."""
        everywhere = {name for name, n in self._supporters.items() if n == len(self.members)}
        votes = Counter(
            next(p.name for p in member.protocols if p.name in everywhere)
            for member in self.members.values()
        )
        return max(votes, key=lambda name: (votes[name], name))

    def next_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition(ClassicState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.leader = None
            self.transition(ClassicState.EMPTY, now_ms)
        self.subscribed_topics = self._read_subscriptions()

    def as_record(self) -> StateRecord:
        """The record of the current generation, as replay will make it durable.

        While its assignment is outstanding no leader is recorded: a restart then knows that the
        group must rebalance, and does not use a generation again that members were told of.
        """
        settled = self.state is not ClassicState.COMPLETING_REBALANCE
        return record(
            ClassicGroupKey(self.group_id),
            ClassicGroupValue(
                protocol_type=self.protocol_type,
                generation=self.generation,
                protocol_name=self.protocol_name,
                leader=self.leader if settled else None,
                state_since_ms=self.state_since_ms,
                members=tuple(
                    ClassicMemberValue(
                        member_id=member.member_id,
                        instance_id=member.instance_id,
                        client_id=member.client.client_id,
                        client_host=member.client.host,
                        rebalance_timeout_ms=member.rebalance_timeout_ms,
                        session_timeout_ms=member.session_timeout_ms,
                        metadata=member.metadata_for(self.protocol_name),
                        assignment=member.assignment,
                    )
                    for member in self.members.values()
                ),
            ),
        )

    @property
    def was_rebalancing(self) -> bool:
        """Whether the durable part was written in the middle of a rebalance."""
        value = self.durable
        return value is not None and bool(value.members) and value.leader is None

    @classmethod
    def from_record(cls, group_id: str, value: ClassicGroupValue) -> "ClassicGroup":
        group = cls(
            group_id,
            state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
            state_since_ms=value.state_since_ms,
            generation=value.generation,
            protocol_type=value.protocol_type,
            protocol_name=value.protocol_name,
            leader=value.leader,
            durable=value,
        )
        for member in value.members:
            protocol = MemberProtocol(name=value.protocol_name or "", metadata=member.metadata)
            group.add(
                ClassicMember(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client=Client(client_id=member.client_id, host=member.client_host),
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    protocol_type=value.protocol_type or "",
                    protocols=(protocol,),
                    assignment=member.assignment,
                )
            )
        group.subscribed_topics = group._read_subscriptions()
        return group

    def _read_subscriptions(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                topics.update(read_subscription(member.metadata_for(self.protocol_name)).topics)
        except MalformedProtocol:
            return None
        return frozenset(topics)
