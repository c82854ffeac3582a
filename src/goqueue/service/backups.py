"""Backups: how far every log goes at one moment, and that it stays so while it is copied.

The copying itself is a client's work: it fetches the logs as any Kafka client does.
"""

from goqueue.broker.node import Node
from goqueue.model.backups import BrokerCut, CutPartition
from goqueue.model.caller import Caller
from goqueue.service.access import Access


class BackupService:
    """Each operation needs the right to alter the cluster: a backup has everything in it."""

    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._access = access

    def begin(self, caller: Caller, ttl_ms: int) -> str:
        """Put compaction off for so long; returns the name under which to go on."""
        self._access.alterable_cluster(caller)
        return self._node.hosted.holding.begin(ttl_ms)

    def renew(self, caller: Caller, name: str, ttl_ms: int) -> None:
        self._access.alterable_cluster(caller)
        self._node.hosted.holding.renew(name, ttl_ms)

    def pause_transactions(self, caller: Caller, name: str, pause_ms: int) -> None:
        """While several brokers are asked for their cuts, one after the other."""
        self._access.alterable_cluster(caller)
        self._node.hosted.holding.pause_transactions(name, pause_ms)

    def end(self, caller: Caller, name: str) -> None:
        self._access.alterable_cluster(caller)
        self._node.hosted.holding.end(name)

    async def cut(self, caller: Caller, name: str, *, with_metadata: bool) -> BrokerCut:
        """Of a node of one, everything is as of one turn of the event loop: what `kill -9` at that
        moment would have left. Of a broker in a cluster, that is so for all that it leads, and the
        metadata is read afterwards."""
        self._access.alterable_cluster(caller)
        node = self._node
        node.hosted.holding.check(name)
        node.check_awake()
        partitions = tuple(
            CutPartition(
                topic=led.name.topic,
                topic_id=led.log.topic_id,
                partition=led.name.partition,
                start=led.log_start_offset,
                end=max(led.high_watermark, led.log_start_offset),
                size_bytes=led.log.size_bytes,
                segment_bytes=led.config.segment_bytes,
                is_compacted=led.config.is_compacted,
            )
            for hosted in node.hosted
            if (led := hosted.led) is not None and led.offline_reason is None
            # Of a leadership that has just begun, more may be committed than it knows (KIP-207).
            if led.knows_its_end
        )
        offline = {str(place): reason for place, reason in node.hosted.offline.items()}
        taken_at_ms = node.clock_ms()
        metadata = None
        if with_metadata:
            # Begins in the same turn: a node of one reads its keys before it waits for anything.
            stored = await node.stored_metadata()
            metadata = {kv.key: kv.value.decode() for kv in stored.kvs}
        return BrokerCut(
            node_id=node.node_id,
            cluster_id=node.cluster_id,
            is_cluster=not node.is_alone,
            taken_at_ms=taken_at_ms,
            partitions=partitions,
            offline=offline,
            metadata=metadata,
        )
