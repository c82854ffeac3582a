"""All members that live in this broker, as doors see them."""

from collections.abc import Sequence
from functools import partial

from goqueue.broker.hosted_clients.members.classic import ClassicJoin, ClassicMembership
from goqueue.broker.hosted_clients.members.commits import Commits, positions_to_commit
from goqueue.broker.hosted_clients.members.cooperative import CooperativeJoin, CooperativeMembership
from goqueue.broker.hosted_clients.members.host import MemberHost
from goqueue.broker.hosted_clients.members.polling import PolledRecord, Polling
from goqueue.broker.hosted_clients.members.sessions import (
    ClassicSession,
    CooperativeSession,
    MemberSession,
    MemberSessions,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import CommittedPartition, OffsetCommit, OffsetToCommit
from goqueue.model.groups.refusals import GroupRefused


class GroupMembers:
    def __init__(self, host: MemberHost) -> None:
        self._host = host
        self.sessions = MemberSessions()
        self._commits = Commits(host)
        self._polling = Polling(host, self._commits)
        self.classic = ClassicMembership(host, self.sessions, self._commits)
        self.cooperative = CooperativeMembership(host, self.sessions, self._commits)

    async def join(self, wanted: ClassicJoin) -> ClassicSession:
        session = await self.classic.join(wanted)
        await self._polling.find_positions(session)
        return session

    async def join_cooperative(self, wanted: CooperativeJoin) -> CooperativeSession:
        session = await self.cooperative.join(wanted)
        await self._polling.find_positions(session)
        return session

    async def poll(
        self, group_id: str, member_id: str, *, max_records: int, timeout_ms: int
    ) -> tuple[MemberSession, list[PolledRecord]]:
        session = self.session(group_id, member_id)
        if isinstance(session, CooperativeSession):
            heartbeat = partial(self.cooperative.heartbeat, session)
        else:
            assert isinstance(session, ClassicSession)
            heartbeat = partial(self.classic.heartbeat, session)
        records = await self._polling.poll(
            session, heartbeat, max_records=max_records, timeout_ms=timeout_ms
        )
        return session, records

    async def commit(
        self,
        group_id: str,
        offsets: Sequence[OffsetToCommit] | None,
        *,
        member_id: str | None,
        epoch: int | None,
    ) -> tuple[CommittedPartition, ...]:
        """Commit offsets; None: all that was delivered to the member. Without a member the group
        must be empty."""
        if member_id is not None:
            session = self.session(group_id, member_id)
            if offsets is None:
                offsets = positions_to_commit(session.uncommitted())
            return await self._commits.commit(session, offsets, epoch)
        result = await self._host.groups.commit(
            OffsetCommit(group_id=group_id, offsets=tuple(offsets or ()))
        )
        return result.partitions

    def session(self, group_id: str, member_id: str) -> MemberSession:
        session = self.sessions.get(group_id, member_id)
        if session is None:
            raise GroupRefused(GroupError.UNKNOWN_MEMBER_ID)
        return session
