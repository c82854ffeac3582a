"""What is remembered of each member that lives in the broker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from goqueue.model.errors import Overloaded
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import Client
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.names import TopicPartition

# Each takes a few KB with its positions. Far more than pollers can be served at once.
MEMBERS_MAX: Final = 10_000


class OffsetReset(StrEnum):
    """Where to begin in a partition for which the group has no offset."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(slots=True, eq=False, kw_only=True)
class MemberSession:
    group_id: str
    member_id: str
    instance_id: str | None
    client: Client
    session_timeout_ms: int
    offset_reset: OffsetReset
    auto_commit: bool
    # The generation of a classic member, the epoch of a cooperative one.
    epoch: int = -1
    assigned: frozenset[TopicPartition] = frozenset()
    # The next offset to deliver, for partitions where that is known.
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    # What was last committed here, so that nothing is committed twice.
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    committed_ms: int = 0
    seen_ms: int = 0
    is_polling: bool = False
    # Which partition is read first; moves on so that none waits behind the others.
    turn: int = 0

    def assign(self, partitions: frozenset[TopicPartition], *, keep: bool) -> None:
        """Take a new assignment; positions are kept only where nobody else read meanwhile."""
        stays = self.assigned & partitions if keep else frozenset()
        self.positions = {p: at for p, at in self.positions.items() if p in stays}
        self.committed = {p: at for p, at in self.committed.items() if p in stays}
        self.assigned = partitions

    def uncommitted(self) -> dict[TopicPartition, int]:
        """Positions that moved since the last commit."""
        return {
            partition: position
            for partition, position in self.positions.items()
            if partition in self.assigned and self.committed.get(partition) != position
        }


@dataclass(slots=True, eq=False, kw_only=True)
class ClassicSession(MemberSession):
    topics: tuple[str, ...]
    assignors: tuple[str, ...]
    rebalance_timeout_ms: int
    assignor: str = ""
    is_leader: bool = False
    # What the leader's assignment rests on; None where another member assigned.
    partition_counts: Mapping[str, int] | None = None
    must_rejoin: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class CooperativeSession(MemberSession):
    heartbeat_interval_ms: int = 0
    # Taken away by the coordinator, not yet confirmed by the client.
    to_revoke: frozenset[TopicPartition] = frozenset()


S = TypeVar("S", bound=MemberSession)


class MemberSessions:
    """By group and member id."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], MemberSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, group_id: str, member_id: str) -> MemberSession | None:
        return self._sessions.get((group_id, member_id))

    def find(self, group_id: str, member_id: str, kind: type[S]) -> S:
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise GroupRefused(GroupError.UNKNOWN_MEMBER_ID)
        if not isinstance(session, kind):
            raise GroupRefused(
                GroupError.INCONSISTENT_GROUP_PROTOCOL,
                f"member {member_id!r} joined with the other protocol; use the paths "
                + ("without" if kind is CooperativeSession else "with")
                + " /cooperative",
            )
        return session

    def make_room(self, now_ms: int) -> None:
        """Forget who has not been seen for a session; refuse when all have."""
        if len(self._sessions) < MEMBERS_MAX:
            return
        gone = [
            key
            for key, session in self._sessions.items()
            if now_ms - session.seen_ms > session.session_timeout_ms
        ]
        for key in gone:
            del self._sessions[key]
        if not gone:
            raise Overloaded(f"{MEMBERS_MAX} members live in this broker already")

    def touch(self, session: MemberSession, now_ms: int) -> None:
        session.seen_ms = now_ms
        self._sessions[session.group_id, session.member_id] = session

    def drop(self, session: MemberSession) -> None:
        self._sessions.pop((session.group_id, session.member_id), None)
