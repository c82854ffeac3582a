"""What is remembered of each member that lives in the broker."""

import asyncio
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
    # Done when the poll that runs now ends.
    polling: "asyncio.Future[None] | None" = None
    # Which partition is read first; moves on so that none waits behind the others.
    turn: int = 0
    # The number of the last answer with messages, and where the partitions stood before it, until
    # the client is known to have it. It begins with the time, so that no number of an earlier
    # session is taken for one of this.
    answer: int
    unseen: dict[TopicPartition, int] = field(default_factory=dict)

    def assign(self, partitions: frozenset[TopicPartition], *, keep: bool) -> None:
        """Take a new assignment; positions are kept only where nobody else read meanwhile."""
        stays = self.assigned & partitions if keep else frozenset()
        self.positions = {p: at for p, at in self.positions.items() if p in stays}
        self.committed = {p: at for p, at in self.committed.items() if p in stays}
        self.unseen = {p: at for p, at in self.unseen.items() if p in stays}
        self.assigned = partitions

    def seen(self, answer: int | None) -> None:
        """The last answer that the client has. None: it does not say, and has them all. If it has
        not got the last one, that is delivered again."""
        if answer is not None and answer != self.answer:
            for partition, before in self.unseen.items():
                if partition in self.positions:
                    self.positions[partition] = max(before, self.committed.get(partition, before))
        self.unseen = {}

    def answered(self, before: Mapping[TopicPartition, int]) -> None:
        """Messages are on their way to the client; `before` is where their partitions stood."""
        self.answer += 1
        self.unseen = dict(before)

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
            answer=self.answer,
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
