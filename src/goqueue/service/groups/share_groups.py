"""Kafka share groups (KIP-932)."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.errors import (
    AccessDenied,
    GoQueueError,
    NotLeader,
    UnknownPartition,
    UnknownTopicId,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.share_messages import (
    DescribedShareGroup,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResult,
)
from goqueue.model.queues.messages import Acknowledgement
from goqueue.model.queues.settling import Settled
from goqueue.model.queues.share import (
    NewShareOffset,
    ShareFetch,
    ShareFetched,
    ShareMember,
    ShareOffset,
    ShareOffsets,
    SharePart,
    ShareTerms,
    ShareTopicOffsets,
)
from goqueue.model.rights import DescribableGroup, ReadableTopic, Resource, Verb
from goqueue.model.security.quotas import LimitReached
from goqueue.model.topics import PartitionView
from goqueue.pace import in_slices
from goqueue.service.security.access import Access
from goqueue.service.security.allowed_waits import rights_have_changed
from goqueue.service.security.audited import audited, group_error

# After what time a member whose tenant has enough in flight is answered with nothing, so that it
# does not ask all the time, and has some soon after others are settled.
NO_ROOM_WAIT_MS: Final = 500


class ShareGroupService:
    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._groups = node.share_groups
        self._access = access
        self._limits = node.quotas.limits

    # --- members --------------------------------------------------------------------------

    async def heartbeat(
        self, caller: Caller, request: ShareGroupHeartbeat
    ) -> ShareGroupHeartbeatResult:
        group = self._access.readable_group(caller, request.group_id)
        async for topic in in_slices(request.subscribed_topics or ()):
            self._access.describable_topic(caller, topic)
        administers = self._access.administers_cluster(caller)
        return await self._groups.heartbeat(group, request, administers_cluster=administers)

    async def describe(self, caller: Caller, group_id: str) -> DescribedShareGroup:
        """Refused as a whole when its members have topics that the caller may not see."""
        group = await self._groups.describe(self._access.describable_group(caller, group_id))
        topics = self._node.image.topics_by_id
        for member in group.members:
            given = [topics[each].name for each in member.assignment if each in topics]
            self._access.check_sees_all(caller, (*given, *member.subscribed_topics))
        return group

    def topic_names(self, caller: Caller, topic_ids: Iterable[UUID]) -> dict[UUID, str]:
        """Topics that are gone, and those that the caller may not see, are left out."""
        topics = self._node.image.topics_by_id
        names = {each: topics[each].name for each in topic_ids if each in topics}
        return {
            topic_id: name
            for topic_id, name in names.items()
            if self._access.sees_topic(caller, name)
        }

    # --- records --------------------------------------------------------------------------

    def terms(self, caller: Caller, group_id: str) -> ShareTerms:
        return self._groups.terms(self._access.readable_group(caller, group_id))

    async def check(self, caller: Caller, group_id: str) -> DescribedShareGroup:
        """For a member that begins to fetch: whether this is a share group.

        Where the group's coordinator is elsewhere, its word is taken for it: it is the coordinator
        that let the member in.
        """
        group = self._access.readable_group(caller, group_id)
        try:
            return await self._groups.describe(group)
        except NotLeader:
            return DescribedShareGroup(group_id=group)

    async def fetch(
        self, caller: Caller, member: ShareMember, request: ShareFetch
    ) -> list[ShareFetched]:
        """Acquire records of the wanted partitions and read them; one answer for each."""
        group = self._access.readable_group(caller, member.group_id)
        topics, refused = self._readable_topics(caller, request.wanted)
        if request.max_records <= 0 or request.max_bytes <= 0:
            return refused
        has_room = self._has_room(caller)
        if any(_is_news(each, request) for each in refused):
            # They are what the member waits for.
            request = replace(request, max_wait_ms=0)
        if not has_room or (refused and not topics):
            # As a fetch of partitions that have nothing.
            wait_ms = request.max_wait_ms if has_room else min(request.max_wait_ms, NO_ROOM_WAIT_MS)
            fetching = asyncio.sleep(wait_ms / 1000, list[ShareFetched]())
        else:
            administers = self._access.administers_cluster(caller)
            fetching = self._groups.fetch(
                group, member.member_id, topics, request, administers_cluster=administers
            )
        if not self._access.has_rules or request.max_wait_ms <= 0:
            return [*refused, *await fetching]
        unreadable = {each.part.topic_id for each in refused}

        def check() -> None:
            self._access.readable_group(caller, member.group_id)
            for name in topics.values():
                self._access.readable_topic(caller, name)
            if any(self._may_read(caller, topic_id) for topic_id in unreadable):
                rights_have_changed()

        try:
            async with self._access.waits.while_allowed(check):
                return [*refused, *await fetching]
        except AccessDenied:
            # By the rights that there are now, and without waiting: the change is news.
            return await self.fetch(caller, member, replace(request, max_wait_ms=0))

    async def acknowledge(
        self,
        caller: Caller,
        member: ShareMember,
        given: Mapping[SharePart, Sequence[Acknowledgement]],
    ) -> dict[SharePart, Settled]:
        """What became of each partition's acknowledgements: all of it is taken, or nothing."""
        group = self._access.readable_group(caller, member.group_id)

        async def one(part: SharePart, items: Sequence[Acknowledgement]) -> Settled:
            try:
                topic = self._readable(caller, part)
                return await self._groups.acknowledge(
                    group, member.member_id, topic, part.partition, items
                )
            except GoQueueError as error:
                return error

        if len(given) == 1:
            ((part, items),) = given.items()
            return {part: await one(part, items)}
        said = await asyncio.gather(*(one(part, items) for part, items in given.items()))
        return dict(zip(given, said, strict=True))

    async def release(self, caller: Caller, member: ShareMember) -> None:
        """The member's session has ended: what it has acquired is for others."""
        group = self._access.readable_group(caller, member.group_id)
        await self._groups.release(group, member.member_id)

    def connection_lost(self, members: Iterable[ShareMember]) -> None:
        """Their sessions ended with the connection. The sessions were allowed; ending them is."""
        for member in members:
            self._groups.release_soon(*member)

    def leaders(self, caller: Caller, parts: Iterable[SharePart]) -> dict[SharePart, PartitionView]:
        """Who leads these; partitions that are not there or may not be read are left out."""
        leaders: dict[SharePart, PartitionView] = {}
        for part in parts:
            topic = self._node.image.topics_by_id.get(part.topic_id)
            if (
                topic is not None
                and 0 <= part.partition < len(topic.partitions)
                and self._access.allows(caller, Resource.TOPIC, topic.name, Verb.READ)
            ):
                leaders[part] = topic.partitions[part.partition]
        return leaders

    def _readable_topics(
        self, caller: Caller, wanted: Iterable[SharePart]
    ) -> tuple[dict[UUID, ReadableTopic], list[ShareFetched]]:
        topics: dict[UUID, ReadableTopic] = {}
        refused: list[ShareFetched] = []
        for part in wanted:
            if part.topic_id not in topics:
                try:
                    topics[part.topic_id] = self._readable(caller, part)
                except GoQueueError as error:
                    refused.append(ShareFetched(part, error))
        return topics, refused

    def _has_room(self, caller: Caller) -> bool:
        """False: nothing can be acquired for now. Consumers do not know the refusal."""
        try:
            if caller.principal.tenant:
                self._limits.check_in_flight(caller)
        except LimitReached:
            return False
        return True

    def _may_read(self, caller: Caller, topic_id: UUID) -> bool:
        topic = self._node.image.topics_by_id.get(topic_id)
        return topic is not None and self._access.allows(
            caller, Resource.TOPIC, topic.name, Verb.READ
        )

    def _readable(self, caller: Caller, part: SharePart) -> ReadableTopic:
        topic = self._node.image.topics_by_id.get(part.topic_id)
        if topic is None:
            raise UnknownTopicId(f"there is no topic with id {part.topic_id}")
        self._access.check_topic_of_id(caller, part.topic_id, topic.name, Verb.READ)
        return self._access.readable_topic(caller, topic.name)

    # --- offsets --------------------------------------------------------------------------

    async def describe_offsets(
        self, caller: Caller, group_id: str, asked: Sequence[tuple[str, Sequence[int]]] | None
    ) -> ShareOffsets:
        """How far the group is in these partitions; None: in all that it has read."""
        group = self._access.describable_group(caller, group_id)
        described = await self._groups.describe(group)
        if described.error is not GroupError.NONE:
            return ShareOffsets(error=described.error, error_message=described.error_message)
        if asked is None:
            asked = [
                (view.name, range(len(view.partitions)))
                for view in await self._groups.positions.topics_of(group)
                if self._access.sees_topic(caller, view.name)
            ]
        topics = [await self._described(caller, group, name, indexes) for name, indexes in asked]
        return ShareOffsets(topics=topics)

    async def _described(
        self, caller: Caller, group: DescribableGroup, name: str, indexes: Sequence[int]
    ) -> ShareTopicOffsets:
        view = None
        found: list[ShareOffset] = []
        problem: GoQueueError | None = None
        try:
            topic = self._access.describable_topic(caller, name)
            view = self._node.image.topics.get(topic)
            if view is not None:
                found = await self._groups.positions.describe(group, topic)
        except GoQueueError as error:
            problem = error
        none = UnknownPartition("there is no such partition")
        return ShareTopicOffsets(
            name=name,
            topic_id=None if view is None else view.id,
            partitions=[
                found[index]
                if 0 <= index < len(found)
                else ShareOffset(index=index, error=problem or none)
                for index in indexes
            ],
        )

    @audited("group.offsets.set", Resource.GROUP, about="group_id", failure=group_error)
    async def alter_offsets(
        self, caller: Caller, group_id: str, wanted: Sequence[tuple[str, Sequence[NewShareOffset]]]
    ) -> ShareOffsets:
        """Let a group without members begin anew elsewhere; made if it is not there."""
        group = self._access.readable_group(caller, group_id)
        administers = self._access.administers_cluster(caller)
        opened = await self._groups.make_empty(group, administers_cluster=administers)
        if opened.error is not GroupError.NONE:
            return ShareOffsets(error=opened.error, error_message=opened.error_message)
        topics: list[ShareTopicOffsets] = []
        for name, offsets in wanted:
            altered: list[ShareOffset] = []
            for index, offset in offsets:
                problem: GoQueueError | None = None
                try:
                    topic = self._access.readable_topic(caller, name)
                    await self._groups.positions.alter(
                        group, topic, index, offset, administers_cluster=administers
                    )
                except GoQueueError as error:
                    problem = error
                altered.append(ShareOffset(index=index, start_offset=offset, error=problem))
            topic_id = self._id_of(caller, name)
            topics.append(ShareTopicOffsets(name=name, topic_id=topic_id, partitions=altered))
        return ShareOffsets(topics=topics)

    @audited(
        "group.offsets.delete",
        Resource.GROUP,
        about="group_id",
        detail=("names",),
        failure=group_error,
    )
    async def delete_offsets(
        self, caller: Caller, group_id: str, names: Sequence[str]
    ) -> ShareOffsets:
        """Forget what a group without members did in these topics."""
        group = self._access.deletable_group(caller, group_id)
        opened = await self._groups.check_empty(group)
        if opened.error is not GroupError.NONE:
            return ShareOffsets(error=opened.error, error_message=opened.error_message)
        topics: list[ShareTopicOffsets] = []
        for name in names:
            topic_id = self._id_of(caller, name)
            problem: GoQueueError | None = None
            try:
                topic = self._access.readable_topic(caller, name)
                await self._groups.delete_offsets(group, topic)
            except GoQueueError as error:
                problem = error
            topics.append(ShareTopicOffsets(name=name, topic_id=topic_id, error=problem))
        return ShareOffsets(topics=topics)

    def _id_of(self, caller: Caller, topic: str) -> UUID | None:
        """None if there is no such topic, or the caller may not read it."""
        if not self._access.allows(caller, Resource.TOPIC, topic, Verb.READ):
            return None
        view = self._node.image.topics.get(topic)
        return None if view is None else view.id


def _is_news(refused: ShareFetched, request: ShareFetch) -> bool:
    """What is wrong but for rights may be mended by the next look at the metadata."""
    return refused.part not in request.known_refused or not isinstance(refused.error, AccessDenied)
