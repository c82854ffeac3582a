"""All members that live in this broker."""

from collections.abc import Callable, Collection, Sequence
from functools import partial

from goqueue.broker.groups.commits import check_partitions
from goqueue.broker.hosted_clients.members.classic import ClassicMembership
from goqueue.broker.hosted_clients.members.commits import Commits, positions_to_commit
from goqueue.broker.hosted_clients.members.cooperative import CooperativeMembership
from goqueue.broker.hosted_clients.members.member import (
    ClassicHostedMember,
    CooperativeHostedMember,
    HostedMember,
)
from goqueue.broker.hosted_clients.members.polling import Polling
from goqueue.broker.hosted_clients.members.register import MemberRegister
from goqueue.broker.hosted_clients.members.surroundings import MemberSurroundings
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.hosted_members import (
    ClassicJoin,
    CooperativeJoin,
    HostedMemberView,
    MemberPoll,
)
from goqueue.model.groups.messages import CommittedPartition, OffsetCommit, OffsetToCommit
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.names import TopicPartition
from goqueue.model.rights import MemberRights


class HostedMembers:
    """The first argument of every operation says what its client may do."""

    def __init__(self, broker: MemberSurroundings) -> None:
        self._broker = broker
        self._register = MemberRegister(
            lambda: broker.image.security.tenants, is_secured=broker.config.security_enabled
        )
        self._commits = Commits(broker)
        self._polling = Polling(broker, self._commits)
        self._classic = ClassicMembership(broker, self._register, self._commits)
        self._cooperative = CooperativeMembership(broker, self._register, self._commits)

    # --- the classic protocol -------------------------------------------------------------

    async def join(self, rights: MemberRights, wanted: ClassicJoin) -> HostedMemberView:
        """Waits until the group has gathered and the member has its partitions."""
        member = await self._classic.join(wanted, rights)
        await self._polling.find_positions(member, rights)
        return member.view()

    async def heartbeat(
        self, rights: MemberRights, member_id: str, generation: int | None
    ) -> HostedMemberView:
        member = self._register.find(rights.group, member_id, ClassicHostedMember)
        await self._classic.heartbeat(member, rights, generation)
        return member.view()

    async def leave(self, rights: MemberRights, member_id: str, instance_id: str | None) -> None:
        await self._classic.leave(rights, member_id, instance_id)

    # --- the consumer protocol ------------------------------------------------------------

    async def join_cooperative(
        self, rights: MemberRights, wanted: CooperativeJoin
    ) -> HostedMemberView:
        """Nobody waits: partitions come with later polls and heartbeats."""
        member = await self._cooperative.join(wanted, rights)
        await self._polling.find_positions(member, rights)
        return member.view()

    async def heartbeat_cooperative(
        self, rights: MemberRights, member_id: str, epoch: int | None
    ) -> HostedMemberView:
        member = self._register.find(rights.group, member_id, CooperativeHostedMember)
        await self._cooperative.heartbeat(member, rights, epoch)
        return member.view()

    async def revoke(
        self,
        rights: MemberRights,
        member_id: str,
        partitions: Collection[TopicPartition] | None,
        epoch: int | None,
    ) -> HostedMemberView:
        """The client no longer holds these partitions; None: all that were taken away."""
        member = self._register.find(rights.group, member_id, CooperativeHostedMember)
        await self._cooperative.revoke(member, partitions, rights, epoch)
        return member.view()

    async def leave_cooperative(
        self, rights: MemberRights, member_id: str, *, keeps_place: bool
    ) -> None:
        member = self._register.find(rights.group, member_id, CooperativeHostedMember)
        if keeps_place and member.instance_id is None:
            raise GroupRefused(
                GroupError.INVALID_REQUEST,
                "keepPlace: only a member with an instance id has a place",
            )
        await self._cooperative.leave(member, rights, keeps_place=keeps_place)

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
        member = self._member(rights, member_id)
        if isinstance(member, CooperativeHostedMember):
            heartbeat = partial(self._cooperative.heartbeat, member, rights)
        else:
            assert isinstance(member, ClassicHostedMember)
            heartbeat = partial(self._classic.heartbeat, member, rights)
        records = await self._polling.poll(
            member,
            heartbeat,
            rights,
            max_records=max_records,
            timeout_ms=timeout_ms,
            after=after,
        )
        return MemberPoll(member.view(), records)

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
        if member_id is None:
            request = rights.commit(
                OffsetCommit(group_id=rights.group, offsets=tuple(offsets or ()))
            )
            check_partitions(self._broker.image.topics, request.offsets)
            committed = await self._broker.groups.commit(
                rights.group, request, administers_cluster=rights.administers_cluster
            )
            return committed.partitions
        if offsets is not None:
            rights.commit(OffsetCommit(group_id=rights.group, offsets=tuple(offsets)))
            check_partitions(self._broker.image.topics, offsets)
        member = self._member(rights, member_id)
        if after is not None:
            member.seen(after)
        if offsets is None:
            offsets = positions_to_commit(member.uncommitted())
        return await self._commits.commit(member, offsets, rights, epoch)

    def view(self, rights: MemberRights, member_id: str) -> HostedMemberView:
        return self._member(rights, member_id).view()

    def forget(self, is_gone: Callable[[str], bool]) -> None:
        """Sessions of these groups are over: another broker coordinates them, or did meanwhile."""
        self._register.forget(is_gone)

    def _member(self, rights: MemberRights, member_id: str) -> HostedMember:
        member = self._register.get(rights.group, member_id)
        if member is None:
            raise GroupRefused(GroupError.UNKNOWN_MEMBER_ID)
        return member
