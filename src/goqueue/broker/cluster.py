"""What a node runs because it is one of several: its membership, and the controller's office."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence

from goqueue.broker.controller.controller import Controller
from goqueue.broker.controller.telling import LogEndTelling
from goqueue.broker.membership.cluster_claim import claim_cluster
from goqueue.broker.membership.departed import Departed
from goqueue.broker.membership.etcd_access import open_etcd
from goqueue.broker.membership.identity_file import IdentityFile
from goqueue.broker.membership.losses import check_lineage, has_lost
from goqueue.broker.membership.membership import Membership
from goqueue.broker.membership.pauses import Pauses
from goqueue.broker.membership.seclusion import Seclusion
from goqueue.broker.membership.witnesses import Witnesses
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.peers.connections import Peers
from goqueue.broker.peers.quorum import QuorumPeers
from goqueue.broker.replication.replication import Replication
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import MetadataStore
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.client_security import SecurityOf, no_security
from goqueue.model.errors import GoQueueError, MetadataUnavailable
from goqueue.model.names import NodeId, TopicPartition
from goqueue.model.topics import TopicView
from goqueue.state import metadata_keys as keys
from goqueue.state.controller.commit_settings import CommitSettings
from goqueue.state.metadata_image import ImageChanges, KeyChange, MetadataImage
from goqueue.storage.data_directory import DataDirectory, PartitionFolder
from goqueue.storage.disk import Disk

logger = logging.getLogger(__name__)


async def open_cluster(
    config: BrokerConfig,
    directory: DataDirectory,
    disk: Disk,
    store: MetadataStore | None = None,
) -> tuple[MetadataStore, IdentityFile]:
    """The metadata that belongs to this folder, in etcd unless given, and who the folder is."""
    if store is None:
        store = await open_etcd(config)
    try:
        await claim_cluster(store, directory)
        return store, IdentityFile.open(disk, directory.node_path, NodeId(config.node_id))
    except BaseException:
        await store.close()
        raise


class Cluster:
    def __init__(
        self,
        config: BrokerConfig,
        store: MetadataStore,
        follower: MetadataFollower,
        identity: IdentityFile,
        peers: Peers,
        *,
        cluster_id: str,
        commits: Callable[[TopicView], CommitSettings],
        security: SecurityOf = no_security,
    ) -> None:
        self._config = config
        self._security = security
        self._store = store
        self._node_id = NodeId(config.node_id)
        self._follower = follower
        self._identity = identity
        # Set whenever the image changed, for who waits for something to happen in it.
        self._news = asyncio.Event()
        self._telling: LogEndTelling | None = None
        self.membership = Membership(
            store,
            identity,
            node_id=self._node_id,
            cluster_id=cluster_id,
            session_timeout_ms=config.broker_session_timeout_ms,
            stall_max_ms=config.loop_stall_max_ms,
            is_cordoned=bool(config.cordoned_log_dirs),
            image=lambda: follower.image,
        )
        self.pauses = Pauses(config.broker_session_timeout_ms / 1_000, self._catch_up)
        self.seclusion = Seclusion(
            store,
            self.membership,
            node_id=self._node_id,
            image=lambda: follower.image,
            ask=QuorumPeers(peers).ask,
            step_down=self._step_down,
        )
        # Called when others go on without this broker: clients should do so, too.
        self.stepped_down: Callable[[], None] | None = None
        self.witnesses = Witnesses(
            store,
            self.membership,
            node_id=self._node_id,
            image=lambda: follower.image,
            security=security,
        )
        self.departed = Departed(lambda: follower.image)
        self.controller = Controller(
            store,
            follower,
            self.membership,
            node_id=self._node_id,
            balance_every_s=(
                float(config.leader_imbalance_check_interval_seconds)
                if config.auto_leader_rebalance_enable
                else None
            ),
            commits=commits,
        )

    @property
    def serving_failure(self) -> str | None:
        """Why clients should not come here. While the store is away for all, they should."""
        if self.membership.me is not None:
            return None
        return self.membership.stepped_down or "this broker is not admitted to its cluster"

    def begin(self, stored: Sequence[PartitionFolder], hosted: HostedPartitions) -> None:
        """Note in the folder that a process works on it; before anything is registered.

        `stored` are the folders that were there before logs were opened.
        """
        image = self._follower.image
        check_lineage(image, hosted)
        self._identity.begin(has_lost=has_lost(self._node_id, image, stored, hosted))
        hosted.failure_listeners.append(self._note_failure)
        self.tell_log_ends(hosted)

    def _note_failure(self) -> None:
        """What the log had may be gone, and the next start would not see that."""
        noting = asyncio.get_running_loop().run_in_executor(None, self._identity.harm)
        noting.add_done_callback(_failure_noted)

    def tell_log_ends(self, hosted: HostedPartitions) -> None:
        """From now on, where the controller has to know."""
        self._telling = LogEndTelling(
            self._store, self.membership, hosted, lambda: self._follower.image
        )

    def replicate(self, hosted: HostedPartitions, clock_ms: Callable[[], int]) -> Replication:
        return Replication(
            self._config,
            self._store,
            hosted,
            node_id=self._node_id,
            image=lambda: self._follower.image,
            me=lambda: self.membership.me,
            clock_ms=clock_ms,
            security=self._security,
        )

    async def join(self, value: keys.BrokerValue) -> None:
        """Returns when this broker may lead and follow."""
        self.controller.start()
        self.departed.look()
        self.witnesses.look()
        await self.membership.join(value)
        self.pauses.start()
        self.seclusion.start()

    async def _catch_up(self) -> None:
        """See all that happened until now. While nobody reaches the store, everything goes on."""
        try:
            found = await self._store.get(keys.broker_key(self._node_id))
        except MetadataUnavailable:
            await self.seclusion.look()
            return
        await self._follower.applied(found.revision)

    async def _step_down(self, reason: str) -> None:
        """Neither lead nor follow, and send clients elsewhere, until this broker registers anew."""
        logger.warning("%s", reason)
        ended = self.membership.epoch
        self.membership.step_down(reason)

        def without_me(image: MetadataImage) -> list[KeyChange]:
            mine = image.brokers.get(self._node_id)
            if mine is None or mine.epoch != ended:
                return []
            return [(keys.broker_key(self._node_id), None, image.revision)]

        await self._follower.learn(without_me)
        if self.stepped_down is not None:
            self.stepped_down()

    # --- following the metadata -----------------------------------------------------------

    async def prepare(self, image: MetadataImage) -> None:
        await self.membership.see(image)

    def image_changed(self, changes: ImageChanges) -> None:
        self._news.set()
        if changes.brokers_changed or changes.nodes_changed:
            self.departed.look()
        if changes.brokers_changed:
            self.witnesses.look()
        self.controller.image_changed(changes)
        if self._telling is not None:
            self._telling.image_changed(changes)

    # --- leaving --------------------------------------------------------------------------

    async def hand_over(self) -> None:
        """Let others lead what this broker leads, before its doors close: clients move at once."""
        if self.membership.me is None:
            return
        timeout_s = self._config.controlled_shutdown_timeout_ms / 1_000
        try:
            async with asyncio.timeout(timeout_s):
                await self.membership.ask_to_leave()
                await self._until_all_went()
                await self.controller.resign()
        except TimeoutError:
            logger.warning("others did not take over within %g s", timeout_s)
        except GoQueueError as error:
            logger.warning("others were not asked to take over: %s", error)

    async def _until_all_went(self) -> None:
        """One that went stays away: of thousands, each is looked at until then, and all at the end
        once more."""
        while left := list(self._can_still_go()):
            while left:
                if self._can_go(left[-1]):
                    self._news.clear()
                    await self._news.wait()
                else:
                    left.pop()

    def _can_still_go(self) -> Iterator[TopicPartition]:
        for topic in self._follower.image.topics.values():
            for view in topic.partitions:
                name = TopicPartition(topic.name, view.index)
                if self._can_go(name):
                    yield name

    def _can_go(self, name: TopicPartition) -> bool:
        """Whether this broker is in sync there, and not the only one."""
        image = self._follower.image
        topic = image.topics.get(name.topic)
        if topic is None or name.partition >= len(topic.partitions):
            return False
        in_sync = topic.partitions[name.partition].isr
        return self._node_id in in_sync and any(
            node != self._node_id and node in image.brokers for node in in_sync
        )

    async def stop(self) -> None:
        """Take no part in anything any more; the registration stays."""
        self.pauses.stop()
        await self.seclusion.close()
        await self.witnesses.close()
        if self._telling is not None:
            await self._telling.close()
        await self.controller.stop()
        await self.membership.close()

    async def leave(self, *, in_order: bool) -> None:
        """All logs are closed. `in_order`: everything is on disk."""
        if in_order:
            try:
                await asyncio.to_thread(self._identity.stop)
            except OSError as error:
                logger.error("the next start counts as one after a crash: %s", error)
        await self.membership.leave()


def _failure_noted(noting: "asyncio.Future[None]") -> None:
    if not noting.cancelled() and noting.exception() is not None:
        logger.error(
            "a log failed, and that cannot be noted in the data directory: %s; replace the disk "
            "before this broker starts again",
            noting.exception(),
        )
