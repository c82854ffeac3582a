"""A node: opens what a broker consists of, wires it together, announces and closes it."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from goqueue.broker.audit.audit import Audit
from goqueue.broker.calls.calls import Calls
from goqueue.broker.calls.news import News
from goqueue.broker.client_metrics.configs import ClientMetricsConfigs
from goqueue.broker.client_metrics.telemetry import Telemetry
from goqueue.broker.delays.delays import Delays
from goqueue.broker.groups.anywhere import GroupsAnywhere
from goqueue.broker.groups.configs import GroupConfigs
from goqueue.broker.groups.groups import Groups
from goqueue.broker.hosted_clients.members.anywhere import MembersAnywhere
from goqueue.broker.hosted_clients.members.members import HostedMembers
from goqueue.broker.hosted_clients.producers.anywhere import ProducersAnywhere
from goqueue.broker.image_changes import prepare, react
from goqueue.broker.leadership import Leadership
from goqueue.broker.log_levels import LogLevels
from goqueue.broker.membership.forgetting import forget_node
from goqueue.broker.partitions.compaction import Compactor
from goqueue.broker.partitions.data_disk import DataDisk
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.partitions.leading import LedPartitions
from goqueue.broker.partitions.log import Log
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.retention import apply_retention_forever
from goqueue.broker.peers.connections import Peers
from goqueue.broker.peers.transactions import TransactionPeers
from goqueue.broker.publishing.appending import Appending
from goqueue.broker.publishing.publishing import Publishing
from goqueue.broker.queues.fifo import FifoSending
from goqueue.broker.queues.fifo_history import FifoHistory
from goqueue.broker.queues.moves import MoveTaskRunner
from goqueue.broker.queues.queues import Queues
from goqueue.broker.queues.share.groups import ShareGroups
from goqueue.broker.queues.sqs_catalogue import SqsCatalogue
from goqueue.broker.queues.sqs_entries import SqsEntries
from goqueue.broker.quotas.quotas import Quotas
from goqueue.broker.reading.log_anywhere import LogAnywhere
from goqueue.broker.replication.serving import ReplicaServing
from goqueue.broker.runtime.producer_ids import ProducerIdSource
from goqueue.broker.runtime.slices import AtLeisure
from goqueue.broker.schemas.checking import ContentChecker
from goqueue.broker.schemas.schemas import Schemas
from goqueue.broker.schemas.validation import Validation
from goqueue.broker.security.security import Security
from goqueue.broker.settings_at_work import follow_settings
from goqueue.broker.stored_revision import check_metadata, refuse_folder_of_a_cluster, revision_of
from goqueue.broker.stories.gathering import Stories
from goqueue.broker.topics.broker_configs import BrokerConfigs
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.draining import Draining
from goqueue.broker.topics.following import MetadataFollower
from goqueue.broker.topics.move_plans import ReplicaMoves
from goqueue.broker.topics.topics import TopicAdmin
from goqueue.broker.tracing.tracing import Tracing
from goqueue.broker.transactions.anywhere import TransactionsAnywhere
from goqueue.broker.transactions.transactions import Transactions
from goqueue.metadata.local import LocalStore
from goqueue.metadata.store import MetadataStore, Put, Read
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.client_security import SecurityOf
from goqueue.model.companions import DELAYED, QUEUE_STATE
from goqueue.model.errors import MetadataUnavailable
from goqueue.model.measuring.histograms import HistogramFigures
from goqueue.model.measuring.traffic import DoorTraffic
from goqueue.model.names import NodeId
from goqueue.model.topic_config import TopicConfig
from goqueue.model.topics import TopicView
from goqueue.state import metadata_keys as keys
from goqueue.state.metadata_image import MetadataImage
from goqueue.storage.clean_stop import CleanStop
from goqueue.storage.data_directory import DataDirectory
from goqueue.storage.disk import Disk

if TYPE_CHECKING:
    from goqueue.broker.cluster import Cluster
    from goqueue.broker.membership.identity_file import IdentityFile
    from goqueue.broker.replication.replication import Replication

logger = logging.getLogger(__name__)


# Watches of etcd before 3.4.31 and 3.5.13 can miss changes; reading everything finds them.
RECONCILE_S: Final = 60.0


def system_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Node:
    def __init__(
        self,
        config: BrokerConfig,
        *,
        directory: DataDirectory,
        store: MetadataStore,
        disk: Disk,
        clock_ms: Callable[[], int],
        identity: "IdentityFile | None" = None,
    ) -> None:
        """`identity` is that of a node of a cluster; a node of one has none."""
        self.config = config
        self.node_id = NodeId(config.node_id)
        self.clock_ms = clock_ms
        self._directory = directory
        self._store = store
        self._follower = MetadataFollower(
            store,
            prepare=partial(prepare, self),
            react=partial(react, self),
            reconcile_s=None if identity is None else RECONCILE_S,
        )
        between_brokers: SecurityOf = lambda *address: self.security.towards(*address)  # noqa: E731
        self.peers = Peers(self.node_id, lambda: self.image, between_brokers)
        # None: a node of one.
        self.cluster: Cluster | None = None
        if identity is not None:
            from goqueue.broker import cluster  # a node of one needs none of it

            self.cluster = cluster.Cluster(
                config,
                store,
                self._follower,
                identity,
                self.peers,
                cluster_id=directory.cluster_id,
                commits=lambda topic: self.topics.commits_of(topic),
                security=between_brokers,
            )
        self._is_closed = False
        self.traffic = DoorTraffic()
        self.changes = changes = KeyChanges(store, self._follower)
        self.broker_configs = BrokerConfigs(changes, self._follower, config)
        self.security = Security(config, changes, self._follower, clock_ms)
        self.quotas = Quotas(self, changes, self._follower)
        self.topics = TopicAdmin(store, self._follower, config, self.broker_configs)
        self.tracing = Tracing(
            config,
            directory.path,
            cluster_id=lambda: self.cluster_id,
            topic=lambda name: self.image.topics.get(name),
            topic_config=self.topic_config,
        )
        self.hosted = HostedPartitions(
            directory,
            node_id=self.node_id,
            disk=disk,
            clock_ms=clock_ms,
            topic_config=self.topic_config,
            producer_expiration_ms=config.producer_id_expiration_ms,
            max_producers=config.max_producer_ids_per_partition,
            max_open_log_files=config.max_open_log_files,
            make_trace=self.tracing.trace_of,
            is_alone=identity is None,
            replica_lag_max_ms=config.replica_lag_time_max_ms,
        )
        self.leisure = AtLeisure()
        self.data_disk = DataDisk(directory, disk, self.hosted)
        self.led = LedPartitions(self.hosted, lambda: self.image)
        self.calls = Calls(
            self.node_id, lambda: self.image, self.led, self._follower.applied, between_brokers
        )
        self.news = News(self.calls)
        self.draining = Draining(changes, self._follower, self.led, self.news)
        self.replica_moves = ReplicaMoves(store, self._follower, config, self.hosted, self.calls)
        self.replica_serving = ReplicaServing(
            self.led.find,
            lambda: self.image,
            fetch_max_bytes=config.fetch_max_bytes,
            clock_ms=clock_ms,
        )
        self.replication: Replication | None = None
        if self.cluster is not None:
            self.replication = self.cluster.replicate(self.hosted, clock_ms)
            self.replica_serving.caught_up = self.replication.proposals.caught_up
            self.replica_serving.throttles = self.replication.throttles
        self.groups = Groups(self, config)
        self.groups.room.check_limit = self.quotas.limits.check_group
        producer_ids = ProducerIdSource(store)
        self.delays = Delays(self, producer_ids, self.calls)
        self.transactions = Transactions(
            self, self.groups, producer_ids, self.delays, TransactionPeers(self.peers), config
        )
        self.transactions_anywhere = TransactionsAnywhere(self.transactions, self.calls)
        self.compactor = Compactor(self.hosted, clock_ms=clock_ms, holding=self.hosted.holding)
        self.queues = Queues(self, max_queues=config.max_queues, is_secured=config.security_enabled)
        self.queues.registry.check_new_group = self.quotas.limits.check_group
        sqs_entries = SqsEntries(store, self._follower, changes)
        self.sqs_catalogue = SqsCatalogue(self, self.queues, self.delays.waiting, sqs_entries)
        self.moves = MoveTaskRunner(self, self.queues, self.sqs_catalogue, sqs_entries)
        self.schemas = Schemas(
            self,
            self.calls,
            schema_max_bytes=config.schema_max_bytes,
            all_max_bytes=config.all_schemas_max_bytes,
            contexts_max=config.max_schema_contexts,
        )
        self.checker = ContentChecker(cpu_ms_max=config.schema_validation_cpu_ms)
        self.validation = Validation(
            self.schemas,
            self.checker,
            self.hosted.readers,
            self._known_config,
            request_cpu_ms_max=config.schema_validation_request_cpu_ms,
        )
        self.appending = Appending(self.delays, self.validation)
        self.log = Log(
            self.led,
            fetch_max_bytes=config.fetch_max_bytes,
            stories=self.tracing,
            transactions=self.transactions,
            intake=self.appending,
        )
        self.log_anywhere = LogAnywhere(self.log, self.led, self.calls)
        self.groups_anywhere = GroupsAnywhere(self.groups, self.calls)
        if self.replication is not None:
            self.log.racks = self.replication.racks
        self.stories = Stories(self.tracing, self.calls, image=lambda: self.image)
        self.publishing = Publishing(
            self.appending,
            self.delays,
            self.validation,
            self.calls,
            self.tracing,
            image=lambda: self.image,
            find=self.led.find,
            clock_ms=clock_ms,
        )
        self.audit = Audit(config, self.topics, self.publishing, self.calls, clock_ms)
        history = FifoHistory(self, self.delays.waiting, self.calls)
        self.fifo = FifoSending(self, self.sqs_catalogue, self.publishing, history, self.calls)
        self.group_configs = GroupConfigs(changes, self._follower, config)
        self.client_metrics = ClientMetricsConfigs(changes, self._follower)
        self.log_levels = LogLevels(self.node_id)
        self.telemetry = Telemetry(self.client_metrics.subscriptions, config, clock_ms)
        self.groups.overrides = self.group_configs.overrides
        self.groups.offsets_committed = self.stories.telling.offsets_committed
        self.share_groups = ShareGroups(self, self.groups, self.queues, self.group_configs)
        self.leadership = Leadership(
            {
                self.groups.state.name: self.groups,
                self.transactions.state.name: self.transactions,
                QUEUE_STATE: self.queues,
                self.schemas.catalogues.state.name: self.schemas.catalogues.state,
                DELAYED: self.delays.shards,
            },
            (self.queues, self.share_groups, self.fifo, self.moves),
        )
        if self.cluster is not None:
            self.hosted.role_listeners.append(self.leadership.role_changed)
        self.members = MembersAnywhere(HostedMembers(self), self.groups, self.calls)
        self.producers = ProducersAnywhere(self)
        self._upkeep: list[asyncio.Task[None]] = []
        follow_settings(self)

    @classmethod
    async def open(
        cls,
        config: BrokerConfig,
        *,
        clock_ms: Callable[[], int] = system_clock_ms,
        disk: Disk | None = None,
        store: MetadataStore | None = None,
    ) -> "Node":
        """Take the data directory, recover what is in it, and host its partitions.

        A node with a `store` is one of several that have it in common; the node closes it.
        """
        disk = disk or Disk()
        directory = DataDirectory.open(config.data_dir, disk)
        if config.security_enabled:
            directory.take_from_others()
        identity: IdentityFile | None = None
        node: Node | None = None
        try:
            if store is not None or config.cluster:
                from goqueue.broker.cluster import open_cluster

                store, identity = await open_cluster(config, directory, disk, store)
            else:
                refuse_folder_of_a_cluster(directory)
                store = await LocalStore.open(directory.metadata_path)
            await check_metadata(store, directory)
            directory.begin_format()
            node = cls(
                config,
                directory=directory,
                store=store,
                disk=disk,
                clock_ms=clock_ms,
                identity=identity,
            )
            await node._start()
        except BaseException:
            if node is not None:
                await node._give_up_starting()
            if store is not None:
                await store.close()
            # What was not begun with stays as the last stop left it.
            directory.close(None if node is not None else directory.last_stop)
            raise
        return node

    async def _start(self) -> None:
        await self.security.begin(self._store)
        await self._follower.load()
        self.broker_configs.changed()
        self.security.changed()
        if self.cluster is None:
            self.hosted.load(self._follower.image)
            await self._store.put(*keys.cluster_id_entry(self.cluster_id))
        else:
            stored = self._directory.stored_partitions()
            self.hosted.load(self._follower.image)
            self.cluster.begin(stored, self.hosted)
            self.hosted.remove_moved(stored, self._follower.image)
        if self.replication is not None:
            self.replication.start()
        self._follower.start()
        self.tracing.start(self.image, self.hosted.trace_of)
        if self.cluster is None:
            # Whoever ends a transaction below must find what was delayed in it.
            await self.delays.shards.carry_over.start()
            await self.queues.registry.state.carry_over.start()
        else:
            self.stories.telling.start()
        await self.groups.state.start()
        await self.transactions.state.start()
        await self.queues.registry.state.start()
        await self.schemas.start()
        await self.delays.shards.start()
        self.moves.resume()
        self.draining.start()
        interval_ms = self.config.retention_check_interval_ms
        upkeep: list[Coroutine[None, None, None]] = [
            apply_retention_forever(self.hosted, self.groups_anywhere, interval_ms),
            self.hosted.reopen_forever(lambda: self.image),
            self.hosted.removal.run_forever(),
            self.groups.match_topics_forever(),
            self.compactor.run_forever(),
            self.security.tokens.expire_forever(),
        ]
        if self.cluster is not None:
            upkeep.append(self.hosted.note_watermarks_forever())
        self._upkeep = [asyncio.create_task(each) for each in upkeep]
        await self.audit.start()

    async def _give_up_starting(self) -> None:
        await self.delays.shards.carry_over.close()
        await self.queues.registry.state.carry_over.close()
        await self._follower.stop()

    async def announce(self, host: str, kafka_port: int, http_port: int) -> None:
        """Tell the cluster where this broker is reached; called once the doors are open."""
        reached = keys.BrokerValue(
            host=host,
            kafka_port=kafka_port,
            http_port=http_port,
            rack=self.config.broker_rack or None,
            has_tls=bool(self.config.tls_certificate_file),
        )
        if self.cluster is not None:
            await self.cluster.join(reached)
            return
        entries = (
            keys.broker_entry(self.node_id, reached),
            keys.controller_entry(self.node_id),
        )
        done = await self._store.transact([], [Put(*entry) for entry in entries])
        await self._follower.applied(done.revision)

    async def stored_metadata(self) -> Read:
        """Every key, as of the turn of the loop in which this begins (of a node of one)."""
        return await self._store.get_prefix(keys.ROOT_PREFIX)

    async def forget_node(self, node_id: NodeId) -> None:
        """Of one that is down for good."""
        await forget_node(self._store, self._follower, node_id)

    async def hand_over(self) -> None:
        """Before the doors close: others of the cluster lead on."""
        if self.replication is not None:
            self.replication.leave()
        if self.cluster is not None:
            await self.cluster.hand_over()

    async def close(self) -> bool:
        """False if something could not be closed in order: the next start verifies it."""
        if self._is_closed:
            return True
        self._is_closed = True
        await self.audit.close()
        if self.cluster is not None:
            await self.cluster.stop()
        if self.replication is not None:
            await self.replication.close()
        await self.draining.close()
        await self.moves.close()
        await self.fifo.close()
        await self.delays.shards.close()
        await self.schemas.close()
        await self.checker.close()
        self.share_groups.close()
        await self.queues.close()
        self.transactions.close()
        self.peers.close()
        self.calls.close()
        self.groups.state.close()
        for task in self._upkeep:
            task.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        await self._follower.stop()
        ended = await self.hosted.close()
        await self.stories.telling.close()
        await self.tracing.close()
        revision = await revision_of(self._store)
        in_order = revision is not None and len(ended) == len(self.hosted)
        if self.cluster is not None:
            await self.cluster.leave(in_order=in_order)
        try:
            await self._store.close()
        except MetadataUnavailable as error:
            logger.error("%s", error)
            in_order = False
        return self._directory.close(CleanStop(logs=ended, metadata_revision=revision)) and in_order

    # --- metadata -------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        return self._follower.image

    @property
    def is_alone(self) -> bool:
        """A node of one leads everything."""
        return self.cluster is None

    @property
    def cluster_id(self) -> str:
        return self._directory.cluster_id

    @property
    def metadata_failure(self) -> str | None:
        return self._store.unavailable_reason

    @property
    def serving_failure(self) -> str | None:
        """Why others should not send traffic here."""
        return self.metadata_failure if self.cluster is None else self.cluster.serving_failure

    @property
    def metadata_latencies(self) -> HistogramFigures:
        return self._store.latencies.figures()

    def topic(self, name: str) -> TopicView:
        return self.topics.find(name)

    def topic_by_id(self, topic_id: UUID) -> TopicView:
        return self.topics.find_by_id(topic_id)

    def topic_config(self, topic: TopicView) -> TopicConfig:
        return self.topics.effective_config(topic)

    def _known_config(self, topic: str) -> TopicConfig | None:
        """A topic's settings, of which its partitions know the parsed form; the first will do."""
        partition = self.hosted.get(topic, 0)
        if partition is not None:
            return partition.config
        view = self.image.topics.get(topic)
        return None if view is None else self.topic_config(view)

    # --- data -----------------------------------------------------------------------------

    def check_awake(self) -> None:
        """A node of one may stand still for as long as it likes."""
        if self.cluster is not None:
            self.cluster.pauses.check()

    def partition(self, topic: str, index: int) -> Partition:
        """As the rooms of the broker find what they work on."""
        return self.led.find(topic, index)
