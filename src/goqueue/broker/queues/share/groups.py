"""Share groups (KIP-932) on this broker: members from the group coordinator, records from queues.

A share group's partition is a queue of the engine that SQS and HTTP use too; Kafka's words for
what happens there are acquisition, lock and delivery count.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Final, Protocol, cast
from uuid import UUID

from goqueue.broker.groups.configs import GroupConfigs
from goqueue.broker.groups.groups import Groups
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues.queues import Queues, Start
from goqueue.broker.queues.share.fetching import ShareFetch, ShareFetched
from goqueue.broker.queues.share.waiting import ShareWaiting
from goqueue.broker.runtime.shard import timed, untimed
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.groups.config import GroupConfig
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.share_messages import (
    DescribedShareGroup,
    OpenedShareGroup,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResult,
)
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import Acknowledged, Acknowledgement, QueueDescription
from goqueue.model.queues.settings import QueueSettings
from goqueue.model.topics import TopicView
from goqueue.state.groups.coordinator import GroupMachine
from goqueue.state.metadata_image import MetadataImage

logger = logging.getLogger(__name__)

# Groups times topics of which is known that their queues are open; beyond, all are looked at again.
OPENED_MAX: Final = 10_000


class ShareHost(Protocol):
    """The part of the broker that share groups stand on."""

    @property
    def image(self) -> MetadataImage: ...
    def topic(self, name: str) -> TopicView: ...
    def partition(self, topic: str, index: int) -> Partition: ...
    def clock_ms(self) -> int: ...


class ShareGroups:
    def __init__(
        self, host: ShareHost, groups: Groups, queues: Queues, configs: GroupConfigs
    ) -> None:
        self._host = host
        self._groups = groups
        self._queues = queues
        self._configs = configs
        self.waiting = ShareWaiting(queues.waiting)
        # What a group's queues of a topic were last opened with.
        self._opened: dict[tuple[str, UUID], tuple[object, ...]] = {}
        self._work: set[asyncio.Task[None]] = set()
        groups.share_member_left = self._member_left
        groups.before_delete = self._before_delete

    # --- members --------------------------------------------------------------------------

    async def heartbeat(self, request: ShareGroupHeartbeat) -> ShareGroupHeartbeatResult:
        shard = await self._groups.state.shard_for(request.group_id)
        return await shard.execute(timed(GroupMachine.share_heartbeat, request))

    async def describe(self, group_id: str) -> DescribedShareGroup:
        shard = await self._groups.state.shard_for(group_id)
        return await shard.execute(untimed(GroupMachine.describe_share_group, group_id))

    def _member_left(self, group_id: str, member_id: str) -> None:
        self._spawn(self._queues.member_left(group_id, member_id))

    async def release(self, group_id: str, member_id: str) -> None:
        """The member's session has ended: what it has acquired is for others."""
        await self._queues.member_left(group_id, member_id)

    def release_soon(self, group_id: str, member_id: str) -> None:
        """As `release`, for those who cannot wait."""
        self._member_left(group_id, member_id)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(_logged(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def close(self) -> None:
        for task in self._work:
            task.cancel()

    # --- records --------------------------------------------------------------------------

    def config_of(self, group_id: str) -> GroupConfig:
        return self._configs.of(group_id)

    async def fetch(self, request: ShareFetch) -> list[ShareFetched]:
        """Acquire records of the wanted partitions and read them; one answer for each."""
        return await request.run(self._host, self._queues, self)

    async def acknowledge(
        self,
        group_id: str,
        member_id: str,
        topic: str,
        index: int,
        items: Sequence[Acknowledgement],
    ) -> QueueError:
        """All of it or nothing: one that is not right spoils the others, as in Kafka."""
        self._host.partition(topic, index)
        answer: Acknowledged = await self._queues.acknowledge(
            group_id, topic, index, items, member=member_id, is_atomic=True
        )
        return answer.error

    async def open(self, group_id: str, topic: TopicView) -> None:
        """Have a queue for each partition, with the settings that hold now."""
        config = self._configs.of(group_id)
        # What the settings are made from; each is another object when something changed.
        made_from = (topic, config, self._host.image.broker_configs)
        key = (group_id, topic.id)
        known = self._opened.get(key)
        if known is not None and all(a is b for a, b in zip(known, made_from, strict=True)):
            return
        await self._queues.open(
            group_id,
            topic.name,
            start=cast(Start, config.share_start(self._host.clock_ms())),
            settings=self._settings(topic, config),
        )
        if len(self._opened) >= OPENED_MAX:
            self._opened.clear()
        self._opened[key] = made_from

    def forget_opened(self, group_id: str) -> None:
        """A queue was not there: look at all of the group's again."""
        for key in [key for key in self._opened if key[0] == group_id]:
            del self._opened[key]

    def _settings(self, topic: TopicView, config: GroupConfig) -> QueueSettings:
        """The topic's (priorities, dead letters, time to live), with the group's locks."""
        own: dict[str, int] = {
            "lease_ms": config.share_record_lock_duration_ms,
            "max_deliveries": config.share_delivery_count_limit,
            "max_in_flight": config.share_partition_max_record_locks,
            # A member's part of the locks is not limited in Kafka.
            "max_in_flight_per_member": 2**31 - 1,
        }
        settings = self._queues.settings_of(topic)
        return QueueSettings(
            **{name: getattr(settings, name) for name in settings.__struct_fields__} | own
        )

    # --- offsets --------------------------------------------------------------------------

    async def describe_offsets(self, group_id: str, topic: str) -> list[QueueDescription]:
        """One per partition."""
        return await self._queues.describe(group_id, topic)

    def topics_of(self, group_id: str) -> list[TopicView]:
        """Topics that the group has read or had its offsets set in."""
        topics = self._host.image.topics_by_id
        ids = {key.topic_id for key in self._queues.list_queues(group_id)}
        return [topics[topic_id] for topic_id in sorted(ids) if topic_id in topics]

    async def check_empty(self, group_id: str, *, may_make: bool) -> OpenedShareGroup:
        """Offsets may be changed only while the group has no members."""
        shard = await self._groups.state.shard_for(group_id)
        return await shard.execute(
            lambda machine, ticket, _: machine.open_empty_share_group(
                group_id, may_make=may_make, ticket=ticket
            )
        )

    async def alter_offset(self, group_id: str, topic: str, index: int, offset: int) -> None:
        """Begin anew at `offset`. The caller has made sure that the group is empty."""
        self._host.partition(topic, index)
        if offset < 0:
            raise InvalidRequest(f"start offset {offset} is below 0")
        await self.open(group_id, self._host.topic(topic))
        await self._queues.reset(group_id, topic, index, offset)

    async def delete_offsets(self, group_id: str, topic: str) -> None:
        await self._queues.delete(group=group_id, topic=topic)
        self.forget_opened(group_id)

    async def _before_delete(self, group_id: str) -> None:
        """First what was acknowledged, then the group: a crash in between can be done again."""
        found = await self.check_empty(group_id, may_make=False)
        if found.error is GroupError.NONE:
            await self._queues.delete(group=group_id)
            self.forget_opened(group_id)


async def _logged(work: Coroutine[None, None, None]) -> None:
    try:
        await work
    except GoQueueError as error:
        # The locks end by themselves.
        logger.info("records of a member that left are released later: %s", error)
