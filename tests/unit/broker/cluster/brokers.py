"""Brokers of a cluster as far as their metadata goes: no logs, no doors, one store for all."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from uuid import UUID

import pytest

from goqueue.broker.cluster import Cluster
from goqueue.broker.membership.identity_file import IdentityFile
from goqueue.broker.peers.connections import Peers
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.local import LocalStore
from goqueue.metadata.store import Put
from goqueue.model.broker_config import broker_config
from goqueue.model.names import NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.model.topics import PartitionView, TopicView
from goqueue.state import metadata_keys as keys
from goqueue.state.controller.commit_settings import CommitSettings
from goqueue.state.metadata_image import ImageChanges, MetadataImage
from goqueue.storage.disk import Disk
from tests.busy_machine import patience

CLUSTER_ID = "one"
TOPIC = "orders"
TOPIC_ID = UUID(int=7)


class OneBroker:
    """Starts as a process does; `kill` is its end by kill -9, as others see it."""

    def __init__(self, store: LocalStore, folder: Path, node_id: int) -> None:
        folder.mkdir(exist_ok=True)
        self.store = store
        self.node_id = NodeId(node_id)
        self.follower = MetadataFollower(store, prepare=self._prepare, react=self._react)
        self.commits: CommitSettings | None = None
        self.identity = IdentityFile.open(Disk(), folder / "node.json", self.node_id)
        self.cluster = Cluster(
            broker_config({"node.id": str(node_id), "controlled.shutdown.timeout.ms": "60000"}),
            store,
            self.follower,
            self.identity,
            Peers(self.node_id, lambda: self.image),
            cluster_id=CLUSTER_ID,
            commits=lambda topic: self.commits or _as_made(topic),
        )

    async def _prepare(self, changes: ImageChanges, image: MetadataImage) -> None:
        await self.cluster.prepare(image)

    def _react(self, changes: ImageChanges, image: MetadataImage) -> None:
        self.cluster.image_changed(changes)

    @property
    def image(self) -> MetadataImage:
        return self.follower.image

    def partition(self, index: int = 0) -> PartitionView:
        return self.image.topics[TOPIC].partitions[index]

    async def start(
        self, *, has_lost: bool = False, host: str = "127.0.0.1", port: int = 1
    ) -> None:
        await self.follower.load()
        self.follower.start()
        self.identity.begin(has_lost=has_lost)
        await self.cluster.join(keys.BrokerValue(host=host, kafka_port=port, http_port=1))

    async def until(self, is_so: Callable[[MetadataImage], bool]) -> None:
        while not is_so(self.image):
            await asyncio.sleep(0.005)

    async def kill(self) -> None:
        lease = self.cluster.membership.lease
        await self.cluster.stop()
        await self.follower.stop()
        await self.store.revoke(lease)

    async def stop(self) -> None:
        await self.cluster.hand_over()
        await self.cluster.stop()
        await self.follower.stop()
        await self.cluster.leave(in_order=True)


class Brokers:
    def __init__(self, store: LocalStore, folder: Path) -> None:
        self.store = store
        self._folder = folder
        self.running: list[OneBroker] = []

    def new(self, node_id: int, *, folder: str | None = None) -> OneBroker:
        broker = OneBroker(self.store, self._folder / (folder or f"n{node_id}"), node_id)
        self.running.append(broker)
        return broker

    async def start(self, *node_ids: int) -> list[OneBroker]:
        brokers = [self.new(node_id) for node_id in node_ids]
        for broker in brokers:
            await broker.start()
        return brokers

    async def put_partition(self, index: int, state: PartitionState) -> int:
        return await self.store.put(*keys.partition_entry(TOPIC, index, state))

    async def make_topic(
        self,
        replicas: list[tuple[int, ...]],
        in_sync: list[Member],
        *,
        name: str = TOPIC,
        topic_id: UUID = TOPIC_ID,
    ) -> int:
        """A topic with these replicas; those of them that are in sync."""
        value = keys.TopicValue(id=topic_id, partitions=len(replicas))
        entries = [keys.topic_entry(name, value)]
        for index, nodes in enumerate(replicas):
            members = tuple(m for node in nodes for m in in_sync if m.node == node)
            state = PartitionState(
                leader=NodeId(nodes[0]),
                leader_epoch=0,
                replicas=tuple(map(NodeId, nodes)),
                in_sync=members,
                min_in_sync=min(2, len(nodes)),
            )
            entries.append(keys.partition_entry(name, index, state))
        done = await self.store.transact((), [Put(*entry) for entry in entries])
        for broker in self.running:
            await broker.follower.applied(done.revision)
        return done.revision


Scenario = Callable[[Brokers], Awaitable[None]]


def with_brokers(scenario: Scenario) -> Callable[[Path], None]:
    """Runs a scenario on a store of its own, and ends its brokers."""

    @wraps(scenario)
    def run(tmp_path: Path) -> None:
        async def on_loop() -> None:
            store = await LocalStore.open(tmp_path / "store")
            await store.put(*keys.cluster_id_entry(CLUSTER_ID))
            brokers = Brokers(store, tmp_path)
            try:
                async with asyncio.timeout(patience(60)):
                    await scenario(brokers)
            finally:
                for broker in brokers.running:
                    await broker.cluster.stop()
                    await broker.follower.stop()
                await store.close()

        asyncio.run(on_loop())

    # pytest asks for what the scenario's own arguments are called.
    del run.__wrapped__
    return run


def _as_made(topic: TopicView) -> CommitSettings:
    return CommitSettings(topic.partitions[0].state.min_in_sync, is_flushed=False)


def member_of(broker: OneBroker) -> Member:
    me = broker.cluster.membership.me
    if me is None:
        pytest.fail(f"node {broker.node_id} is not admitted")
    return me
