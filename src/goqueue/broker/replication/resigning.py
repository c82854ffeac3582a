"""Gives up partitions that this broker has and cannot work with: others have them as well.

A leader whose disk failed or is full serves nobody, and holds the place of others who could. It
leaves the in-sync set and ends its own leadership, in one write; then the controller elects one of
the others. A follower whose disk failed leaves as well, so that nobody elects it: as long as
nothing is appended, its leader does not miss it. Where there are no others, it stays: the disk may
come back. One whose disk is full has everything, but holds up the others: it leaves if enough of
them are in sync.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from goqueue.broker.background import ended
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.metadata.store import Compare, MetadataStore, Put
from goqueue.model.errors import GoQueueError
from goqueue.model.names import NodeId, TopicPartition
from goqueue.model.replication import Member, PartitionState
from goqueue.model.topics import PartitionView
from goqueue.state import metadata_keys as keys
from goqueue.state.metadata_image import MetadataImage
from goqueue.state.replication.in_sync import (
    can_resign,
    can_stand_aside,
    resigned,
    stood_aside,
)

logger = logging.getLogger(__name__)

# How long clients meet a leader that cannot serve them, at most; a look costs next to nothing.
LOOK_S: Final = 0.5
# etcd takes 128 comparisons in a transaction.
TOGETHER_MAX: Final = 100


# Before a partition is left again for a disk that is full: if the others' are full as well, it
# would go round among them, for nothing. Twice as long each time, up to the longest.
AGAIN_AFTER_S: Final = 5.0
AGAIN_AFTER_MAX_S: Final = 300.0


class _Given(NamedTuple):
    name: TopicPartition
    view: PartitionView
    state: PartitionState


class _Left(NamedTuple):
    """When a partition was left for a full disk, and how long it is not left again."""

    at_s: float
    rest_s: float


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
        # Failed appends of each partition when that was first seen, such as for a full disk.
        self._failing: dict[TopicPartition, int] = {}
        self._left: dict[TopicPartition, _Left] = {}
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
            given = [*self._useless(me), *self._in_the_way(me)]
            try:
                for begin in range(0, len(given), TOGETHER_MAX):
                    await self._give_up(given[begin : begin + TOGETHER_MAX], me)
            except GoQueueError as error:
                logger.warning("partitions are not given up: %s", error)

    def _useless(self, me: Member) -> Iterator[_Given]:
        """Those whose logs cannot be used."""
        present = self._present()
        for name in self._hosted.offline:
            view = self._view(name)
            if (
                view is not None
                and can_resign(view.state, me, present)
                and (view.leader == me.node or not self._is_whole(name))
            ):
                yield _Given(name, view, resigned(view.state, me))

    def _in_the_way(self, me: Member) -> Iterator[_Given]:
        """Those whose logs are whole, and take nothing more: one failure may have passed."""
        failing = {
            partition.name: partition.log.append_failures
            for partition in self._hosted
            if partition.log.append_failures and partition.offline_error is None
        }
        known = self._failing
        self._failing = {name: known.get(name, count) for name, count in failing.items()}
        present, now_s = self._present(), asyncio.get_running_loop().time()
        for name, count in failing.items():
            left, view = self._left.get(name), self._view(name)
            if (
                view is not None
                and count > self._failing[name]
                and (left is None or now_s > left.at_s + left.rest_s)
                and can_stand_aside(view.state, me, present)
            ):
                yield _Given(name, view, stood_aside(view.state, me))
        for name, left in list(self._left.items()):
            if name not in failing and now_s > left.at_s + 2 * AGAIN_AFTER_MAX_S:
                del self._left[name]

    def _note_left(self, name: TopicPartition) -> None:
        before = self._left.get(name)
        rest_s = AGAIN_AFTER_S if before is None else 2 * before.rest_s
        now_s = asyncio.get_running_loop().time()
        self._left[name] = _Left(now_s, min(rest_s, AGAIN_AFTER_MAX_S))

    def _present(self) -> dict[NodeId, int]:
        return {node: broker.epoch for node, broker in self._image().brokers.items()}

    def _view(self, name: TopicPartition) -> PartitionView | None:
        topic = self._image().topics.get(name.topic)
        if topic is None or name.partition >= len(topic.partitions):
            return None
        return topic.partitions[name.partition]

    def _is_whole(self, name: TopicPartition) -> bool:
        """It stopped because its leader lacks something: what it has may be all that is left."""
        partition = self._hosted.get(*name)
        return partition is not None and partition.log.offline_reason is None

    async def _give_up(self, given: Sequence[_Given], me: Member) -> None:
        compares = [Compare.unchanged(keys.broker_key(me.node), me.broker_epoch)]
        puts = []
        for name, view, state in given:
            entry = keys.partition_entry(*name, state)
            compares.append(Compare.unchanged(entry.key, view.revision))
            puts.append(Put(*entry))
        if (await self._store.transact(compares, puts)).succeeded:
            logger.warning("%d partitions are given up, such as %s", len(given), given[0].name)
            for name, *_ in given:
                if name in self._failing:
                    self._note_left(name)
        elif len(given) > 1:
            # One of them changed meanwhile: the others need not wait for it.
            half = len(given) // 2
            await self._give_up(given[:half], me)
            await self._give_up(given[half:], me)
