"""Gives the partitions on this broker the roles that the metadata says: lead, follow, or neither.

What this broker is to lead comes first, for clients wait for it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Final

from goqueue.broker.background import ended
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.model.errors import GoQueueError
from goqueue.model.names import TopicPartition
from goqueue.model.replication import Member
from goqueue.model.topics import PartitionView
from goqueue.pace import Pace
from goqueue.state.metadata_image import ImageChanges, MetadataImage

logger = logging.getLogger(__name__)

# Partitions that were opened late, when a disk had space again, take their roles then.
REVIEW_SECONDS: Final = 1.0


class Roles:
    def __init__(
        self,
        hosted: HostedPartitions,
        image: Callable[[], MetadataImage],
        me: Callable[[], Member | None],
        *,
        clock_ms: Callable[[], int],
    ) -> None:
        """`me` is who this broker is since it was admitted; None while it may neither lead nor
        follow."""
        self._hosted = hosted
        self._image = image
        self._me = me
        self._clock_ms = clock_ms
        # Under whose name the partitions have their roles.
        self._known_as: Member | None = None
        # Partitions that could not take their roles at once, with the revisions that give them.
        self._unsettled: dict[TopicPartition, int] = {}
        self._is_unsettled = asyncio.Event()
        # How many partitions there were when all of them were looked at last.
        self._reviewed = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="roles of partitions")

    async def close(self) -> None:
        await ended(self._task)

    async def learn(self, changes: ImageChanges, image: MetadataImage) -> None:
        """Before an image is seen: whoever finds a leader in it finds that it leads."""
        me = self._me()
        if me is None:
            if self._known_as is not None and self._known_as.node not in image.brokers:
                # Others go on without this broker.
                await self._stand_by()
            return
        if me == self._known_as:
            concerned = _concerned(changes)
        else:
            await self._stand_by()
            self._known_as = me
            concerned = [partition.name for partition in self._hosted]
        await self._take_roles(concerned, image, me, waits=False)

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REVIEW_SECONDS):
                    await self._is_unsettled.wait()
            self._is_unsettled.clear()
            me = self._me()
            if me is not None and me == self._known_as:
                try:
                    await self._review(me)
                except Exception:
                    self._reviewed = 0
                    logger.exception("partitions cannot take their roles; tried again")

    async def _review(self, me: Member) -> None:
        """What `learn` could not do: some were being cut, some were not open yet."""
        names: Iterable[TopicPartition] = tuple(self._unsettled)
        if self._reviewed != len(self._hosted):
            self._reviewed = len(self._hosted)
            names = [partition.name for partition in self._hosted]
        if names:
            image = self._image()
            await self._take_roles(names, image, me, waits=True)
            # The image may still be older than the one that they are to learn.
            self._unsettled = {
                name: revision
                for name, revision in self._unsettled.items()
                if self._is_to_come(name, revision, image)
            }

    def _is_to_come(self, name: TopicPartition, revision: int, image: MetadataImage) -> bool:
        partition = self._hosted.get(*name)
        return name.topic in image.topics if partition is None else not partition.knows(revision)

    async def _stand_by(self) -> None:
        """Nothing that was promised under an earlier registration counts any more."""
        if self._known_as is not None:
            for partition in self._hosted:
                await partition.stand_by()
                while partition.led is not None or partition.following is not None:
                    # It waited for its log to be cut, and took a role then.
                    await partition.stand_by()
        self._known_as = None

    async def _take_roles(
        self, names: Iterable[TopicPartition], image: MetadataImage, me: Member, *, waits: bool
    ) -> None:
        """`waits`: also for logs that are being cut; else they are left for later."""
        leading: list[tuple[HostedPartition, PartitionView]] = []
        others: list[tuple[HostedPartition, PartitionView]] = []
        topics = image.topics
        for name in names:
            topic, partition = topics.get(name.topic), self._hosted.get(*name)
            if topic is None or name.partition >= len(topic.partitions):
                continue
            view = topic.partitions[name.partition]
            if partition is None:
                if me.node in view.replicas:
                    self._unsettled[name] = view.revision
                continue
            if partition.knows(view.revision):
                continue
            if view.is_known and partition.log.topic_id == topic.id:
                (leading if view.leader == me.node else others).append((partition, view))
        pace = Pace()
        for partition, view in (*leading, *others):
            if self._me() != me:
                # It stepped down meanwhile, or registered anew.
                return
            if not waits and partition.is_being_cut:
                self._unsettled[partition.name] = view.revision
                self._is_unsettled.set()
                continue
            await self._take_role(partition, view, me)
            if pace.is_over:
                await pace.rest()

    async def _take_role(self, partition: HostedPartition, view: PartitionView, me: Member) -> None:
        try:
            await partition.learn(view.state, view.revision, me, now_ms=self._clock_ms())
        except GoQueueError as error:
            logger.error("%s: cannot take its role: %s", partition.name, error)
        except Exception:
            # The others must not wait for it.
            logger.exception("%s: cannot take its role", partition.name)


def _concerned(changes: ImageChanges) -> list[TopicPartition]:
    return [
        *changes.partitions_added,
        *changes.partitions_changed,
        *(
            TopicPartition(topic.name, view.index)
            for topic in changes.topics_created
            for view in topic.partitions
        ),
    ]
