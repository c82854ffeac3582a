"""How far share groups are in partitions, told and changed at the leader of each.

The coordinator of a group is asked for it, and others lead the partitions.
"""

import asyncio
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from goqueue.broker.calls.calls import before_anything_is_done
from goqueue.broker.queues.queues import Queues
from goqueue.broker.queues.share.host import ShareHost
from goqueue.broker.queues.share.queues import ShareQueues
from goqueue.model.calls import Method
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.names import topic_partition
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.share import ShareOffset
from goqueue.model.rights import DescribableGroup, DescribableTopic, ReadableGroup, ReadableTopic
from goqueue.model.topics import TopicView


class DescribePosition(msgspec.Struct, frozen=True):
    group: DescribableGroup
    topic: DescribableTopic
    index: int


class SharePosition(NamedTuple):
    start_offset: int
    leader_epoch: int
    lag: int


class AlterPosition(msgspec.Struct, frozen=True):
    group: ReadableGroup
    topic: ReadableTopic
    index: int
    offset: int
    # Who asks does: of queues that are made.
    administers_cluster: bool = False


class FindTopics(msgspec.Struct, frozen=True):
    group: DescribableGroup


# Nothing where nobody has read it yet.
POSITION: Final = Method(
    "share.position", DescribePosition, list[SharePosition], waits=True, is_repeatable=True
)
ALTER: Final = Method("share.alter", AlterPosition, bool)
TOPICS: Final = Method("share.topics", FindTopics, list[UUID], waits=True, is_repeatable=True)


class SharePositions:
    def __init__(self, host: ShareHost, queues: Queues, share_queues: ShareQueues) -> None:
        self._host = host
        self._queues = queues
        self._share_queues = share_queues
        host.calls.serve(POSITION, self._describe_here)
        host.calls.serve(ALTER, self._alter_here)
        host.calls.serve(TOPICS, self._topics_here)

    async def describe(self, group: DescribableGroup, topic: DescribableTopic) -> list[ShareOffset]:
        """One per partition; of some it may say why nobody knows."""
        return await asyncio.gather(
            *(
                self._describe(group, topic, part.index)
                for part in self._host.topic(topic).partitions
            )
        )

    async def _describe(
        self, group: DescribableGroup, topic: DescribableTopic, index: int
    ) -> ShareOffset:
        request = DescribePosition(group, topic, index)
        try:
            found = await self._host.calls.ask(POSITION, topic_partition(topic, index), request)
        except GoQueueError as error:
            return ShareOffset(index=index, error=error)
        for start_offset, leader_epoch, lag in found:
            return ShareOffset(
                index=index, start_offset=start_offset, leader_epoch=leader_epoch, lag=lag
            )
        return ShareOffset(index=index)

    async def _describe_here(self, request: DescribePosition) -> list[SharePosition]:
        registry = self._queues.registry
        key = registry.key(request.group, request.topic, request.index)
        with before_anything_is_done():
            found = await registry.describe(key, request.topic)
        if found.error is QueueError.UNKNOWN_QUEUE:
            return []
        partition = self._host.partition(request.topic, request.index)
        start = max(found.floor, partition.log_start_offset)
        lag = max(partition.high_watermark - start - found.settled_above_floor, 0)
        return [SharePosition(start, partition.leader_epoch, lag)]

    async def alter(
        self,
        group: ReadableGroup,
        topic: ReadableTopic,
        index: int,
        offset: int,
        *,
        administers_cluster: bool = False,
    ) -> None:
        """Begin anew at `offset`. The caller has made sure that the group is empty."""
        if offset < 0:
            raise InvalidRequest(f"start offset {offset} is below 0")
        request = AlterPosition(group, topic, index, offset, administers_cluster)
        await self._host.calls.ask(ALTER, topic_partition(topic, index), request)

    async def _alter_here(self, request: AlterPosition) -> bool:
        group, topic, index, offset = request.group, request.topic, request.index, request.offset
        with before_anything_is_done():
            await self._share_queues.open(
                group, topic, administers_cluster=request.administers_cluster
            )
        await self._queues.reset(group, topic, index, offset)
        return True

    async def topics_of(self, group: DescribableGroup) -> list[TopicView]:
        """Topics that the group has read or had its offsets set in; all of them, or an error."""
        gathered = await self._host.calls.gather(TOPICS, FindTopics(group))
        for failure in gathered.failures.values():
            raise failure
        ids = {topic_id for found in gathered.answers.values() for topic_id in found}
        topics = self._host.image.topics_by_id
        return [topics[topic_id] for topic_id in sorted(ids) if topic_id in topics]

    async def _topics_here(self, request: FindTopics) -> list[UUID]:
        return list({key.topic_id for key in self._queues.registry.list_queues(request.group)})
