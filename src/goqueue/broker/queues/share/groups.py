"""Share groups (KIP-932) on this broker: members from the group coordinator, records from queues.

A share group's partition is a queue of the engine that SQS and HTTP use too; Kafka's words for
what happens there are acquisition, lock and delivery count.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from uuid import UUID

from goqueue.broker.groups.configs import GroupConfigs
from goqueue.broker.groups.groups import Groups
from goqueue.broker.peers.share_state import SharePeers
from goqueue.broker.queues.queues import Queues
from goqueue.broker.queues.share.fetching import ShareFetching
from goqueue.broker.queues.share.host import ShareHost
from goqueue.broker.queues.share.queues import ShareQueues
from goqueue.broker.runtime.shard import timed, untimed
from goqueue.model.companions import QUEUE_STATE, companion_of
from goqueue.model.errors import GoQueueError, InvalidRequest, NotLeader
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.share_messages import (
    DescribedShareGroup,
    OpenedShareGroup,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResult,
)
from goqueue.model.names import NodeId, TopicPartition, topic_partition
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import Acknowledgement, QueueDescription
from goqueue.model.queues.share import ShareFetch, ShareFetched, ShareOffset, ShareTerms
from goqueue.model.rights import (
    ActingCluster,
    DeletableGroup,
    DescribableGroup,
    DescribableTopic,
    ReadableGroup,
    ReadableTopic,
)
from goqueue.model.topics import TopicView
from goqueue.pace import in_slices
from goqueue.state.groups.coordinator import GroupMachine

logger = logging.getLogger(__name__)


class ShareGroups:
    def __init__(
        self,
        host: ShareHost,
        groups: Groups,
        queues: Queues,
        configs: GroupConfigs,
        peers: SharePeers,
    ) -> None:
        self._host = host
        self._peers = peers
        self._groups = groups
        self._queues = queues
        self._share_queues = ShareQueues(host, queues.registry, configs)
        self._fetching = ShareFetching(host, queues, self._share_queues)
        self._work: set[asyncio.Task[None]] = set()
        groups.share_member_left = self.release_soon
        groups.before_delete = self._before_delete

    # --- members --------------------------------------------------------------------------

    async def heartbeat(
        self, group: ReadableGroup, request: ShareGroupHeartbeat
    ) -> ShareGroupHeartbeatResult:
        return await self._groups.ask_new(group, timed(GroupMachine.share_heartbeat, request))

    async def describe(self, group: DescribableGroup | ReadableGroup) -> DescribedShareGroup:
        shard = await self._groups.state.shard_for(group)
        return await shard.execute(untimed(GroupMachine.describe_share_group, str(group)))

    async def release(self, group: ReadableGroup, member_id: str) -> None:
        """The member's session has ended: what it has acquired is for others."""
        await self._queues.registry.member_left(group, member_id)

    def release_soon(self, group_id: str, member_id: str) -> None:
        """The member is gone; nobody waits until others have what it had acquired."""
        task = asyncio.create_task(_logged(self._queues.registry.member_left(group_id, member_id)))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def partition_led(self, place: TopicPartition) -> None:
        """Its queues may have been opened by another leader, or not at all: look again."""
        topic = self._host.image.topics.get(place.topic)
        if topic is not None:
            self._share_queues.forget_topic(topic.id)

    def partition_lost(self, place: TopicPartition) -> None:
        self.partition_led(place)

    def close(self) -> None:
        for task in self._work:
            task.cancel()

    # --- records --------------------------------------------------------------------------

    def terms(self, group: ReadableGroup) -> ShareTerms:
        config = self._share_queues.config_of(group)
        return ShareTerms(
            config.share_record_lock_duration_ms, config.share_renew_acknowledge_enable
        )

    async def fetch(
        self,
        group: ReadableGroup,
        member_id: str,
        topics: Mapping[UUID, ReadableTopic],
        request: ShareFetch,
    ) -> list[ShareFetched]:
        """Acquire records of the wanted partitions and read them."""
        return await self._fetching.run(group, member_id, topics, request)

    async def acknowledge(
        self,
        group: ReadableGroup,
        member_id: str,
        topic: ReadableTopic,
        index: int,
        items: Sequence[Acknowledgement],
    ) -> QueueError:
        """All of it or nothing: one that is not right spoils the others, as in Kafka."""
        self._host.partition(topic, index)
        answer = await self._queues.acknowledge(
            group, topic, index, items, member=member_id, is_atomic=True
        )
        return answer.error

    # --- offsets --------------------------------------------------------------------------

    async def describe_offsets(
        self, group: DescribableGroup, topic: DescribableTopic
    ) -> list[ShareOffset]:
        """One per partition; those that are led elsewhere say so."""
        return [
            await self._describe_offset(group, topic, part.index)
            async for part in in_slices(self._host.topic(topic).partitions)
        ]

    async def _describe_offset(
        self, group: DescribableGroup, topic: DescribableTopic, index: int
    ) -> ShareOffset:
        try:
            key = self._queues.registry.key(group, topic, index)
            described = await self._queues.registry.describe(key, topic)
        except NotLeader as error:
            return ShareOffset(index=index, error=error)
        return self._offset(topic, index, described)

    def _offset(self, topic: DescribableTopic, index: int, found: QueueDescription) -> ShareOffset:
        if found.error is QueueError.UNKNOWN_QUEUE:
            # Nobody has read it yet.
            return ShareOffset(index=index)
        partition = self._host.partition(topic, index)
        start = max(found.floor, partition.log_start_offset)
        return ShareOffset(
            index=index,
            start_offset=start,
            leader_epoch=partition.leader_epoch,
            lag=max(partition.high_watermark - start - found.settled_above_floor, 0),
        )

    def topics_of(self, group: DescribableGroup) -> list[TopicView]:
        """Topics that the group has read or had its offsets set in."""
        topics = self._host.image.topics_by_id
        ids = {key.topic_id for key in self._queues.registry.list_queues(group)}
        return [topics[topic_id] for topic_id in sorted(ids) if topic_id in topics]

    async def check_empty(
        self, group: ReadableGroup | DeletableGroup, *, may_make: bool
    ) -> OpenedShareGroup:
        """Offsets may be changed only while the group has no members."""
        shard = await self._groups.state.shard_for(group)
        return await shard.execute(
            lambda machine, ticket, _: machine.open_empty_share_group(
                group, may_make=may_make, ticket=ticket
            )
        )

    async def alter_offset(
        self, group: ReadableGroup, topic: ReadableTopic, index: int, offset: int
    ) -> None:
        """Begin anew at `offset`. The caller has made sure that the group is empty."""
        self._host.partition(topic, index)
        if offset < 0:
            raise InvalidRequest(f"start offset {offset} is below 0")
        await self._share_queues.open(group, topic)
        await self._queues.reset(group, topic, index, offset)

    async def delete_offsets(self, group: DeletableGroup, topic: ReadableTopic) -> None:
        await self._delete_elsewhere(group, [self._host.topic(topic)])
        await self._queues.delete(group, topic)
        self._share_queues.forget(group)

    async def delete_state(
        self, _right: ActingCluster, group: str, topic_id: UUID, indexes: Sequence[int]
    ) -> None:
        """What the group did in partitions that are led here; its coordinator has decided it."""
        topic = self._host.topic_by_id(topic_id)
        for index in indexes:
            self._host.partition(topic.name, index)
        await self._queues.delete_state(group, topic_id)
        self._share_queues.forget(group)

    async def _delete_elsewhere(self, group: str, topics: Iterable[TopicView]) -> None:
        """Of topics of which somebody has read a partition as a queue. All or an error."""
        by_leader: dict[NodeId, dict[UUID, list[int]]] = {}
        for topic in topics:
            if companion_of(QUEUE_STATE, topic.id) not in self._host.image.topics:
                continue
            for part in topic.partitions:
                leader = self._peers.leader_elsewhere(topic_partition(topic.name, part.index))
                if leader is not None:
                    by_leader.setdefault(leader, {}).setdefault(topic.id, []).append(part.index)
        await asyncio.gather(
            *(self._peers.delete(leader, group, where) for leader, where in by_leader.items())
        )

    async def _before_delete(self, group: DeletableGroup) -> None:
        """First what was acknowledged, then the group: a crash in between can be done again."""
        found = await self.check_empty(group, may_make=False)
        if found.error is GroupError.NONE:
            await self._delete_elsewhere(group, self._host.image.topics.values())
            await self._queues.delete(group)
            self._share_queues.forget(group)


async def _logged(work: Coroutine[None, None, None]) -> None:
    try:
        await work
    except GoQueueError as error:
        # The locks end by themselves.
        logger.info("records of a member that left are released later: %s", error)
