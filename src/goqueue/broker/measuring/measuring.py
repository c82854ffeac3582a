"""All figures of a broker, in one reading."""

import asyncio

from goqueue.broker.measuring.ages import Ages
from goqueue.broker.measuring.behind import BehindElsewhere
from goqueue.broker.measuring.groups import read_groups
from goqueue.broker.measuring.partitions import read_partitions
from goqueue.broker.measuring.queues import read_queues
from goqueue.broker.measuring.replication import read_replication
from goqueue.broker.measuring.transactions import read_producers, read_transactions
from goqueue.broker.node import Node
from goqueue.broker.schemas.reading import subject_counts, type_counts
from goqueue.model.measuring.figures import (
    BrokerFigures,
    ClusterFigures,
    ReplicationFigures,
    SchemaFigures,
    StorageFigures,
)
from goqueue.model.measuring.histograms import HistogramFigures
from goqueue.model.names import NO_LEADER
from goqueue.model.rights import DescribableCluster
from goqueue.pace import Pace
from goqueue.state.cluster_condition import is_under_min_in_sync, is_under_replicated
from goqueue.state.membership.move_settings import are_moves_paused
from goqueue.state.metadata_image import MetadataImage


class Measuring:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._ages = Ages()
        self._behind_elsewhere = BehindElsewhere(node.calls, node.led, node.clock_ms)

    async def figures(
        self, cluster: DescribableCluster, *, groups_max: int, queues_max: int
    ) -> BrokerFigures:
        """Of the first `groups_max` groups and `queues_max` queues by name in detail, with ages."""
        node, pace, now_ms = self._node, Pace(), self._node.clock_ms()
        tracing = await node.tracing.figures()
        transactions = await read_transactions(node.transactions, pace=pace, now_ms=now_ms)
        groups = await read_groups(
            node.groups,
            node.hosted,
            self._behind_elsewhere,
            pace=pace,
            ages=self._ages,
            now_ms=now_ms,
            detailed_max=groups_max,
        )
        queues = await read_queues(
            node,
            node.queues,
            node.hosted,
            pace=pace,
            ages=self._ages,
            now_ms=now_ms,
            detailed_max=queues_max,
        )
        delays = node.delays.stats.of_broker(cluster)
        clients = node.telemetry.figures(cluster)
        quotas = node.quotas.figures()
        audit = node.audit.figures(cluster)
        storage, schemas, calls = self._storage(), self._schemas(), node.calls.figures()
        # Taken on the event loop; what is in them may be read from a thread.
        image, hosted, offline = node.image, tuple(node.hosted), len(node.hosted.offline)
        replication = await read_replication(node.replication, hosted, pace=pace)
        latencies = node.metadata_latencies

        def read_rest() -> BrokerFigures:
            return BrokerFigures(
                now_ms=now_ms,
                cluster=self._cluster(cluster, image, offline, replication, latencies),
                calls=calls,
                partitions=read_partitions(hosted, image),
                producers=read_producers(hosted),
                transactions=transactions,
                groups=groups,
                queues=queues,
                delays=delays,
                storage=storage,
                schemas=schemas,
                tracing=tracing,
                clients=clients,
                quotas=quotas,
                audit=audit,
            )

        return await asyncio.to_thread(read_rest)

    def _cluster(
        self,
        cluster: DescribableCluster,
        image: MetadataImage,
        offline: int,
        replication: ReplicationFigures,
        latencies: HistogramFigures,
    ) -> ClusterFigures:
        node_id = self._node.node_id
        disk = self._node.data_disk.space(cluster)
        partitions = [part for topic in image.topics.values() for part in topic.partitions]
        led = [part for part in partitions if part.leader == node_id]
        return ClusterFigures(
            node_id=node_id,
            cluster_id=self._node.cluster_id,
            brokers=len(image.brokers),
            nodes_down=len(image.nodes.keys() - image.brokers.keys()),
            nodes_suspect=len(image.suspects()),
            is_controller=image.controller_id == node_id,
            topics=len(image.topics),
            partitions_without_leader=sum(part.leader == NO_LEADER for part in partitions),
            moving_partitions=sum(part.state.move is not None for part in partitions),
            are_moves_paused=are_moves_paused(image),
            leaders=len(led),
            under_replicated_partitions=sum(map(is_under_replicated, led)),
            under_min_in_sync_partitions=sum(map(is_under_min_in_sync, led)),
            replication=replication,
            is_metadata_available=self._node.metadata_failure is None,
            metadata_latencies=latencies,
            offline_partitions=offline,
            disk_total_bytes=disk.total_bytes,
            disk_usable_bytes=disk.usable_bytes,
        )

    def _storage(self) -> StorageFigures:
        hosted, counts = self._node.hosted, self._node.compactor.counts
        return StorageFigures(
            flushes=hosted.flush_latencies.figures(),
            open_files=len(hosted.open_segments),
            open_files_max=hosted.open_segments.limit,
            unarchived_bytes=sum(each.log.unarchived_deleted_bytes for each in hosted),
            passed_over_batches=hosted.decoder.passed_over,
            compactions=counts.runs,
            failed_compactions=counts.failures,
            compaction_read_bytes=counts.bytes_read,
            compaction_written_bytes=counts.bytes_written,
            compaction_seconds=counts.seconds,
        )

    def _schemas(self) -> SchemaFigures:
        schemas, refused = self._node.schemas, self._node.validation.refused
        catalogue = schemas.catalogues.leaders_own
        if catalogue is None:
            # Another broker tells, or it is being loaded: no figures are better than zeros.
            return SchemaFigures(None, None, schemas.worker.starts, refused)
        subjects, types = subject_counts(catalogue), type_counts(catalogue)
        return SchemaFigures(subjects, types, schemas.worker.starts, refused)
