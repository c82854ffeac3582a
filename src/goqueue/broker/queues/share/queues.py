"""The queues of share groups: opened when they are first wanted, with today's settings."""

from contextlib import suppress
from typing import Final, cast
from uuid import UUID

import msgspec

from goqueue.broker.groups.configs import GroupConfigs
from goqueue.broker.queues.registry import QueueRegistry
from goqueue.broker.queues.share.host import ShareHost
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.config import GroupConfig
from goqueue.model.queues.messages import Start
from goqueue.model.rights import ReadableGroup, ReadableTopic

# Groups times topics of which is known that their queues are open; beyond, all are looked at again.
OPENED_MAX: Final = 10_000


class ShareQueues:
    def __init__(self, host: ShareHost, registry: QueueRegistry, configs: GroupConfigs) -> None:
        self._host = host
        self._registry = registry
        self._configs = configs
        # What a group's queues of a topic were last opened with.
        self._opened: dict[tuple[str, UUID], tuple[object, ...]] = {}

    def config_of(self, group_id: str) -> GroupConfig:
        return self._configs.of(group_id)

    async def open(
        self, group: ReadableGroup, topic: ReadableTopic, *, administers_cluster: bool = False
    ) -> None:
        """Have a queue for each partition, with the settings that hold now. `administers_cluster`:
        who asks does."""
        view = self._host.topic(topic)
        config = self._configs.of(group)
        # What the settings are made from; each is another object when something changed.
        made_from = (view, config, self._host.image.broker_configs)
        key = (group, view.id)
        known = self._opened.get(key)
        if known is not None and all(a is b for a, b in zip(known, made_from, strict=True)):
            return
        own: dict[str, int] = {
            "lease_ms": config.share_record_lock_duration_ms,
            "max_deliveries": config.share_delivery_count_limit,
            "max_in_flight": config.share_partition_max_record_locks,
            # A member's part of the locks is not limited in Kafka.
            "max_in_flight_per_member": 2**31 - 1,
        }
        start = cast(Start, config.share_start(self._host.clock_ms()))
        # The topic's (priorities, dead letters, time to live), with the group's locks.
        settings = msgspec.structs.replace(self._registry.settings_of(view), **own)
        if not self._host.is_alone:
            # A group that begins at the end begins everywhere now, not when it first reads there.
            with suppress(GoQueueError):
                await self._registry.open_elsewhere(
                    group,
                    topic,
                    start=start,
                    settings=settings,
                    administers_cluster=administers_cluster,
                )
        await self._registry.open(
            group,
            topic,
            start=start,
            settings=settings,
            administers_cluster=administers_cluster,
        )
        if config.share_isolation_level == "read_uncommitted":
            self._registry.reads_uncommitted.add(group)
        else:
            self._registry.reads_uncommitted.discard(group)
        if len(self._opened) >= OPENED_MAX:
            self._opened.clear()
        self._opened[key] = made_from

    def forget_topic(self, topic_id: UUID) -> None:
        for key in [key for key in self._opened if key[1] == topic_id]:
            del self._opened[key]

    def forget(self, group_id: str) -> None:
        """A queue was not there: look at all of the group's again."""
        for key in [key for key in self._opened if key[0] == group_id]:
            del self._opened[key]
