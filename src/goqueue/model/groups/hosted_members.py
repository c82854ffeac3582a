"""Members that live in the broker: how they join, and what their clients are told."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from goqueue.model.groups.messages import UNKNOWN_MEMBER_ID, Client
from goqueue.model.names import TopicPartition
from goqueue.model.records import Record

# What a leader that lives in the broker can assign by, the most wanted first.
LEADER_ASSIGNORS: Final = ("sticky", "range", "roundrobin", "cooperative-sticky")


class OffsetReset(StrEnum):
    """Where to begin in a partition for which the group has no offset."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicJoin:
    group_id: str
    topics: tuple[str, ...]
    member_id: str = UNKNOWN_MEMBER_ID
    instance_id: str | None = None
    session_timeout_ms: int = 30_000
    rebalance_timeout_ms: int = 60_000
    assignors: tuple[str, ...] = LEADER_ASSIGNORS
    offset_reset: OffsetReset = OffsetReset.LATEST
    auto_commit: bool = False
    client: Client


@dataclass(frozen=True, slots=True, kw_only=True)
class CooperativeJoin:
    """Topics by name, by a regular expression (RE2, as in KIP-848), or both."""

    group_id: str
    topics: tuple[str, ...] = ()
    topic_regex: str | None = None
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = 60_000
    assignor: str | None = None
    offset_reset: OffsetReset = OffsetReset.LATEST
    auto_commit: bool = False
    client: Client


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedMemberView:
    group_id: str
    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    # The generation of a classic member, the epoch of a cooperative one.
    epoch: int
    assigned: frozenset[TopicPartition]
    # The number of the last answer that had messages.
    answer: int
    # Of classic members.
    assignor: str = ""
    is_leader: bool = False
    # Of cooperative members: taken away by the coordinator, not yet confirmed by the client.
    to_revoke: frozenset[TopicPartition] = frozenset()
    heartbeat_interval_ms: int = 0


class PolledRecord(NamedTuple):
    partition: TopicPartition
    record: Record


class MemberPoll(NamedTuple):
    member: HostedMemberView
    records: list[PolledRecord]
