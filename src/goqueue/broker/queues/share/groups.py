"""Share groups (KIP-932) on this broker: members from the group coordinator, records from queues.

A share group's partition is a queue of the engine that SQS and HTTP use too; Kafka's words for
what happens there are acquisition, lock and delivery count.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from goqueue.broker.groups.configs import GroupConfigs
from goqueue.broker.groups.groups import Groups
from goqueue.broker.queues.queues import Queues
from goqueue.broker.queues.share.fetching import ShareFetching
from goqueue.broker.queues.share.host import ShareHost
from goqueue.broker.queues.share.positions import SharePositions
from goqueue.broker.queues.share.queues import ShareQueues
from goqueue.broker.runtime.shard import Command, timed, untimed
from goqueue.model.calls import Method
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.share_messages import (
    DescribedShareGroup,
    OpenedShareGroup,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResult,
)
from goqueue.model.names import TopicPartition
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import Acknowledgement
from goqueue.model.queues.share import ShareFetch, ShareFetched, ShareTerms
from goqueue.model.rights import (
    DeletableGroup,
    DescribableGroup,
    ReadableGroup,
    ReadableTopic,
)
from goqueue.state.groups.coordinator import GroupMachine

logger = logging.getLogger(__name__)


class ReleaseMember(msgspec.Struct, frozen=True):
    group_id: str
    member_id: str


RELEASE: Final = Method("share.release", ReleaseMember, type(None))


class ShareGroups:
    def __init__(
        self,
        host: ShareHost,
        groups: Groups,
        queues: Queues,
        configs: GroupConfigs,
    ) -> None:
        self._host = host
        self._groups = groups
        self._queues = queues
        self._share_queues = ShareQueues(host, queues.registry, configs)
        self._fetching = ShareFetching(host, queues, self._share_queues)
        self.positions = SharePositions(host, queues, self._share_queues)
        self._work: set[asyncio.Task[None]] = set()
        host.calls.serve(RELEASE, self._release_here)
        groups.share_member_left = self._member_left
        groups.before_delete = self._before_delete

    # --- members --------------------------------------------------------------------------

    async def heartbeat(
        self,
        group: ReadableGroup,
        request: ShareGroupHeartbeat,
        *,
        administers_cluster: bool = False,
    ) -> ShareGroupHeartbeatResult:
        """`administers_cluster`: whoever makes a group that is not there does."""
        command = timed(GroupMachine.share_heartbeat, request)
        return await self._groups.ask_new(group, command, administers_cluster=administers_cluster)

    async def describe(self, group: DescribableGroup | ReadableGroup) -> DescribedShareGroup:
        shard = await self._groups.state.shard_for(group)
        return await shard.execute(untimed(GroupMachine.describe_share_group, str(group)))

    async def release(self, group: ReadableGroup, member_id: str) -> None:
        """The member's session with this broker has ended: what it acquired here is for others."""
        await self._release_here(ReleaseMember(group, member_id))

    async def _release_here(self, left: ReleaseMember) -> None:
        await self._queues.registry.member_left(left.group_id, left.member_id)

    def release_soon(self, group_id: str, member_id: str) -> None:
        """As `release`; nobody waits until others have what it had acquired."""
        self._spawn(self._release_here(ReleaseMember(group_id, member_id)))

    def _member_left(self, group_id: str, member_id: str) -> None:
        """The group's coordinator knows it; what the member acquired may be with any leader."""
        self._spawn(self._release_everywhere(ReleaseMember(group_id, member_id)))

    async def _release_everywhere(self, left: ReleaseMember) -> None:
        gathered = await self._host.calls.gather(RELEASE, left)
        for failure in gathered.failures.values():
            raise failure

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(_logged(work))
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
        *,
        administers_cluster: bool = False,
    ) -> list[ShareFetched]:
        """Acquire records of the wanted partitions and read them. `administers_cluster`: who asks
        does, and its queues may use what is kept for administrators."""
        return await self._fetching.run(
            group, member_id, topics, request, administers_cluster=administers_cluster
        )

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

    async def check_empty(self, group: DeletableGroup) -> OpenedShareGroup:
        """Offsets may be changed only while the group has no members."""
        shard = await self._groups.state.shard_for(group)
        return await shard.execute(_open_empty(group, may_make=False))

    async def make_empty(
        self, group: ReadableGroup, *, administers_cluster: bool = False
    ) -> OpenedShareGroup:
        """As `check_empty`; the group is made where there is none."""
        command = _open_empty(group, may_make=True)
        return await self._groups.ask_new(group, command, administers_cluster=administers_cluster)

    async def delete_offsets(self, group: DeletableGroup, topic: ReadableTopic) -> None:
        await self._queues.delete(group, topic)
        self._share_queues.forget(group)

    async def _before_delete(self, group: DeletableGroup) -> bool:
        had_queues = await self._queues.delete(group)
        self._share_queues.forget(group)
        return had_queues


def _open_empty(group: str, *, may_make: bool) -> Command[GroupMachine, OpenedShareGroup]:
    return lambda machine, ticket, _: machine.open_empty_share_group(
        group, may_make=may_make, ticket=ticket
    )


async def _logged(work: Coroutine[None, None, None]) -> None:
    try:
        await work
    except GoQueueError as error:
        # The locks end by themselves.
        logger.info("records of a member that left are released later: %s", error)
