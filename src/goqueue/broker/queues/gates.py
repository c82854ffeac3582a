"""Queues of partitions that were split off others: shut until the others' queues are far enough.

A message of a child is delivered to a group only when everything in the parent below the parent's
end is settled for the group: acknowledged, or given up. The child's leader decides it, and asks the
parent's leader how far the group is there, again and again for as long as somebody wants messages.
What was open once stays open for as long as this broker leads the child.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

from goqueue.broker.own_grants import OwnWork, own_group, own_read
from goqueue.broker.queues.describing import QueueDescribing
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.registry import QueueRegistry
from goqueue.broker.queues.waiting import QueueLines
from goqueue.model.errors import GoQueueError
from goqueue.model.layouts import Split, withheld
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.messages import QueueKey, Start
from goqueue.model.topics import TopicView

logger = logging.getLogger(__name__)

# Between two questions to the leaders of parents; a question costs each some microseconds.
_LOOK_S: Final = 0.1
# Readers come back within their longest wait of half a minute; nobody looks for those who do not.
_WANTED_S: Final = 60.0
# Queues of which is known that they are open; beyond, all are looked at again.
_OPEN_MAX: Final = 100_000


class QueueGates:
    def __init__(
        self,
        host: QueueHost,
        registry: QueueRegistry,
        describing: QueueDescribing,
        lines: QueueLines,
    ) -> None:
        self._host = host
        self._registry = registry
        self._describing = describing
        self._lines = lines
        self._open: set[QueueKey] = set()
        # How often something was forgotten: what was asked before is then not to be gone by.
        self._forgotten = 0
        # Queues that readers want messages of, and when they last did.
        self._wanted_s: dict[QueueKey, float] = {}
        self._watched: set[tuple[str, UUID]] = set()
        registry.child_start = self._child_start

    def readable(self, key: QueueKey, offsets: OffsetRange) -> OffsetRange:
        """What of these offsets may be delivered: all or nothing."""
        topic = self._host.image.topics_by_id.get(key.topic_id)
        if topic is None or not topic.splits or key in self._open or not _is_child(topic, key):
            return offsets
        self._wanted_s[key] = asyncio.get_running_loop().time()
        watch = (key.group, key.topic_id)
        if watch not in self._watched:
            self._watched.add(watch)
            self._registry.spawn(self._watch(key.group, topic))
        return OffsetRange(offsets.start, offsets.start)

    def forget(self, concerns: Callable[[QueueKey], bool]) -> None:
        self._forgotten += 1
        self._open = {key for key in self._open if not concerns(key)}

    # --- opening --------------------------------------------------------------------------

    async def _watch(self, group: str, topic: TopicView) -> None:
        """Until all that is wanted is open, or nobody wants it any more."""
        try:
            while self._still_wanted(group, topic.id):
                try:
                    await self._look(group, topic.name, topic.id)
                except GoQueueError as error:
                    logger.debug("how far %s is in %s is not known: %s", group, topic.name, error)
                await asyncio.sleep(_LOOK_S)
        finally:
            self._watched.discard((group, topic.id))

    def _still_wanted(self, group: str, topic_id: UUID) -> list[QueueKey]:
        since_s = asyncio.get_running_loop().time() - _WANTED_S
        self._wanted_s = {key: at_s for key, at_s in self._wanted_s.items() if at_s >= since_s}
        if topic_id not in self._host.image.topics_by_id:
            return []
        return [key for key in self._wanted_s if (key.group, key.topic_id) == (group, topic_id)]

    async def _look(self, group: str, topic: str, topic_id: UUID) -> None:
        forgotten = self._forgotten
        floors = await self._describing.floors(
            own_group(group, OwnWork.SPLITS), own_read(topic, OwnWork.SPLITS)
        )
        view = self._host.image.topics_by_id.get(topic_id)
        if view is None or forgotten != self._forgotten:
            return
        held = withheld(view.splits, lambda parent, end: floors.get(parent, 0) >= end)
        for key in self._still_wanted(group, topic_id):
            if key.partition not in held:
                del self._wanted_s[key]
                if len(self._open) >= _OPEN_MAX:
                    self._open.clear()
                self._open.add(key)
                self._lines.wake(key)

    # --- where a child's queue begins -----------------------------------------------------

    async def _child_start(self, key: QueueKey, topic: str, start: Start) -> Start:
        """A group that read the parent before its end reads all of the child, also if it began
        with the newest message then."""
        split = _split_of(self._host.topic(topic), key.partition)
        if start == "earliest" or split is None:
            return start
        starts = await self._describing.starts(
            own_group(key.group, OwnWork.SPLITS), own_read(topic, OwnWork.SPLITS)
        )
        parent = key.partition % split.parents
        began = starts.get(parent)
        end = split.ends.get(parent)
        return start if began is None or (end is not None and began >= end) else "earliest"


def _split_of(topic: TopicView, index: int) -> Split | None:
    return next((split for split in topic.splits if split.parent_of(index) is not None), None)


def _is_child(topic: TopicView, key: QueueKey) -> bool:
    return _split_of(topic, key.partition) is not None
