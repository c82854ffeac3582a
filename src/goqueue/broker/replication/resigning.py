"""Gives up partitions that this broker has and cannot work with: others have them as well.

A leader whose disk failed or is full serves nobody, and holds the place of others who could. It
leaves the in-sync set and ends its own leadership, in one write; then the controller elects one of
the others. A follower whose disk failed leaves as well, so that nobody elects it: as long as
nothing is appended, its leader does not miss it. One whose disk is full would only hold up the
others. Where there are no others, it stays: the disk may come back.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from goqueue.broker.background import ended
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.metadata.store import Compare, MetadataStore, Put
from goqueue.model.errors import GoQueueError
from goqueue.model.names import TopicPartition
from goqueue.model.replication import Member
from goqueue.model.topics import PartitionView
from goqueue.state import metadata_keys as keys
from goqueue.state.metadata_image import MetadataImage
from goqueue.state.replication.in_sync import can_resign, resigned

logger = logging.getLogger(__name__)

# How long clients meet a leader that cannot serve them, at most; a look costs next to nothing.
LOOK_S: Final = 0.5
# etcd takes 128 comparisons in a transaction.
TOGETHER_MAX: Final = 100


class _Given(NamedTuple):
    name: TopicPartition
    view: PartitionView


class Resigning:
    def __init__(
        self,
        store: MetadataStore,
        hosted: HostedPartitions,
        image: Callable[[], MetadataImage],
        me: Callable[[], Member | None],
    ) -> None:
        self._store = store
        self._hosted = hosted
        self._image = image
        self._me = me
        # Whose appends failed at the last look, such as for a full disk.
        self._failing: set[TopicPartition] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="leaders that resign")

    async def close(self) -> None:
        await ended(self._task)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            me = self._me()
            if me is None:
                continue
            given = list(self._to_give_up(me))
            try:
                for begin in range(0, len(given), TOGETHER_MAX):
                    await self._give_up(given[begin : begin + TOGETHER_MAX], me)
            except GoQueueError as error:
                logger.warning("partitions are not given up: %s", error)

    def _to_give_up(self, me: Member) -> Iterator[_Given]:
        image = self._image()
        present = {node: broker.epoch for node, broker in image.brokers.items()}
        failing = {partition.name for partition in self._hosted if partition.log.append_failure}
        # It may have passed: who fails twice in a row goes.
        lasting, self._failing = failing & self._failing, failing
        for name in self._hosted.offline.keys() | lasting:
            topic = image.topics.get(name.topic)
            if topic is not None and name.partition < len(topic.partitions):
                view = topic.partitions[name.partition]
                if can_resign(view.state, me, present) and (
                    view.leader == me.node or name in lasting or not self._is_whole(name)
                ):
                    yield _Given(name, view)

    def _is_whole(self, name: TopicPartition) -> bool:
        """It stopped because its leader lacks something: what it has may be all that is left."""
        partition = self._hosted.get(*name)
        return partition is not None and partition.log.offline_reason is None

    async def _give_up(self, given: Sequence[_Given], me: Member) -> None:
        compares = [Compare.unchanged(keys.broker_key(me.node), me.broker_epoch)]
        puts = []
        for name, view in given:
            entry = keys.partition_entry(*name, resigned(view.state, me))
            compares.append(Compare.unchanged(entry.key, view.revision))
            puts.append(Put(*entry))
        if (await self._store.transact(compares, puts)).succeeded:
            logger.warning("%d partitions are given up, such as %s", len(given), given[0].name)
            for name, _ in given:
                if (partition := self._hosted.get(*name)) is not None:
                    # Who has nothing to append until then may be in sync again.
                    partition.log.append_failure = None
        elif len(given) > 1:
            # One of them changed meanwhile: the others need not wait for it.
            half = len(given) // 2
            await self._give_up(given[:half], me)
            await self._give_up(given[half:], me)
