"""Requests and responses of the group coordinator, in Kafka's terms but free of its wire format.

What depends on the version of a Kafka request is a named flag here; doors set it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

import msgspec

from goqueue.model.groups.assignment import Assignment
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.viewer import Viewer
from goqueue.model.names import TopicPartition, topic_partition

UNKNOWN_MEMBER_ID = ""
NO_GENERATION = -1
NO_OFFSET = -1
NO_LEADER_EPOCH = -1

# Member epochs with a meaning of their own (KIP-848).
JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2


class GroupKind(Enum):
    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a request, as shown by describe."""

    client_id: str = ""
    host: str = ""
    # Not shown; None: it sees all topics.
    viewer: Viewer | None = None


# --- the classic protocol -----------------------------------------------------------------


class MemberProtocol(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    metadata: bytes


class JoinGroup(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    reason: str | None = None
    client: Client = Client()
    # JoinGroup 4 and up: a new member is first told its id and joins again with it (KIP-394).
    requires_known_member_id: bool = True
    # JoinGroup 9 and up: a returning static leader is told not to assign again (KIP-814).
    supports_skipping_assignment: bool = True


class JoinedMember(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupResult(msgspec.Struct, frozen=True, kw_only=True):
    error: GroupError = GroupError.NONE
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = UNKNOWN_MEMBER_ID
    members: tuple[JoinedMember, ...] = ()


class SyncGroup(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes]


class SyncGroupResult(msgspec.Struct, frozen=True, kw_only=True):
    error: GroupError = GroupError.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class HeartbeatResult(msgspec.Struct, frozen=True, kw_only=True):
    error: GroupError = GroupError.NONE


class LeavingMember(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveGroup(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    members: tuple[LeavingMember, ...]


class LeftMember(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    group_instance_id: str | None
    error: GroupError = GroupError.NONE


class LeaveGroupResult(msgspec.Struct, frozen=True, kw_only=True):
    error: GroupError = GroupError.NONE
    members: tuple[LeftMember, ...] = ()


# --- the consumer protocol (KIP-848) ------------------------------------------------------


class ConsumerGroupHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """None means: not changed since the last heartbeat."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topics: tuple[str, ...] | None = None
    subscribed_regex: str | None = None
    server_assignor: str | None = None
    owned: Assignment | None = None
    client: Client = Client()
    # ConsumerGroupHeartbeat 1 and up: the member brings its own id, also when it joins.
    brings_member_id: bool = True


class ConsumerGroupHeartbeatResult(msgspec.Struct, frozen=True, kw_only=True):
    error: GroupError = GroupError.NONE
    error_message: str = ""
    member_id: str = UNKNOWN_MEMBER_ID
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


# --- offsets ------------------------------------------------------------------------------


class OffsetToCommit(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


# A dataclass: a right is a NewType of it, which mypy cannot make of a struct.
@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    group_id: str
    offsets: tuple[OffsetToCommit, ...]
    # The generation of a classic member or the epoch of a consumer member; -1 for neither.
    generation_id: int = NO_GENERATION
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    # OffsetCommit 2 to 4 may set how long the offsets are kept; -1 leaves it to the settings.
    retention_ms: int = -1
    # OffsetCommit 9 and up: the sender understands the errors of the consumer protocol.
    knows_member_epochs: bool = True


# A dataclass: a right is a NewType of it, which mypy cannot make of a struct.
@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommit:
    group_id: str
    producer_id: int
    producer_epoch: int
    offsets: tuple[OffsetToCommit, ...]
    generation_id: int = NO_GENERATION
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None


class CommittedPartition(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    error: GroupError = GroupError.NONE


class OffsetCommitResult(msgspec.Struct, frozen=True, kw_only=True):
    """Also answers `TxnOffsetCommit`."""

    partitions: tuple[CommittedPartition, ...]


class OffsetFetch(msgspec.Struct, frozen=True, kw_only=True):
    """One group (Kafka's request names several). `topics` None asks for all."""

    group_id: str
    topics: Mapping[str, Sequence[int]] | None = None
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = -1


class FetchedOffset(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: GroupError = GroupError.NONE


class OffsetFetchResult(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    error: GroupError = GroupError.NONE
    offsets: tuple[FetchedOffset, ...] = ()


class OffsetDelete(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    topics: Mapping[str, Sequence[int]]


class OffsetDeleteResult(msgspec.Struct, frozen=True, kw_only=True):
    error: GroupError = GroupError.NONE
    partitions: tuple[CommittedPartition, ...] = ()


class CompleteTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction marker reached this partition of the offsets topic."""

    producer_id: int
    producer_epoch: int
    committed: bool


class CompleteTransactionResult(msgspec.Struct, frozen=True, kw_only=True):
    error: GroupError = GroupError.NONE


# --- administration -----------------------------------------------------------------------


class ListGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Empty filters let everything pass; names are compared without regard to case."""

    states: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()


class ListedGroup(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    protocol_type: str
    state: str
    kind: GroupKind


class DescribedMember(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    group_instance_id: str | None
    client: Client
    metadata: bytes = b""
    assignment: bytes = b""


class DescribedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A classic group. One that is not there is in state Dead with GROUP_ID_NOT_FOUND."""

    group_id: str
    error: GroupError = GroupError.NONE
    state: str = "Dead"
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


class DescribedConsumerMember(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client: Client
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str
    assignment: Mapping[UUID, frozenset[int]]
    target: Mapping[UUID, frozenset[int]]
    uses_classic_protocol: bool


class DescribedConsumerGroup(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    error: GroupError = GroupError.NONE
    error_message: str = ""
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumerMember, ...] = ()


class NamedConsumerGroup(DescribedConsumerGroup, frozen=True, kw_only=True):
    """With the names of the topics in assignments; one that was deleted has none any more."""

    topic_names: Mapping[UUID, str] = msgspec.field(default_factory=dict)

    @classmethod
    def of(
        cls, found: DescribedConsumerGroup, topic_names: Mapping[UUID, str]
    ) -> "NamedConsumerGroup":
        return cls(
            group_id=found.group_id,
            error=found.error,
            error_message=found.error_message,
            state=found.state,
            group_epoch=found.group_epoch,
            assignment_epoch=found.assignment_epoch,
            assignor=found.assignor,
            members=found.members,
            topic_names=topic_names,
        )

    def named(self, partitions: Assignment) -> list[TopicPartition]:
        return [
            topic_partition(self.topic_names[topic_id], number)
            for topic_id, numbers in partitions.items()
            if topic_id in self.topic_names
            for number in numbers
        ]


class DeleteGroupResult(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    error: GroupError = GroupError.NONE
