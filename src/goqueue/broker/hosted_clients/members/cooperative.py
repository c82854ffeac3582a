"""Members of the consumer protocol (KIP-848): the coordinator assigns, one partition at a time.

A partition that is taken away is no longer delivered; the client finishes what it has, commits, and
confirms (`revoke`). Only then does another member get it. All other partitions go on meanwhile.
"""

from collections.abc import Collection
from typing import Final
from uuid import uuid4

from goqueue.broker.hosted_clients.members.commits import Commits
from goqueue.broker.hosted_clients.members.member import CooperativeHostedMember
from goqueue.broker.hosted_clients.members.register import MemberRegister
from goqueue.broker.hosted_clients.members.surroundings import MemberSurroundings, readable
from goqueue.model.groups.assignment import Assignment, assignment
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.hosted_members import CooperativeJoin
from goqueue.model.groups.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResult,
)
from goqueue.model.groups.refusals import check
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.rights import MemberRights

_END_OF_SESSION: Final = frozenset(
    {
        GroupError.UNKNOWN_MEMBER_ID,
        GroupError.FENCED_MEMBER_EPOCH,
        GroupError.FENCED_INSTANCE_ID,
        GroupError.GROUP_ID_NOT_FOUND,
    }
)


class CooperativeMembership:
    def __init__(
        self, broker: MemberSurroundings, register: MemberRegister, commits: Commits
    ) -> None:
        self._broker = broker
        self._register = register
        self._commits = commits

    async def join(self, wanted: CooperativeJoin, rights: MemberRights) -> CooperativeHostedMember:
        if self._register.get(rights.group, wanted.member_id or "") is None:
            self._register.make_room(rights, self._broker.clock_ms())
        member_id = wanted.member_id or str(uuid4())
        result = await self._broker.groups.consumer_heartbeat(
            rights.group,
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
            ),
            administers_cluster=rights.administers_cluster,
        )
        check(result.error, result.error_message)
        member = CooperativeHostedMember(
            answer=self._broker.clock_ms(),
            group_id=wanted.group_id,
            member_id=result.member_id,
            instance_id=wanted.instance_id,
            client=wanted.client,
            session_timeout_ms=self._broker.config.group_consumer_session_timeout_ms,
            offset_reset=wanted.offset_reset,
            auto_commit=wanted.auto_commit,
        )
        self._take(member, result, rights)
        return member

    async def heartbeat(
        self, member: CooperativeHostedMember, rights: MemberRights, epoch: int | None = None
    ) -> None:
        await self._say(member, rights, epoch=epoch, owned=None)

    async def revoke(
        self,
        member: CooperativeHostedMember,
        partitions: Collection[TopicPartition] | None,
        rights: MemberRights,
        epoch: int | None = None,
    ) -> None:
        """The client no longer holds these partitions; None: all that were taken away."""
        given_up = member.to_revoke if partitions is None else frozenset(partitions)
        kept = member.to_revoke - given_up
        await self._say(member, rights, epoch=epoch, owned=member.assigned | kept)
        member.to_revoke &= kept | member.assigned

    async def leave(
        self, member: CooperativeHostedMember, rights: MemberRights, *, keeps_place: bool
    ) -> None:
        """With `keeps_place` a static member's partitions wait for it until its session ends."""
        await self._commits.commit_positions(member, rights)
        result = await self._broker.groups.consumer_heartbeat(
            rights.group,
            ConsumerGroupHeartbeat(
                group_id=member.group_id,
                member_id=member.member_id,
                member_epoch=STATIC_LEAVE_EPOCH if keeps_place else LEAVE_EPOCH,
                instance_id=member.instance_id,
                client=member.client,
            ),
        )
        self._register.drop(member)
        check(result.error, result.error_message)

    async def _say(
        self,
        member: CooperativeHostedMember,
        rights: MemberRights,
        *,
        epoch: int | None,
        owned: frozenset[TopicPartition] | None,
    ) -> None:
        result = await self._broker.groups.consumer_heartbeat(
            rights.group,
            ConsumerGroupHeartbeat(
                group_id=member.group_id,
                member_id=member.member_id,
                member_epoch=member.epoch if epoch is None else epoch,
                instance_id=member.instance_id,
                owned=None if owned is None else self._ids(owned),
                client=member.client,
            ),
        )
        if result.error in _END_OF_SESSION:
            self._register.drop(member)
        check(result.error, result.error_message)
        self._take(member, result, rights)

    def _take(
        self,
        member: CooperativeHostedMember,
        result: ConsumerGroupHeartbeatResult,
        rights: MemberRights,
    ) -> None:
        member.epoch = result.member_epoch
        member.heartbeat_interval_ms = result.heartbeat_interval_ms
        if result.assignment is not None:
            assigned = readable(self._names(result.assignment), self._broker.image, rights)
            member.to_revoke = (member.to_revoke | member.assigned) - assigned
            member.assign(assigned, keep=True)
        self._register.touch(member, self._broker.clock_ms())

    def _ids(self, partitions: frozenset[TopicPartition]) -> Assignment:
        topics = self._broker.image.topics
        return assignment(
            (topics[p.topic].id, (p.partition,)) for p in partitions if p.topic in topics
        )

    def _names(self, partitions: Assignment) -> frozenset[TopicPartition]:
        topics = self._broker.image.topics_by_id
        return frozenset(
            topic_partition(topics[topic_id].name, number)
            for topic_id, numbers in partitions.items()
            if topic_id in topics
            for number in numbers
        )
