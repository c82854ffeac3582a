"""Replication on one broker of a cluster: roles, fetchers and proposals, wired together."""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.replication.fetcher import Address, Fetcher, FetchLimits
from goqueue.broker.replication.proposals import Proposals
from goqueue.broker.replication.racks import Racks
from goqueue.broker.replication.resigning import Resigning
from goqueue.broker.replication.roles import Roles
from goqueue.broker.replication.throttling import Throttles
from goqueue.metadata.store import MetadataStore
from goqueue.model.names import NodeId
from goqueue.model.replication import Member
from goqueue.model.replication_config import ReplicationSettings
from goqueue.state.metadata_image import ImageChanges, MetadataImage


class Replication:
    def __init__(
        self,
        settings: ReplicationSettings,
        store: MetadataStore,
        hosted: HostedPartitions,
        *,
        node_id: NodeId,
        image: Callable[[], MetadataImage],
        me: Callable[[], Member | None],
        clock_ms: Callable[[], int],
    ) -> None:
        self._hosted = hosted
        self._image = image
        self._me = me
        self._limits = FetchLimits(
            max_wait_ms=settings.replica_fetch_wait_max_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
            part_max_bytes=settings.replica_fetch_max_bytes,
        )
        self.throttles = Throttles(node_id, image)
        self._fetchers: dict[NodeId, Fetcher] = {}
        self._following: dict[HostedPartition, NodeId] = {}
        self._is_leaving = False
        # None: everyone reads from leaders.
        self.racks = Racks(node_id, image) if settings.replica_selector_class else None
        # How often this broker began to lead a partition.
        self.elections = 0
        self._roles = Roles(hosted, image, me, clock_ms=clock_ms)
        self._resigning = Resigning(store, hosted, image, me)
        self.proposals = Proposals(
            store,
            self._led,
            me,
            staying=self._staying,
            clock_ms=clock_ms,
            lag_max_ms=settings.replica_lag_time_max_ms,
        )

    def start(self) -> None:
        self._hosted.role_listeners.append(self._role_changed)
        self._roles.start()
        self.proposals.start()
        self._resigning.start()

    async def prepare(self, changes: ImageChanges, image: MetadataImage) -> None:
        """Before an image is seen, and after the logs of new partitions were opened."""
        await self._roles.learn(changes, image)
        for partition in tuple(self._following) if changes.topics_deleted else ():
            if self._hosted.get(*partition.name) is not partition:
                self._unfollow(partition)
        if self._is_leaving:
            changed = (self._hosted.get(*name) for name in changes.partitions_changed)
            self._let_go((partition for partition in changed if partition is not None), image)

    def image_changed(self, changes: ImageChanges) -> None:
        if changes.nodes_changed:
            # Who caught up before the metadata told of it may join now.
            self.proposals.look_at_all()

    def leave(self) -> None:
        """This broker is about to stop: what others do not wait for is not copied any more."""
        self._is_leaving = True
        self._let_go(tuple(self._following), self._image())

    def _let_go(self, partitions: Iterable[HostedPartition], image: MetadataImage) -> None:
        me = self._me()
        for partition in partitions:
            topic = image.topics.get(partition.name.topic)
            if (
                topic is None
                or me is None
                or me.node not in topic.partitions[partition.name.partition].isr
            ):
                self._unfollow(partition)

    async def close(self) -> None:
        """Nothing is copied and proposed any more; whoever fetches from here is still served."""
        await self._roles.close()
        await self._resigning.close()
        await self.proposals.close()
        if self._role_changed in self._hosted.role_listeners:
            self._hosted.role_listeners.remove(self._role_changed)
        await asyncio.gather(*(fetcher.close() for fetcher in self._fetchers.values()))
        self._fetchers.clear()
        self._following.clear()

    def _staying(self, member: Member) -> int:
        image = self._image()
        broker, known = image.brokers.get(member.node), image.nodes.get(member.node)
        if broker is None or broker.epoch != member.broker_epoch or known is None:
            return 0
        return 0 if known.record.is_draining else known.revision

    def _led(self) -> Iterator[Partition]:
        for partition in self._hosted:
            if partition.led is not None:
                yield partition.led

    def _role_changed(self, partition: HostedPartition) -> None:
        self.elections += partition.led is not None
        following = partition.following
        if following is None or self._is_leaving:
            self._unfollow(partition)
            return
        if self._following.get(partition) != following.leader:
            self._unfollow(partition)
            self._following[partition] = following.leader
        fetcher = self._fetchers.get(following.leader)
        if fetcher is None:
            fetcher = self._fetchers[following.leader] = Fetcher(
                following.leader,
                address=self._address,
                me=self._me,
                limits=self._limits,
                throttles=self.throttles,
            )
        fetcher.follow(partition)

    def _unfollow(self, partition: HostedPartition) -> None:
        leader = self._following.pop(partition, None)
        if leader is not None:
            self._fetchers[leader].unfollow(partition)

    def _address(self, node_id: NodeId) -> Address | None:
        broker = self._image().brokers.get(node_id)
        return None if broker is None else (broker.host, broker.kafka_port)
