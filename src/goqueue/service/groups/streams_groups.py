"""Streams groups (KIP-1071), and the internal topics that their members need."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.errors import GoQueueError, TopicExists
from goqueue.model.groups.streams_messages import (
    DescribedStreamsGroup,
    Status,
    StatusCode,
    StreamsGroupHeartbeat,
    StreamsGroupHeartbeatResult,
)
from goqueue.model.groups.topology import ApplicationTopic
from goqueue.model.topics import NewTopic
from goqueue.pace import in_slices
from goqueue.service.security.access import Access
from goqueue.service.topic_making import TopicMaking
from goqueue.state.membership.feature_levels import Feature

# Internal topics made with one heartbeat, which waits for them; the next one makes more.
MADE_AT_ONCE: Final = 20


class StreamsGroupService:
    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._groups = node.groups
        self._access = access
        self._topics = TopicMaking(node, access)
        # Groups whose topics a heartbeat is making now: those of others need not try.
        self._making: set[str] = set()

    async def heartbeat(
        self, caller: Caller, request: StreamsGroupHeartbeat
    ) -> StreamsGroupHeartbeatResult:
        """Internal topics that are missing are made, as far as the caller may make them. The
        member has its tasks with a later heartbeat."""
        group = self._access.readable_group(caller, request.group_id)
        if request.topology is not None:
            async for topic in in_slices(sorted(request.topology.topics)):
                self._access.describable_topic(caller, topic)
            # Only who joins makes a group; what else is asked stores nothing that is new.
            await self._node.changes.begin_use(Feature.STREAMS_GROUPS)
        result = await self._groups.streams_heartbeat(
            group, request, administers_cluster=self._access.administers_cluster(caller)
        )
        if not result.missing_topics or request.group_id in self._making:
            return result
        self._making.add(request.group_id)
        try:
            problems = await self._make(caller, result.missing_topics[:MADE_AT_ONCE])
        finally:
            self._making.discard(request.group_id)
        return replace(result, status=tuple(_told(each, problems) for each in result.status))

    async def _make(self, caller: Caller, topics: Iterable[ApplicationTopic]) -> list[str]:
        """Returns what is in the way."""
        problems = []
        for topic in topics:
            factor = topic.replication_factor
            new = NewTopic(
                name=topic.name,
                partitions=topic.partitions,
                replication_factor=factor if factor > 0 else None,
                config=dict(topic.config),
            )
            try:
                await self._topics.make(caller, new)
            except TopicExists:
                continue
            except GoQueueError as error:
                problems.append(f"{topic.name}: {error.message}")
        await self._node.news.spread()
        return problems

    async def describe(self, caller: Caller, group_id: str) -> DescribedStreamsGroup:
        """Refused as a whole when its topology has topics that the caller may not see."""
        group = await self._groups.describe_streams(
            self._access.describable_group(caller, group_id)
        )
        self._access.check_sees_all(caller, group.topics)
        return group


def _told(status: Status, problems: list[str]) -> Status:
    if not problems or status.code is not StatusCode.MISSING_INTERNAL_TOPICS:
        return status
    return Status(status.code, f"{status.detail}; not made: {'; '.join(problems)}")
