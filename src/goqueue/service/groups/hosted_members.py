"""Members that live in the broker, for clients that do not speak a group protocol."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace

from msgspec import structs

from goqueue.broker.node import Node
from goqueue.broker.quotas.metering import Metering
from goqueue.model.caller import Caller
from goqueue.model.groups.hosted_members import (
    ClassicJoin,
    CooperativeJoin,
    HostedMemberView,
    MemberPoll,
)
from goqueue.model.groups.messages import CommittedPartition, OffsetToCommit
from goqueue.model.names import TopicPartition
from goqueue.model.rights import MemberRights, Resource
from goqueue.service.security.access import Access
from goqueue.service.security.allowed_waits import RightsHaveChanged, rights_have_changed
from goqueue.service.security.audited import audited


class HostedMemberService:
    """Who joins names topics that it may read. Of what a regular expression or another member's
    assignment brings, it is given only such topics."""

    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._members = node.members
        self._access = access
        self._metering = Metering(node)

    # --- the classic protocol -------------------------------------------------------------

    async def join(self, caller: Caller, wanted: ClassicJoin) -> HostedMemberView:
        """Waits until the group has gathered and the member has its partitions."""
        rights = self._rights(caller, wanted.group_id)
        self._check_topics(caller, wanted.topics)
        return self._shown(caller, await self._members.join(rights, wanted))

    async def heartbeat(
        self, caller: Caller, group: str, member_id: str, generation: int | None
    ) -> HostedMemberView:
        rights = self._rights(caller, group)
        return self._shown(caller, await self._members.heartbeat(rights, member_id, generation))

    async def leave(
        self, caller: Caller, group: str, member_id: str, instance_id: str | None
    ) -> None:
        rights = self._rights(caller, group)
        await self._members.leave(rights, member_id, instance_id)

    # --- the consumer protocol ------------------------------------------------------------

    async def join_cooperative(self, caller: Caller, wanted: CooperativeJoin) -> HostedMemberView:
        rights = self._rights(caller, wanted.group_id)
        self._check_topics(caller, wanted.topics)
        if wanted.topic_regex:
            viewer = self._access.viewer(caller, must_read=True)
            wanted = replace(
                wanted,
                topic_regex=self._access.pattern(caller, wanted.topic_regex),
                client=structs.replace(wanted.client, viewer=viewer),
            )
        return self._shown(caller, await self._members.join_cooperative(rights, wanted))

    async def heartbeat_cooperative(
        self, caller: Caller, group: str, member_id: str, epoch: int | None
    ) -> HostedMemberView:
        rights = self._rights(caller, group)
        beat = await self._members.heartbeat_cooperative(rights, member_id, epoch)
        return self._shown(caller, beat)

    async def revoke(
        self,
        caller: Caller,
        group: str,
        member_id: str,
        partitions: Collection[TopicPartition] | None,
        epoch: int | None,
    ) -> HostedMemberView:
        """The client no longer holds these partitions; None: all that were taken away."""
        rights = self._rights(caller, group)
        revoked = await self._members.revoke(rights, member_id, partitions, epoch)
        return self._shown(caller, revoked)

    async def leave_cooperative(
        self, caller: Caller, group: str, member_id: str, *, keeps_place: bool
    ) -> None:
        rights = self._rights(caller, group)
        await self._members.leave_cooperative(rights, member_id, keeps_place=keeps_place)

    # --- both -----------------------------------------------------------------------------

    async def poll(
        self,
        caller: Caller,
        group: str,
        member_id: str,
        *,
        max_records: int,
        timeout_ms: int,
        after: int | None = None,
    ) -> MemberPoll:
        """`after` is the last answer that the client has; what was lost is delivered again."""
        self._metering.reading(caller)
        polled = await self._polled(
            caller, group, member_id, max_records=max_records, timeout_ms=timeout_ms, after=after
        )
        self._metering.have_read(caller, (each.record for each in polled.records))
        return polled._replace(member=self._shown(caller, polled.member))

    async def _polled(
        self,
        caller: Caller,
        group: str,
        member_id: str,
        *,
        max_records: int,
        timeout_ms: int,
        after: int | None,
    ) -> MemberPoll:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_ms / 1000
        while True:
            rights = self._rights(caller, group)
            left_ms = max(0, round((ends_at - loop.time()) * 1000))
            polling = self._members.poll(
                rights, member_id, max_records=max_records, timeout_ms=left_ms, after=after
            )
            if not self._access.has_rules:
                return await polling
            # Its rights went with it to the broker where the member lives. Once rules have
            # changed it is begun again, with those that there are then.
            try:
                async with self._access.waits.while_allowed(rights_have_changed):
                    return await polling
            except RightsHaveChanged:
                continue

    async def commit(
        self,
        caller: Caller,
        group: str,
        offsets: Sequence[OffsetToCommit] | None,
        *,
        member_id: str | None,
        epoch: int | None,
        after: int | None = None,
    ) -> tuple[CommittedPartition, ...]:
        """Commit offsets; None: all that was delivered to the member, up to the answer `after`.
        Without a member the group must be empty."""
        commit = self._set_offsets if member_id is None else self._commit
        return await commit(caller, group, offsets, member_id, epoch, after)

    @audited("group.offsets.set", Resource.GROUP, about="group", is_gathered=True)
    async def _set_offsets(
        self,
        caller: Caller,
        group: str,
        offsets: Sequence[OffsetToCommit] | None,
        member_id: str | None,
        epoch: int | None,
        after: int | None,
    ) -> tuple[CommittedPartition, ...]:
        return await self._commit(caller, group, offsets, member_id, epoch, after)

    async def _commit(
        self,
        caller: Caller,
        group: str,
        offsets: Sequence[OffsetToCommit] | None,
        member_id: str | None,
        epoch: int | None,
        after: int | None,
    ) -> tuple[CommittedPartition, ...]:
        named = {offset.topic for offset in offsets or ()}
        self._access.readable_group(caller, group)
        self._check_topics(caller, named)
        topics = self._node.image.topics
        rights = self._access.member_rights(caller, group, named.union(topics))
        return await self._members.commit(
            rights, offsets, member_id=member_id, epoch=epoch, after=after
        )

    def _rights(self, caller: Caller, group: str) -> MemberRights:
        return self._access.member_rights(caller, group, self._node.image.topics)

    def _shown(self, caller: Caller, member: HostedMemberView) -> HostedMemberView:
        """Without topics that the caller may not see. Who may read a group may ask for any member
        of it, or may have lost a right since the member joined. Kafka's heartbeats have ids in
        place of names, and Metadata does not tell those names either."""
        if not self._access.has_rules:
            return member
        named = {place.topic for place in (*member.assigned, *member.to_revoke)}
        hidden = {name for name in named if not self._access.sees_topic(caller, name)}
        if not hidden:
            return member
        return replace(
            member,
            assigned=frozenset(each for each in member.assigned if each.topic not in hidden),
            to_revoke=frozenset(each for each in member.to_revoke if each.topic not in hidden),
        )

    def _check_topics(self, caller: Caller, topics: Collection[str]) -> None:
        for topic in topics:
            self._access.readable_topic(caller, topic)
