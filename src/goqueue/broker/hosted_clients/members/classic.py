"""Members of the classic protocol: join and sync in one step, assigning when elected leader.

Such a client waits while it joins, so it reads nothing then; that suits eager assignors and
cooperative ones alike. What it still holds it says with the join, so that it may keep it.
"""

import asyncio
from contextlib import suppress
from typing import Final

from goqueue.broker.hosted_clients.members.commits import Commits
from goqueue.broker.hosted_clients.members.member import ClassicHostedMember
from goqueue.broker.hosted_clients.members.register import MemberRegister
from goqueue.broker.hosted_clients.members.surroundings import MemberSurroundings, readable
from goqueue.model.errors import GoQueueError, RequestTimedOut
from goqueue.model.groups.consumer_protocol import (
    PROTOCOL_TYPE,
    MalformedProtocol,
    read_assignment,
    write_subscription,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.hosted_members import ClassicJoin
from goqueue.model.groups.messages import (
    UNKNOWN_MEMBER_ID,
    Heartbeat,
    JoinGroup,
    JoinGroupResult,
    LeaveGroup,
    LeavingMember,
    MemberProtocol,
    SyncGroup,
)
from goqueue.model.groups.refusals import GroupRefused, check
from goqueue.model.names import by_topic, topic_partition
from goqueue.model.rights import MemberRights, ReadableGroup
from goqueue.state.groups.leader_assignment import (
    COOPERATIVE_STICKY,
    STICKY,
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


class ClassicMembership:
    def __init__(
        self, broker: MemberSurroundings, register: MemberRegister, commits: Commits
    ) -> None:
        self._broker = broker
        self._register = register
        self._commits = commits
        self._leaving: set[asyncio.Task[None]] = set()

    # --- join -----------------------------------------------------------------------------

    async def join(self, wanted: ClassicJoin, rights: MemberRights) -> ClassicHostedMember:
        """Returns once the group has gathered and this member has its partitions."""
        member = self._known(wanted)
        if member is not None and await self._is_settled(member, wanted, rights):
            return member
        if member is None:
            self._register.make_room(rights, self._broker.clock_ms())
            member = _new_member(wanted, self._broker.clock_ms())
        else:
            await self._commits.commit_positions(member, rights)
            _update(member, wanted)
            member.must_rejoin = True
        try:
            async with asyncio.timeout(JOIN_WAIT_SECONDS):
                await self._gather(member, rights)
        except BaseException as error:
            if wanted.member_id == UNKNOWN_MEMBER_ID and wanted.instance_id is None:
                # Nobody will ever know its id; the others must not wait for its session to end.
                self._leave_behind(member, rights.group)
            if isinstance(error, TimeoutError):
                raise RequestTimedOut(
                    f"the other members did not join within {JOIN_WAIT_SECONDS} s"
                ) from error
            raise
        self._register.touch(member, self._broker.clock_ms())
        return member

    def _known(self, wanted: ClassicJoin) -> ClassicHostedMember | None:
        if wanted.member_id == UNKNOWN_MEMBER_ID:
            return None
        member = self._register.get(wanted.group_id, wanted.member_id)
        return member if isinstance(member, ClassicHostedMember) else None

    async def _is_settled(
        self, member: ClassicHostedMember, wanted: ClassicJoin, rights: MemberRights
    ) -> bool:
        """Whether this join only repeats one whose answer was lost."""
        asked = (wanted.topics, wanted.assignors, wanted.instance_id, wanted.session_timeout_ms)
        if member.must_rejoin or asked != (
            member.topics,
            member.assignors,
            member.instance_id,
            member.session_timeout_ms,
        ):
            return False
        try:
            await self.heartbeat(member, rights)
        except GroupRefused as refused:
            if refused.error is GroupError.FENCED_INSTANCE_ID:
                raise
            return False
        member.offset_reset, member.auto_commit = wanted.offset_reset, wanted.auto_commit
        return True

    async def _gather(self, member: ClassicHostedMember, rights: MemberRights) -> None:
        for _ in range(ROUNDS_MAX):
            joined = await self._broker.groups.join(
                rights.group,
                _join_request(member),
                administers_cluster=rights.administers_cluster,
            )
            if joined.error is GroupError.MEMBER_ID_REQUIRED:
                member.member_id = joined.member_id
                continue
            check(joined.error)
            member.member_id = joined.member_id
            if await self._synced(member, joined, rights):
                return
        raise GroupRefused(GroupError.REBALANCE_IN_PROGRESS)

    async def _synced(
        self, member: ClassicHostedMember, joined: JoinGroupResult, rights: MemberRights
    ) -> bool:
        """Whether the member has its partitions; else it joins once more."""
        protocol = joined.protocol_name or ""
        is_leader = joined.leader == member.member_id
        counts, assignments = None, {}
        if is_leader:
            topics = self._broker.groups.topics_now()
            counts = partition_counts(joined.members, topics)
            if not joined.skip_assignment:
                assignments = assign(protocol, joined.members, topics)
        result = await self._broker.groups.sync(
            rights.group,
            SyncGroup(
                group_id=member.group_id,
                generation_id=joined.generation_id,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=protocol,
                assignments=assignments,
            ),
        )
        if result.error is GroupError.REBALANCE_IN_PROGRESS:
            return False
        check(result.error)
        lost_some = self._take(member, result.assignment, joined.generation_id, rights)
        member.assignor = protocol
        member.is_leader, member.partition_counts = is_leader, counts
        member.must_rejoin = False
        # Others get what this member gave up only when it says so by joining again (KIP-429).
        return not (lost_some and protocol == COOPERATIVE_STICKY)

    def _take(
        self, member: ClassicHostedMember, data: bytes, generation: int, rights: MemberRights
    ) -> bool:
        try:
            named = read_assignment(data).partitions
        except MalformedProtocol as error:
            raise GroupRefused(
                GroupError.INCONSISTENT_GROUP_PROTOCOL,
                f"the group's leader sent an assignment that cannot be read: {error}",
            ) from error
        assigned = readable(
            (topic_partition(topic, n) for topic, numbers in named.items() for n in numbers),
            self._broker.image,
            rights,
        )
        lost_some = bool(member.assigned - assigned)
        # With generations in between, somebody else may have read a partition meanwhile.
        member.assign(assigned, keep=generation == member.epoch + 1)
        member.epoch = generation
        return lost_some

    # --- heartbeat and leave --------------------------------------------------------------

    async def heartbeat(
        self, member: ClassicHostedMember, rights: MemberRights, generation: int | None = None
    ) -> None:
        result = await self._broker.groups.heartbeat(
            rights.group,
            Heartbeat(
                group_id=member.group_id,
                generation_id=member.epoch if generation is None else generation,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
            ),
        )
        error = result.error
        if error in _END_OF_SESSION:
            self._register.drop(member)
        elif error is GroupError.NONE and self._topics_changed(member):
            error = GroupError.REBALANCE_IN_PROGRESS
        if error is GroupError.REBALANCE_IN_PROGRESS:
            member.must_rejoin = True
        if error not in _END_OF_SESSION:
            self._register.touch(member, self._broker.clock_ms())
        check(error)

    def _topics_changed(self, member: ClassicHostedMember) -> bool:
        """In the classic protocol it is the leader who notices new partitions, and rejoins."""
        before = member.partition_counts
        if before is None:
            return False
        topics = self._broker.image.topics
        return any(
            name not in topics or len(topics[name].partitions) != count
            for name, count in before.items()
        ) or any(name in topics and name not in before for name in member.topics)

    async def leave(self, rights: MemberRights, member_id: str, instance_id: str | None) -> None:
        member = self._register.get(rights.group, member_id)
        if member is not None:
            await self._commits.commit_positions(member, rights)
            self._register.drop(member)
        leaving = LeavingMember(member_id=member_id, group_instance_id=instance_id)
        request = LeaveGroup(group_id=rights.group, members=(leaving,))
        result = await self._broker.groups.leave(rights.group, request)
        check(result.error)
        check(result.members[0].error)

    def _leave_behind(self, member: ClassicHostedMember, group: ReadableGroup) -> None:
        if member.member_id == UNKNOWN_MEMBER_ID:
            return
        task = asyncio.create_task(self._leave_quietly(group, member.member_id))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _leave_quietly(self, group: ReadableGroup, member_id: str) -> None:
        leaving = LeavingMember(member_id=member_id)
        with suppress(GoQueueError):
            await self._broker.groups.leave(group, LeaveGroup(group_id=group, members=(leaving,)))


def _new_member(wanted: ClassicJoin, now_ms: int) -> ClassicHostedMember:
    return ClassicHostedMember(
        answer=now_ms,
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


def _update(member: ClassicHostedMember, wanted: ClassicJoin) -> None:
    member.instance_id = wanted.instance_id
    member.client = wanted.client
    member.session_timeout_ms = wanted.session_timeout_ms
    member.rebalance_timeout_ms = wanted.rebalance_timeout_ms
    member.offset_reset = wanted.offset_reset
    member.auto_commit = wanted.auto_commit
    member.topics = wanted.topics
    member.assignors = wanted.assignors


def _join_request(member: ClassicHostedMember) -> JoinGroup:
    held = by_topic(member.assigned)
    return JoinGroup(
        group_id=member.group_id,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=tuple(
            MemberProtocol(
                name=assignor,
                metadata=write_subscription(
                    SUBSCRIPTION_VERSION,
                    member.topics,
                    held if assignor in _ASKS_WHAT_IS_OWNED else None,
                    generation=member.epoch if assignor in _ASKS_WHAT_IS_OWNED else -1,
                ),
            )
            for assignor in member.assignors
        ),
        client=member.client,
    )
