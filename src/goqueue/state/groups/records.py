"""The records of one partition of the offsets topic: keys and values, and their bytes.

A key says by its tag what its value is. Structs are arrays in MessagePack: compact, quick to
decode, and a later version may append fields with defaults.
"""

from collections.abc import Callable
from typing import Any, Generic
from uuid import UUID

import msgspec

from goqueue.model.groups.assignment import K, StoredAssignment
from goqueue.model.groups.tasks import StoredTasks, TaskKey
from goqueue.model.groups.topology import Endpoint, Topology
from goqueue.model.groups.viewer import Viewer
from goqueue.state.machine import StateRecord


class RecordKey(msgspec.Struct, array_like=True, frozen=True):
    """Base of all keys."""


class RecordValue(msgspec.Struct, array_like=True, frozen=True):
    """Base of all values."""


# --- offsets ------------------------------------------------------------------------------


class OffsetKey(RecordKey, tag=1, gc=False, frozen=True):
    group: str
    topic: str
    partition: int


class CommittedOffset(RecordValue, gc=False, frozen=True):
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    # Which commit of this partition came last, where transactions end in another order.
    sequence: int
    # Set only where an old client asked for a retention of its own; -1 otherwise.
    expire_ms: int = -1


class PendingOffsetKey(RecordKey, tag=2, gc=False, frozen=True):
    """An offset committed in a transaction that is still open."""

    producer_id: int
    group: str
    topic: str
    partition: int


class PendingOffset(RecordValue, frozen=True):
    producer_epoch: int
    committed: CommittedOffset


# --- classic groups -----------------------------------------------------------------------


class ClassicGroupKey(RecordKey, tag=3, gc=False, frozen=True):
    group: str


class ClassicMemberValue(RecordValue, frozen=True):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    metadata: bytes
    assignment: bytes


class ClassicGroupValue(RecordValue, frozen=True):
    protocol_type: str | None
    generation: int
    protocol_name: str | None
    leader: str | None
    state_since_ms: int
    members: tuple[ClassicMemberValue, ...]


# --- consumer groups (KIP-848) ------------------------------------------------------------


class ConsumerGroupKey(RecordKey, tag=4, gc=False, frozen=True):
    group: str


class ConsumerGroupValue(RecordValue, gc=False, frozen=True):
    epoch: int
    # Digest of the subscribed topics' ids and partition counts at this epoch.
    topics_digest: int


class ConsumerMemberKey(RecordKey, tag=5, gc=False, frozen=True):
    group: str
    member: str


class ClassicProtocols(RecordValue, frozen=True):
    """What a member of a consumer group said that still speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMemberValue(RecordValue, frozen=True):
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] = ()
    regex: str = ""
    assignor: str | None = None
    classic: ClassicProtocols | None = None
    # Of members with a regular expression. None: there are no rules, or an earlier release wrote
    # the record, and the member's next heartbeat says it.
    viewer: Viewer | None = None


class TargetEpochKey(RecordKey, tag=6, gc=False, frozen=True):
    group: str


class TargetEpochValue(RecordValue, gc=False, frozen=True):
    epoch: int


class TargetMemberKey(RecordKey, tag=7, gc=False, frozen=True):
    group: str
    member: str


class TargetMemberValue(RecordValue, frozen=True):
    partitions: StoredAssignment


class CurrentMemberKey(RecordKey, tag=8, gc=False, frozen=True):
    group: str
    member: str


class CurrentMemberValue(RecordValue, Generic[K], frozen=True):
    """Of topics in a consumer group, of tasks in a streams group."""

    epoch: int
    previous_epoch: int
    state: int
    assigned: tuple[tuple[K, tuple[int, ...]], ...]
    pending_revocation: tuple[tuple[K, tuple[int, ...]], ...]


# --- share groups (KIP-932) ---------------------------------------------------------------


class ShareGroupKey(RecordKey, tag=9, gc=False, frozen=True):
    group: str


class ShareGroupValue(RecordValue, gc=False, frozen=True):
    epoch: int
    # Digest of the subscribed topics' ids and partition counts at this epoch.
    topics_digest: int
    assignment_epoch: int


class ShareMemberKey(RecordKey, tag=10, gc=False, frozen=True):
    group: str
    member: str


class ShareMemberValue(RecordValue, frozen=True):
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: StoredAssignment = ()


class ShareTargetKey(RecordKey, tag=11, gc=False, frozen=True):
    group: str
    member: str


class ShareTargetValue(RecordValue, frozen=True):
    partitions: StoredAssignment


# --- streams groups (KIP-1071) ------------------------------------------------------------


class StreamsGroupKey(RecordKey, tag=12, gc=False, frozen=True):
    group: str


class StreamsGroupValue(RecordValue, gc=False, frozen=True):
    epoch: int = 0
    # Digest of the topology's topics, by their ids and partition counts, at this epoch.
    topics_digest: int = 0
    assignment_epoch: int = 0
    # The epoch of the topology that has all its topics; -1 while some are missing.
    validated_epoch: int = -1
    # What the assignment was computed for.
    standby_replicas: int = 0


class StreamsTopologyKey(RecordKey, tag=13, gc=False, frozen=True):
    group: str


class StreamsTopologyValue(RecordValue, frozen=True):
    topology: Topology


class StreamsMemberKey(RecordKey, tag=14, gc=False, frozen=True):
    group: str
    member: str


class StreamsMemberValue(RecordValue, frozen=True):
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    endpoint: Endpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()


class StreamsTargetKey(RecordKey, tag=15, gc=False, frozen=True):
    group: str
    member: str


class StreamsTargetValue(RecordValue, frozen=True):
    tasks: StoredTasks


class StreamsCurrentKey(RecordKey, tag=16, gc=False, frozen=True):
    group: str
    member: str


AnyKey = (
    OffsetKey
    | PendingOffsetKey
    | ClassicGroupKey
    | ConsumerGroupKey
    | ConsumerMemberKey
    | TargetEpochKey
    | TargetMemberKey
    | CurrentMemberKey
    | ShareGroupKey
    | ShareMemberKey
    | ShareTargetKey
    | StreamsGroupKey
    | StreamsTopologyKey
    | StreamsMemberKey
    | StreamsTargetKey
    | StreamsCurrentKey
)

_encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder(uuid_format="bytes").encode
decode_key: Callable[[bytes], AnyKey] = msgspec.msgpack.Decoder(AnyKey).decode

decode_offset = msgspec.msgpack.Decoder(CommittedOffset).decode
decode_pending_offset = msgspec.msgpack.Decoder(PendingOffset).decode
decode_classic_group = msgspec.msgpack.Decoder(ClassicGroupValue).decode
decode_consumer_group = msgspec.msgpack.Decoder(ConsumerGroupValue).decode
decode_consumer_member = msgspec.msgpack.Decoder(ConsumerMemberValue).decode
decode_target_epoch = msgspec.msgpack.Decoder(TargetEpochValue).decode
decode_target_member = msgspec.msgpack.Decoder(TargetMemberValue).decode
decode_current_member = msgspec.msgpack.Decoder(CurrentMemberValue[UUID]).decode
decode_share_group = msgspec.msgpack.Decoder(ShareGroupValue).decode
decode_share_member = msgspec.msgpack.Decoder(ShareMemberValue).decode
decode_share_target = msgspec.msgpack.Decoder(ShareTargetValue).decode
decode_streams_group = msgspec.msgpack.Decoder(StreamsGroupValue).decode
decode_streams_topology = msgspec.msgpack.Decoder(StreamsTopologyValue).decode
decode_streams_member = msgspec.msgpack.Decoder(StreamsMemberValue).decode
decode_streams_target = msgspec.msgpack.Decoder(StreamsTargetValue).decode
decode_streams_current = msgspec.msgpack.Decoder(CurrentMemberValue[TaskKey]).decode


def record(key: RecordKey, value: RecordValue) -> StateRecord:
    return StateRecord(_encode(key), _encode(value))


def tombstone(key: RecordKey) -> StateRecord:
    return StateRecord(_encode(key), None)
