"""What can be asked about groups."""

from dataclasses import dataclass

# (topic, partition)
PartitionKey = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    group: str
    type: str
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFacts:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[PartitionKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    group: str
    type: str
    state: str
    assignor: str
    members: tuple[MemberFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedFacts:
    offset: int
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFacts:
    transactional_id: str
    producer_id: int
    state: str
    producer_epoch: int | None = None
    timeout_ms: int | None = None
    started_ms: int | None = None
    partitions: tuple[PartitionKey, ...] = ()
