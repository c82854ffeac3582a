"""Members of a group live at its coordinator, with their sessions and positions. What their clients
ask for at any broker is done there as a whole."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, TypeVar

import msgspec

from goqueue.broker.calls.calls import (
    CALL_TIMEOUT_S,
    LATE_MAX_S,
    Calls,
    before_anything_is_done,
)
from goqueue.broker.groups.groups import Groups
from goqueue.broker.hosted_clients.members.classic import JOIN_WAIT_SECONDS
from goqueue.broker.hosted_clients.members.members import HostedMembers
from goqueue.model.calls import Method
from goqueue.model.groups.hosted_members import (
    ClassicJoin,
    CooperativeJoin,
    HostedMemberView,
    MemberPoll,
)
from goqueue.model.groups.messages import CommittedPartition, OffsetToCommit
from goqueue.model.names import TopicPartition
from goqueue.model.rights import MemberRights

# Longer than the coordinator itself waits.
JOIN_TIMEOUT_S: Final = JOIN_WAIT_SECONDS + 5.0


class Join(msgspec.Struct, frozen=True):
    rights: MemberRights
    wanted: ClassicJoin


class Beat(msgspec.Struct, frozen=True):
    """`epoch` is the generation of a classic member."""

    rights: MemberRights
    member_id: str
    epoch: int | None


class Leave(msgspec.Struct, frozen=True):
    rights: MemberRights
    member_id: str
    instance_id: str | None


class JoinCooperative(msgspec.Struct, frozen=True):
    rights: MemberRights
    wanted: CooperativeJoin


class Revoke(msgspec.Struct, frozen=True):
    rights: MemberRights
    member_id: str
    partitions: frozenset[TopicPartition] | None
    epoch: int | None


class LeaveCooperative(msgspec.Struct, frozen=True):
    rights: MemberRights
    member_id: str
    keeps_place: bool


class Poll(msgspec.Struct, frozen=True):
    rights: MemberRights
    member_id: str
    max_records: int
    timeout_ms: int
    after: int | None


class Commit(msgspec.Struct, frozen=True):
    rights: MemberRights
    offsets: list[OffsetToCommit] | None
    member_id: str | None
    epoch: int | None
    after: int | None


class View(msgspec.Struct, frozen=True):
    rights: MemberRights
    member_id: str


AnyRequest = (
    Join | Beat | Leave | JoinCooperative | Revoke | LeaveCooperative | Poll | Commit | View
)

# Who hangs up while it joins or polls is forgotten: it leaves the group again, or reads nothing.
JOIN: Final = Method("members.join", Join, HostedMemberView, waits=True)
HEARTBEAT: Final = Method("members.heartbeat", Beat, HostedMemberView)
LEAVE: Final = Method("members.leave", Leave, type(None))
JOIN_COOPERATIVE: Final = Method("members.join_cooperative", JoinCooperative, HostedMemberView)
HEARTBEAT_COOPERATIVE: Final = Method("members.heartbeat_cooperative", Beat, HostedMemberView)
REVOKE: Final = Method("members.revoke", Revoke, HostedMemberView)
LEAVE_COOPERATIVE: Final = Method("members.leave_cooperative", LeaveCooperative, type(None))
POLL: Final = Method("members.poll", Poll, MemberPoll, waits=True)
COMMIT: Final = Method("members.commit", Commit, tuple[CommittedPartition, ...])
VIEW: Final = Method("members.view", View, HostedMemberView, is_repeatable=True)

Q = TypeVar("Q", bound=AnyRequest)
R = TypeVar("R")


class MembersAnywhere:
    """The first argument of every operation says what its client may do."""

    def __init__(self, members: HostedMembers, groups: Groups, calls: Calls) -> None:
        self._members = members
        self._groups = groups
        self._calls = calls
        groups.sessions_ended = members.forget
        self._serve(JOIN, lambda asked: members.join(asked.rights, asked.wanted))
        self._serve(
            HEARTBEAT, lambda asked: members.heartbeat(asked.rights, asked.member_id, asked.epoch)
        )
        self._serve(
            LEAVE, lambda asked: members.leave(asked.rights, asked.member_id, asked.instance_id)
        )
        self._serve(
            JOIN_COOPERATIVE, lambda asked: members.join_cooperative(asked.rights, asked.wanted)
        )
        self._serve(
            HEARTBEAT_COOPERATIVE,
            lambda asked: members.heartbeat_cooperative(asked.rights, asked.member_id, asked.epoch),
        )
        self._serve(
            REVOKE,
            lambda asked: members.revoke(
                asked.rights, asked.member_id, asked.partitions, asked.epoch
            ),
        )
        self._serve(
            LEAVE_COOPERATIVE,
            lambda asked: members.leave_cooperative(
                asked.rights, asked.member_id, keeps_place=asked.keeps_place
            ),
        )
        self._serve(POLL, self._poll_here)
        self._serve(COMMIT, self._commit_here)
        self._serve(VIEW, self._view_here)

    def _serve(self, method: Method[Q, R], run: Callable[[Q], Awaitable[R]]) -> None:
        async def at_coordinator(request: Q) -> R:
            with before_anything_is_done():
                await self._groups.state.shard_for(request.rights.group)
            return await run(request)

        self._calls.serve(method, at_coordinator)

    async def _ask(
        self, method: Method[Q, R], request: Q, *, timeout_s: float = CALL_TIMEOUT_S
    ) -> R:
        place = await self._groups.coordinator(request.rights.group)
        return await self._calls.ask(method, place, request, timeout_s=timeout_s)

    # --- the classic protocol -------------------------------------------------------------

    async def join(self, rights: MemberRights, wanted: ClassicJoin) -> HostedMemberView:
        """Waits until the group has gathered and the member has its partitions."""
        return await self._ask(JOIN, Join(rights, wanted), timeout_s=JOIN_TIMEOUT_S)

    async def heartbeat(
        self, rights: MemberRights, member_id: str, generation: int | None
    ) -> HostedMemberView:
        return await self._ask(HEARTBEAT, Beat(rights, member_id, generation))

    async def leave(self, rights: MemberRights, member_id: str, instance_id: str | None) -> None:
        await self._ask(LEAVE, Leave(rights, member_id, instance_id))

    # --- the consumer protocol ------------------------------------------------------------

    async def join_cooperative(
        self, rights: MemberRights, wanted: CooperativeJoin
    ) -> HostedMemberView:
        """Nobody waits: partitions come with later polls and heartbeats."""
        return await self._ask(JOIN_COOPERATIVE, JoinCooperative(rights, wanted))

    async def heartbeat_cooperative(
        self, rights: MemberRights, member_id: str, epoch: int | None
    ) -> HostedMemberView:
        return await self._ask(HEARTBEAT_COOPERATIVE, Beat(rights, member_id, epoch))

    async def revoke(
        self,
        rights: MemberRights,
        member_id: str,
        partitions: Collection[TopicPartition] | None,
        epoch: int | None,
    ) -> HostedMemberView:
        """The client no longer holds these partitions; None: all that were taken away."""
        given_up = None if partitions is None else frozenset(partitions)
        return await self._ask(REVOKE, Revoke(rights, member_id, given_up, epoch))

    async def leave_cooperative(
        self, rights: MemberRights, member_id: str, *, keeps_place: bool
    ) -> None:
        await self._ask(LEAVE_COOPERATIVE, LeaveCooperative(rights, member_id, keeps_place))

    # --- both -----------------------------------------------------------------------------

    async def poll(
        self,
        rights: MemberRights,
        member_id: str,
        *,
        max_records: int,
        timeout_ms: int,
        after: int | None,
    ) -> MemberPoll:
        """Records from the member's positions on; a heartbeat, too. `after` is the last answer
        that the client has."""
        request = Poll(rights, member_id, max_records, timeout_ms, after)
        return await self._ask(POLL, request, timeout_s=timeout_ms / 1000 + LATE_MAX_S)

    async def _poll_here(self, asked: Poll) -> MemberPoll:
        return await self._members.poll(
            asked.rights,
            asked.member_id,
            max_records=asked.max_records,
            timeout_ms=asked.timeout_ms,
            after=asked.after,
        )

    async def commit(
        self,
        rights: MemberRights,
        offsets: Sequence[OffsetToCommit] | None,
        *,
        member_id: str | None,
        epoch: int | None,
        after: int | None,
    ) -> tuple[CommittedPartition, ...]:
        """Commit offsets; None: all that was delivered to the member, up to the answer `after`.
        Without a member the group must be empty."""
        given = None if offsets is None else list(offsets)
        return await self._ask(COMMIT, Commit(rights, given, member_id, epoch, after))

    async def _commit_here(self, asked: Commit) -> tuple[CommittedPartition, ...]:
        return await self._members.commit(
            asked.rights,
            asked.offsets,
            member_id=asked.member_id,
            epoch=asked.epoch,
            after=asked.after,
        )

    async def view(self, rights: MemberRights, member_id: str) -> HostedMemberView:
        return await self._ask(VIEW, View(rights, member_id))

    async def _view_here(self, asked: View) -> HostedMemberView:
        return self._members.view(asked.rights, asked.member_id)
