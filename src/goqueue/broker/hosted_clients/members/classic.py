"""Members of the classic protocol: join and sync in one step, assigning when elected leader.

Such a client waits while it joins, so it reads nothing then; that suits eager assignors and
cooperative ones alike. What it still holds it says with the join, so that it may keep it.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from goqueue.broker.groups.groups import topics_of
from goqueue.broker.hosted_clients.members.commits import Commits
from goqueue.broker.hosted_clients.members.host import MemberHost, by_topic, existing
from goqueue.broker.hosted_clients.members.sessions import (
    ClassicSession,
    MemberSessions,
    OffsetReset,
)
from goqueue.model.errors import GoQueueError, RequestTimedOut
from goqueue.model.groups.consumer_protocol import (
    PROTOCOL_TYPE,
    MalformedProtocol,
    read_assignment,
    write_subscription,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    UNKNOWN_MEMBER_ID,
    Client,
    Heartbeat,
    JoinGroup,
    JoinGroupResult,
    LeaveGroup,
    LeavingMember,
    MemberProtocol,
    SyncGroup,
)
from goqueue.model.groups.refusals import GroupRefused, check
from goqueue.model.names import topic_partition
from goqueue.state.groups.leader_assignment import (
    COOPERATIVE_STICKY,
    STICKY,
    STRATEGIES,
    assign,
    partition_counts,
)

# A join waits for the other members; longer than this, clients and proxies have given up.
JOIN_WAIT_SECONDS: Final = 60
# A rebalance may be overtaken by the next. More often than this in one join, something is wrong.
ROUNDS_MAX: Final = 20
SUBSCRIPTION_VERSION: Final = 3
# Assignors that ask what members hold.
_ASKS_WHAT_IS_OWNED: Final = frozenset({STICKY, COOPERATIVE_STICKY})

_END_OF_SESSION: Final = frozenset({GroupError.UNKNOWN_MEMBER_ID, GroupError.FENCED_INSTANCE_ID})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicJoin:
    group_id: str
    topics: tuple[str, ...]
    member_id: str = UNKNOWN_MEMBER_ID
    instance_id: str | None = None
    session_timeout_ms: int = 30_000
    rebalance_timeout_ms: int = 60_000
    assignors: tuple[str, ...] = tuple(STRATEGIES)
    offset_reset: OffsetReset = OffsetReset.LATEST
    auto_commit: bool = False
    client: Client


class ClassicMembership:
    def __init__(self, host: MemberHost, sessions: MemberSessions, commits: Commits) -> None:
        self._host = host
        self._sessions = sessions
        self._commits = commits
        self._leaving: set[asyncio.Task[None]] = set()

    # --- join -----------------------------------------------------------------------------

    async def join(self, wanted: ClassicJoin) -> ClassicSession:
        """Returns once the group has gathered and this member has its partitions."""
        session = self._known(wanted)
        if session is not None and await self._is_settled(session, wanted):
            return session
        self._sessions.make_room(self._host.clock_ms())
        if session is None:
            session = _new_session(wanted)
        else:
            await self._commits.commit_positions(session)
            _update(session, wanted)
            session.must_rejoin = True
        try:
            async with asyncio.timeout(JOIN_WAIT_SECONDS):
                await self._gather(session)
        except BaseException as error:
            if wanted.member_id == UNKNOWN_MEMBER_ID and wanted.instance_id is None:
                # Nobody will ever know its id; the others must not wait for its session to end.
                self._leave_behind(session)
            if isinstance(error, TimeoutError):
                raise RequestTimedOut(
                    f"the other members did not join within {JOIN_WAIT_SECONDS} s"
                ) from error
            raise
        self._sessions.touch(session, self._host.clock_ms())
        return session

    def _known(self, wanted: ClassicJoin) -> ClassicSession | None:
        if wanted.member_id == UNKNOWN_MEMBER_ID:
            return None
        session = self._sessions.get(wanted.group_id, wanted.member_id)
        return session if isinstance(session, ClassicSession) else None

    async def _is_settled(self, session: ClassicSession, wanted: ClassicJoin) -> bool:
        """Whether this join only repeats one whose answer was lost."""
        asked = (wanted.topics, wanted.assignors, wanted.instance_id, wanted.session_timeout_ms)
        if session.must_rejoin or asked != (
            session.topics,
            session.assignors,
            session.instance_id,
            session.session_timeout_ms,
        ):
            return False
        try:
            await self.heartbeat(session)
        except GroupRefused as refused:
            if refused.error is GroupError.FENCED_INSTANCE_ID:
                raise
            return False
        session.offset_reset, session.auto_commit = wanted.offset_reset, wanted.auto_commit
        return True

    async def _gather(self, session: ClassicSession) -> None:
        for _ in range(ROUNDS_MAX):
            joined = await self._host.groups.join(_join_request(session))
            if joined.error is GroupError.MEMBER_ID_REQUIRED:
                session.member_id = joined.member_id
                continue
            check(joined.error)
            session.member_id = joined.member_id
            if await self._synced(session, joined):
                return
        raise GroupRefused(GroupError.REBALANCE_IN_PROGRESS)

    async def _synced(self, session: ClassicSession, joined: JoinGroupResult) -> bool:
        """Whether the member has its partitions; else it joins once more."""
        protocol = joined.protocol_name or ""
        is_leader = joined.leader == session.member_id
        counts, assignments = None, {}
        if is_leader:
            topics = topics_of(self._host.image)
            counts = partition_counts(joined.members, topics)
            if not joined.skip_assignment:
                assignments = assign(protocol, joined.members, topics)
        result = await self._host.groups.sync(
            SyncGroup(
                group_id=session.group_id,
                generation_id=joined.generation_id,
                member_id=session.member_id,
                group_instance_id=session.instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=protocol,
                assignments=assignments,
            )
        )
        if result.error is GroupError.REBALANCE_IN_PROGRESS:
            return False
        check(result.error)
        lost_some = self._take(session, result.assignment, joined.generation_id)
        session.assignor = protocol
        session.is_leader, session.partition_counts = is_leader, counts
        session.must_rejoin = False
        # Others get what this member gave up only when it says so by joining again (KIP-429).
        return not (lost_some and protocol == COOPERATIVE_STICKY)

    def _take(self, session: ClassicSession, data: bytes, generation: int) -> bool:
        try:
            named = read_assignment(data).partitions
        except MalformedProtocol as error:
            raise GroupRefused(
                GroupError.INCONSISTENT_GROUP_PROTOCOL,
                f"the group's leader sent an assignment that cannot be read: {error}",
            ) from error
        assigned = existing(
            (topic_partition(topic, n) for topic, numbers in named.items() for n in numbers),
            self._host.image,
        )
        lost_some = bool(session.assigned - assigned)
        # With generations in between, somebody else may have read a partition meanwhile.
        session.assign(assigned, keep=generation == session.epoch + 1)
        session.epoch = generation
        return lost_some

    # --- heartbeat and leave --------------------------------------------------------------

    async def heartbeat(self, session: ClassicSession, generation: int | None = None) -> None:
        result = await self._host.groups.heartbeat(
            Heartbeat(
                group_id=session.group_id,
                generation_id=session.epoch if generation is None else generation,
                member_id=session.member_id,
                group_instance_id=session.instance_id,
            )
        )
        error = result.error
        if error in _END_OF_SESSION:
            self._sessions.drop(session)
        elif error is GroupError.NONE and self._topics_changed(session):
            error = GroupError.REBALANCE_IN_PROGRESS
        if error is GroupError.REBALANCE_IN_PROGRESS:
            session.must_rejoin = True
        if error not in _END_OF_SESSION:
            self._sessions.touch(session, self._host.clock_ms())
        check(error)

    def _topics_changed(self, session: ClassicSession) -> bool:
        """In the classic protocol it is the leader who notices new partitions, and rejoins."""
        before = session.partition_counts
        if before is None:
            return False
        topics = self._host.image.topics
        return any(
            name not in topics or len(topics[name].partitions) != count
            for name, count in before.items()
        ) or any(name in topics and name not in before for name in session.topics)

    async def leave(self, group_id: str, member_id: str, instance_id: str | None) -> None:
        session = self._sessions.get(group_id, member_id)
        if session is not None:
            await self._commits.commit_positions(session)
            self._sessions.drop(session)
        leaving = LeavingMember(member_id=member_id, group_instance_id=instance_id)
        result = await self._host.groups.leave(LeaveGroup(group_id=group_id, members=(leaving,)))
        check(result.error)
        check(result.members[0].error)

    def _leave_behind(self, session: ClassicSession) -> None:
        if session.member_id == UNKNOWN_MEMBER_ID:
            return
        task = asyncio.create_task(self._leave_quietly(session.group_id, session.member_id))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _leave_quietly(self, group_id: str, member_id: str) -> None:
        leaving = LeavingMember(member_id=member_id)
        with suppress(GoQueueError):
            await self._host.groups.leave(LeaveGroup(group_id=group_id, members=(leaving,)))


def _new_session(wanted: ClassicJoin) -> ClassicSession:
    return ClassicSession(
        group_id=wanted.group_id,
        member_id=wanted.member_id,
        instance_id=wanted.instance_id,
        client=wanted.client,
        session_timeout_ms=wanted.session_timeout_ms,
        offset_reset=wanted.offset_reset,
        auto_commit=wanted.auto_commit,
        topics=wanted.topics,
        assignors=wanted.assignors,
        rebalance_timeout_ms=wanted.rebalance_timeout_ms,
    )


def _update(session: ClassicSession, wanted: ClassicJoin) -> None:
    session.instance_id = wanted.instance_id
    session.client = wanted.client
    session.session_timeout_ms = wanted.session_timeout_ms
    session.rebalance_timeout_ms = wanted.rebalance_timeout_ms
    session.offset_reset = wanted.offset_reset
    session.auto_commit = wanted.auto_commit
    session.topics = wanted.topics
    session.assignors = wanted.assignors


def _join_request(session: ClassicSession) -> JoinGroup:
    held = by_topic(session.assigned)
    return JoinGroup(
        group_id=session.group_id,
        session_timeout_ms=session.session_timeout_ms,
        rebalance_timeout_ms=session.rebalance_timeout_ms,
        member_id=session.member_id,
        group_instance_id=session.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=tuple(
            MemberProtocol(
                name=assignor,
                metadata=write_subscription(
                    SUBSCRIPTION_VERSION,
                    session.topics,
                    held if assignor in _ASKS_WHAT_IS_OWNED else None,
                    generation=session.epoch if assignor in _ASKS_WHAT_IS_OWNED else -1,
                ),
            )
            for assignor in session.assignors
        ),
        client=session.client,
    )
