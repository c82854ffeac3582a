"""What is remembered of each member that lives in the broker."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from goqueue.model.groups.hosted_members import HostedMemberView, OffsetReset
from goqueue.model.groups.messages import Client
from goqueue.model.names import TopicPartition


@dataclass(slots=True, eq=False, kw_only=True)
class HostedMember:
    """What a client of a group protocol would keep in its own memory."""

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

    def view(self) -> HostedMemberView:
        return HostedMemberView(
            group_id=self.group_id,
            member_id=self.member_id,
            instance_id=self.instance_id,
            session_timeout_ms=self.session_timeout_ms,
            epoch=self.epoch,
            assigned=self.assigned,
        )


@dataclass(slots=True, eq=False, kw_only=True)
class ClassicHostedMember(HostedMember):
    topics: tuple[str, ...]
    assignors: tuple[str, ...]
    rebalance_timeout_ms: int
    assignor: str = ""
    is_leader: bool = False
    # What the leader's assignment rests on; None where another member assigned.
    partition_counts: Mapping[str, int] | None = None
    must_rejoin: bool = False

    def view(self) -> HostedMemberView:
        # Slotted dataclasses are made anew, so that a bare `super()` does not find its class.
        seen = HostedMember.view(self)
        return replace(seen, assignor=self.assignor, is_leader=self.is_leader)


@dataclass(slots=True, eq=False, kw_only=True)
class CooperativeHostedMember(HostedMember):
    heartbeat_interval_ms: int = 0
    # Taken away by the coordinator, not yet confirmed by the client.
    to_revoke: frozenset[TopicPartition] = frozenset()

    def view(self) -> HostedMemberView:
        seen = HostedMember.view(self)
        return replace(
            seen, to_revoke=self.to_revoke, heartbeat_interval_ms=self.heartbeat_interval_ms
        )
