"""Replication on one broker of a cluster: roles, fetchers and proposals, wired together."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

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
from goqueue.model.client_security import SecurityOf, no_security
from goqueue.model.names import NodeId
from goqueue.model.replication import Member
from goqueue.model.replication_config import ReplicationSettings
from goqueue.state.metadata_image import ImageChanges, MetadataImage

# Answers for copies that are moved: small, so that neither broker is busy for long with one of
# them. Some hundred of them in a second are as much as a disk or a network likes to take.
MOVE_RESPONSE_MAX_BYTES: Final = 262_144


class _Link(NamedTuple):
    """Which fetcher copies a partition."""

    leader: NodeId
    is_for_moves: bool


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
        security: SecurityOf = no_security,
    ) -> None:
        self._hosted = hosted
        self._node_id = node_id
        self._image = image
        # What comes next, before everyone sees it.
        self._coming: MetadataImage | None = None
        self._me = me
        self._limits = FetchLimits(
            max_wait_ms=settings.replica_fetch_wait_max_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
            part_max_bytes=settings.replica_fetch_max_bytes,
        )
        self.throttles = Throttles(node_id, image)
        self._fetchers: dict[_Link, Fetcher] = {}
        self._following: dict[HostedPartition, _Link] = {}
        self._is_leaving = False
        self._security = security
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
        self._coming = image
        await self._roles.learn(changes, image)
        for partition in tuple(self._following) if changes.topics_deleted else ():
            if self._hosted.get(*partition.name) is not partition:
                self._unfollow(partition)
        for name in changes.partitions_changed:
            moved = self._hosted.get(*name)
            if moved is not None and not self._is_moving_in(moved):
                self._caught_up(moved)
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
        self._follow(partition, _Link(following.leader, self._is_moving_in(partition)))

    def _follow(self, partition: HostedPartition, link: _Link) -> None:
        if self._following.get(partition) != link:
            self._unfollow(partition)
            self._following[partition] = link
        fetcher = self._fetchers.get(link)
        if fetcher is None:
            fetcher = self._fetchers[link] = self._fetcher(link)
        fetcher.follow(partition)

    def _fetcher(self, link: _Link) -> Fetcher:
        limits = self._limits
        if link.is_for_moves:
            most = min(limits.max_bytes, MOVE_RESPONSE_MAX_BYTES)
            limits = limits._replace(
                max_bytes=most, part_max_bytes=min(limits.part_max_bytes, most)
            )
        return Fetcher(
            link.leader,
            address=self._address,
            me=self._me,
            limits=limits,
            throttles=self.throttles,
            caught_up=self._caught_up if link.is_for_moves else None,
            security=self._security,
        )

    def _caught_up(self, partition: HostedPartition) -> None:
        """A copy that is added goes on with those that others wait for: they may do so for it from
        now on."""
        link = self._following.get(partition)
        if link is not None and link.is_for_moves:
            self._follow(partition, link._replace(is_for_moves=False))

    def _is_moving_in(self, partition: HostedPartition) -> bool:
        """Whether this copy is added by a move, and is not in sync yet."""
        image, coming = self._image(), self._coming
        if coming is not None and coming.revision > image.revision:
            image = coming
        topic = image.topics.get(partition.name.topic)
        if topic is None or partition.name.partition >= len(topic.partitions):
            return False
        view = topic.partitions[partition.name.partition]
        return self._node_id in view.state.adding and self._node_id not in view.isr

    def _unfollow(self, partition: HostedPartition) -> None:
        link = self._following.pop(partition, None)
        if link is not None:
            self._fetchers[link].unfollow(partition)

    def _address(self, node_id: NodeId) -> Address | None:
        broker = self._image().brokers.get(node_id)
        return None if broker is None else (broker.host, broker.kafka_port)
