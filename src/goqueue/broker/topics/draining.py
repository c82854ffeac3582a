"""From a split until all its readers can go by it: producers learn of it, parents' ends are stored.

Every broker does this for what it leads, from the moment it hears of the split; so a new leader, or
a broker that restarts, gives producers the whole time again, and no two clocks are compared.

A produce request does not tell how many partitions its sender knows. So each connection is refused
for a moment, once: its client then asks for the metadata, and repeats what was refused in the
parent, which takes everything all the time. What a client sent to a parent before it knew of the
split is there when the time is over, and below the parent's end.
"""

import asyncio
import logging
from collections.abc import Hashable, Iterable
from functools import partial
from math import inf
from typing import Final, NamedTuple
from uuid import UUID
from weakref import WeakKeyDictionary

from goqueue.broker.calls.news import News
from goqueue.broker.partitions.leading import LedPartitions
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.broker.topics.parent_ends import ParentEnds
from goqueue.model.batch import Buffer
from goqueue.model.errors import GoQueueError, LayoutChanged, UnknownTopic
from goqueue.model.layouts import Split
from goqueue.model.topics import TopicView
from goqueue.state.metadata_image import ImageChanges

logger = logging.getLogger(__name__)

# A broker that tells clients of fewer partitions would undo what they learn. One that hangs or is
# cut off is gone within seconds; one that is there and is not told keeps nobody longer than this.
_TOLD_MAX_S: Final = 60.0
# Before anyone is refused: who hears of the split by itself need not be. Where there is little time
# to learn, a tenth of it.
_FENCE_AFTER_S: Final = 1.0
# Requests that were on their way with the refused one must not overtake it; clients repeat after
# 100 ms, give or take a fifth.
_REFUSED_FOR_S: Final = 0.05
# What was refused comes again within this time.
_CALM_S: Final = 1.0
# Between looks at parents that others lead, or nobody.
_AGAIN_S: Final = 0.25


class _Fence:
    def __init__(self, split: Split, from_s: float) -> None:
        self.parents = split.parents
        self.from_s = from_s
        # When each connection was first refused, and when the last of them.
        self._refused_s: WeakKeyDictionary[Hashable, float] = WeakKeyDictionary()
        self.last_s = from_s

    def knows(self, connection: Hashable) -> None:
        """Who writes to a child has heard of the split."""
        self._refused_s.setdefault(connection, -inf)

    def refuses(self, connection: Hashable, now_s: float) -> bool:
        if now_s < self.from_s:
            return False
        since_s = self._refused_s.get(connection)
        if since_s is None:
            since_s = self._refused_s[connection] = self.last_s = now_s
        return now_s < since_s + _REFUSED_FOR_S


class _Led(NamedTuple):
    epoch: int
    since_s: float


class Draining:
    def __init__(
        self, changes: KeyChanges, follower: MetadataFollower, led: LedPartitions, news: News
    ) -> None:
        self._follower = follower
        self._news = news
        self._led = led
        self.ends = ParentEnds(changes, follower, led)
        self._fences: dict[str, _Fence] = {}
        self._tasks: dict[tuple[UUID, int], asyncio.Task[None]] = {}

    def start(self) -> None:
        """With what was not over when the broker stopped."""
        self._take_up(self._follower.image.topics.values())
        self.ends.start()

    def image_changed(self, changes: ImageChanges) -> None:
        self._take_up(changes.topics_split)
        for topic in changes.topics_deleted:
            self._fences.pop(topic.name, None)

    async def close(self) -> None:
        await self.ends.close()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- producers ------------------------------------------------------------------------

    def check(self, topic: str, index: int, connection: Hashable, records: Buffer) -> None:
        """Refuse a producer that may not know of a split. What it sent behind that is refused until
        it comes again: a partition takes any first batch of a producer that it does not know, and
        a client that hears of the second takes the first for stored."""
        if not self._fences:
            return
        fence = self._fences.get(topic)
        if fence is None:
            return
        if index >= fence.parents:
            fence.knows(connection)
        elif fence.refuses(connection, asyncio.get_running_loop().time()):
            error = LayoutChanged(
                f"topic {topic!r} was split; ask for its partitions, and send again"
            )
            self._led.find(topic, index).refused(records, error)
            raise error

    # --- parents --------------------------------------------------------------------------

    def _take_up(self, topics: Iterable[TopicView]) -> None:
        for topic in topics:
            split = topic.splits[-1] if topic.splits else None
            if split is None or not split.is_draining:
                continue
            name = (topic.id, split.epoch)
            if name not in self._tasks:
                task = asyncio.create_task(self._drain(topic.id, topic.name, split))
                self._tasks[name] = task
                task.add_done_callback(partial(self._done, name))

    def _done(self, name: tuple[UUID, int], _: "asyncio.Task[None]") -> None:
        del self._tasks[name]

    async def _drain(self, topic_id: UUID, name: str, split: Split) -> None:
        loop, drain_s = asyncio.get_running_loop(), split.drain_ms / 1_000
        if not await self._news.told_all(_TOLD_MAX_S):
            logger.warning("not all brokers know of the split of %s; it goes on without them", name)
        begun_s = loop.time()
        led_since: dict[int, _Led] = {}
        self._note_led(name, split, led_since)
        fence = _Fence(split, begun_s + min(_FENCE_AFTER_S, drain_s / 10))
        self._fences[name] = fence
        try:
            await asyncio.sleep(drain_s)
            # Who was told only now has still to repeat what was refused; but there is an end to it.
            calm_s = min(_CALM_S, drain_s / 4)
            while (now_s := loop.time()) < begun_s + 2 * drain_s:
                if now_s >= fence.last_s + calm_s:
                    break
                await asyncio.sleep(calm_s / 4)
            await self._store_ends(topic_id, name, split, led_since)
        finally:
            if self._fences.get(name) is fence:
                del self._fences[name]

    def _note_led(self, name: str, split: Split, led_since: dict[int, _Led]) -> None:
        now_s = asyncio.get_running_loop().time()
        for index in range(split.parents):
            try:
                epoch = self._led.find(name, index).leader_epoch
            except GoQueueError:
                led_since.pop(index, None)
                continue
            if index not in led_since or led_since[index].epoch != epoch:
                led_since[index] = _Led(epoch, now_s)

    async def _store_ends(
        self, topic_id: UUID, name: str, split: Split, led_since: dict[int, _Led]
    ) -> None:
        """What producers could not send to a leader that is gone comes to the next one, in the
        parent, however much they have learnt: it gives them the whole time again."""
        while (missing := self._missing(topic_id, split.epoch)) is not None:
            try:
                self._note_led(name, split, led_since)
                given_s = asyncio.get_running_loop().time() - split.drain_ms / 1_000
                ready = [i for i in missing if i in led_since and led_since[i].since_s <= given_s]
                if await self.ends.tell(topic_id, name, split.epoch, ready):
                    continue
            except UnknownTopic:
                return
            except GoQueueError as error:
                logger.debug("the split of %s is not over yet, tried again: %s", name, error)
            except Exception:
                logger.exception("the split of %s is not over yet, tried again", name)
            await asyncio.sleep(_AGAIN_S)

    def _missing(self, topic_id: UUID, epoch: int) -> list[int] | None:
        """Parents whose ends nobody has told; None when there is nothing left to do."""
        topic = self._follower.image.topics_by_id.get(topic_id)
        for split in () if topic is None else topic.splits:
            if split.epoch == epoch and split.is_draining:
                return [index for index in range(split.parents) if index not in split.ends]
        return None
