"""Members of the consumer protocol (KIP-848): the coordinator assigns, one partition at a time.

A partition that is taken away is no longer delivered; the client finishes what it has, commits, and
confirms (`revoke`). Only then does another member get it. All other partitions go on meanwhile.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from goqueue.broker.hosted_clients.members.commits import Commits
from goqueue.broker.hosted_clients.members.host import MemberHost
from goqueue.broker.hosted_clients.members.sessions import (
    CooperativeSession,
    MemberSessions,
    OffsetReset,
)
from goqueue.model.groups.assignment import Assignment, assignment
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    Client,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResult,
)
from goqueue.model.groups.refusals import check
from goqueue.model.names import TopicPartition, topic_partition

_END_OF_SESSION: Final = frozenset(
    {
        GroupError.UNKNOWN_MEMBER_ID,
        GroupError.FENCED_MEMBER_EPOCH,
        GroupError.FENCED_INSTANCE_ID,
        GroupError.GROUP_ID_NOT_FOUND,
    }
)


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


class CooperativeMembership:
    def __init__(self, host: MemberHost, sessions: MemberSessions, commits: Commits) -> None:
        self._host = host
        self._sessions = sessions
        self._commits = commits

    async def join(self, wanted: CooperativeJoin) -> CooperativeSession:
        self._sessions.make_room(self._host.clock_ms())
        member_id = wanted.member_id or str(uuid4())
        result = await self._host.groups.consumer_heartbeat(
            ConsumerGroupHeartbeat(
                group_id=wanted.group_id,
                member_id=member_id,
                member_epoch=JOIN_EPOCH,
                instance_id=wanted.instance_id,
                rack_id=wanted.rack_id,
                rebalance_timeout_ms=wanted.rebalance_timeout_ms,
                subscribed_topics=wanted.topics,
                subscribed_regex=wanted.topic_regex,
                server_assignor=wanted.assignor,
                owned={},
                client=wanted.client,
            )
        )
        check(result.error, result.error_message)
        session = CooperativeSession(
            group_id=wanted.group_id,
            member_id=result.member_id,
            instance_id=wanted.instance_id,
            client=wanted.client,
            session_timeout_ms=self._host.config.group_consumer_session_timeout_ms,
            offset_reset=wanted.offset_reset,
            auto_commit=wanted.auto_commit,
        )
        self._take(session, result)
        return session

    async def heartbeat(self, session: CooperativeSession, epoch: int | None = None) -> None:
        await self._say(session, epoch=epoch, owned=None)

    async def revoke(
        self,
        session: CooperativeSession,
        partitions: Collection[TopicPartition] | None,
        epoch: int | None = None,
    ) -> None:
        """The client no longer holds these partitions; None: all that were taken away."""
        given_up = session.to_revoke if partitions is None else frozenset(partitions)
        kept = session.to_revoke - given_up
        await self._say(session, epoch=epoch, owned=session.assigned | kept)
        session.to_revoke &= kept | session.assigned

    async def leave(self, session: CooperativeSession, *, keeps_place: bool) -> None:
        """With `keeps_place` a static member's partitions wait for it until its session ends."""
        await self._commits.commit_positions(session)
        result = await self._host.groups.consumer_heartbeat(
            ConsumerGroupHeartbeat(
                group_id=session.group_id,
                member_id=session.member_id,
                member_epoch=STATIC_LEAVE_EPOCH if keeps_place else LEAVE_EPOCH,
                instance_id=session.instance_id,
                client=session.client,
            )
        )
        self._sessions.drop(session)
        check(result.error, result.error_message)

    async def _say(
        self,
        session: CooperativeSession,
        *,
        epoch: int | None,
        owned: frozenset[TopicPartition] | None,
    ) -> None:
        result = await self._host.groups.consumer_heartbeat(
            ConsumerGroupHeartbeat(
                group_id=session.group_id,
                member_id=session.member_id,
                member_epoch=session.epoch if epoch is None else epoch,
                instance_id=session.instance_id,
                owned=None if owned is None else self._ids(owned),
                client=session.client,
            )
        )
        if result.error in _END_OF_SESSION:
            self._sessions.drop(session)
        check(result.error, result.error_message)
        self._take(session, result)

    def _take(self, session: CooperativeSession, result: ConsumerGroupHeartbeatResult) -> None:
        session.epoch = result.member_epoch
        session.heartbeat_interval_ms = result.heartbeat_interval_ms
        if result.assignment is not None:
            assigned = self._names(result.assignment)
            session.to_revoke = (session.to_revoke | session.assigned) - assigned
            session.assign(assigned, keep=True)
        self._sessions.touch(session, self._host.clock_ms())

    def _ids(self, partitions: frozenset[TopicPartition]) -> Assignment:
        topics = self._host.image.topics
        return assignment(
            (topics[p.topic].id, (p.partition,)) for p in partitions if p.topic in topics
        )

    def _names(self, partitions: Assignment) -> frozenset[TopicPartition]:
        topics = self._host.image.topics_by_id
        return frozenset(
            topic_partition(topics[topic_id].name, number)
            for topic_id, numbers in partitions.items()
            if topic_id in topics
            for number in numbers
        )
