"""Partitions that cannot take their roles at once take them as soon as they can."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.replication import roles
from goqueue.broker.replication.roles import Roles
from goqueue.model.names import NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.state import metadata_keys as keys
from goqueue.state.metadata_image import ImageChanges, MetadataImage
from tests.busy_machine import stretched
from tests.replicas import NAME, TOPIC_ID, Replicas

ME = Member(NodeId(0), 100)


class Opened:
    """Partitions that are open."""

    def __init__(self) -> None:
        self.partitions: dict[tuple[str, int], HostedPartition] = {}

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(self.partitions.values())

    def __len__(self) -> int:
        return len(self.partitions)

    def get(self, topic: str, index: int) -> HostedPartition | None:
        return self.partitions.get((topic, index))


class Scene:
    def __init__(self, folder: Path) -> None:
        self.replicas = Replicas(folder, nodes=1, min_in_sync=1)
        self.partition = self.replicas[0]
        self.opened = Opened()
        self.image = MetadataImage.empty()
        self.roles = Roles(
            cast(HostedPartitions, self.opened), lambda: self.image, lambda: ME, clock_ms=lambda: 0
        )

    def open(self) -> None:
        self.opened.partitions[NAME.topic, NAME.partition] = self.partition

    def elected(self, revision: int) -> tuple[MetadataImage, ImageChanges]:
        """What the metadata says after this broker was elected at `revision`."""
        state = PartitionState(
            leader=ME.node, leader_epoch=revision, replicas=(ME.node,), in_sync=(ME,)
        )
        topic = keys.topic_entry(NAME.topic, keys.TopicValue(id=TOPIC_ID, partitions=1))
        partition = keys.partition_entry(*NAME, state)
        return self.image.apply(revision, [(*topic, revision), (*partition, revision)])

    def leads(self, revision: int) -> bool:
        return self.partition.led is not None and self.partition.leader_epoch == revision


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    made = Scene(folder)
    made.roles.start()
    try:
        yield made
    finally:
        await made.roles.close()
        await made.replicas.close()


@pytest.fixture(autouse=True)
def frequent_reviews(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "REVIEW_SECONDS", 0.01)


async def until_it_leads(scene: Scene, revision: int) -> None:
    async with asyncio.timeout(stretched(10)):
        while not scene.leads(revision):
            await asyncio.sleep(0.01)


def test_one_that_is_opened_late(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(tmp_path) as it:
            image, changes = it.elected(5)
            await it.roles.learn(changes, image)
            it.image = image
            later, changes = it.elected(6)
            await it.roles.learn(changes, later)
            # Opened and looked at while the image that was learned is not seen yet.
            it.open()
            await until_it_leads(it, 5)
            it.image = later
            await until_it_leads(it, 6)

    asyncio.run(run())


def test_one_that_is_being_cut(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(tmp_path) as it:
            it.open()
            it.image, changes = it.elected(5)
            await it.roles.learn(changes, it.image)
            assert it.leads(5)
            is_cut = asyncio.Event()
            loop = asyncio.get_running_loop()
            cut = it.partition._cut(lambda: _wait(loop, is_cut), from_offset=0)
            cutting = asyncio.create_task(cut)
            while not it.partition.is_being_cut:
                await asyncio.sleep(0)
            later, changes = it.elected(6)
            await it.roles.learn(changes, later)
            assert not it.leads(6)
            await asyncio.sleep(0.05)
            it.image = later
            is_cut.set()
            await cutting
            await until_it_leads(it, 6)

    asyncio.run(run())


def _wait(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    asyncio.run_coroutine_threadsafe(event.wait(), loop).result()
