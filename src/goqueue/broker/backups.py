"""What a broker does for a backup: it says how far its logs go, and puts compaction off.

Whoever copies speaks to each broker by itself. Workers of one machine have one HTTP port, where the
kernel chooses who answers, so any of them hands on what is meant for another.
"""

from typing import Final, TypeVar

import msgspec

from goqueue.broker.node import Node
from goqueue.model.backups import BrokerCut, CutPartition
from goqueue.model.calls import Method
from goqueue.model.errors import UnknownNode
from goqueue.model.names import NodeId
from goqueue.model.rights import AlterableCluster
from goqueue.state.membership.feature_levels import Feature, check_present

Q = TypeVar("Q")
R = TypeVar("R")


class Begin(msgspec.Struct, frozen=True):
    cluster: AlterableCluster
    ttl_ms: int


class Renew(msgspec.Struct, frozen=True):
    cluster: AlterableCluster
    name: str
    ttl_ms: int


class Pause(msgspec.Struct, frozen=True):
    cluster: AlterableCluster
    name: str
    pause_ms: int


class End(msgspec.Struct, frozen=True):
    cluster: AlterableCluster
    name: str


class TakeCut(msgspec.Struct, frozen=True):
    cluster: AlterableCluster
    name: str
    with_metadata: bool


# One that is begun twice ends by itself.
BEGIN: Final = Method("backups.begin", Begin, str, is_repeatable=True)
RENEW: Final = Method("backups.renew", Renew, bool, is_repeatable=True)
PAUSE: Final = Method("backups.pause", Pause, bool, is_repeatable=True)
END: Final = Method("backups.end", End, bool)
CUT: Final = Method("backups.cut", TakeCut, BrokerCut, is_repeatable=True)


class Backups:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._holding = node.hosted.holding
        node.calls.serve(BEGIN, self._begin)
        node.calls.serve(RENEW, self._renew)
        node.calls.serve(PAUSE, self._pause)
        node.calls.serve(END, self._end)
        node.calls.serve(CUT, self._cut)

    async def ask(self, method: Method[Q, R], request: Q, at: int | None) -> R:
        """The broker `at`, or this one."""
        node = self._node
        if at is not None and at != node.node_id and at not in node.image.brokers:
            raise UnknownNode(f"there is no broker {at}; see GET /cluster/metadata")
        asked = node.node_id if at is None else NodeId(at)
        return await node.calls.ask_broker(method, asked, request)

    # --- here -----------------------------------------------------------------------------

    async def _begin(self, request: Begin) -> str:
        check_present(self._node.image, Feature.BACKUPS)
        return self._holding.begin(request.ttl_ms)

    async def _renew(self, request: Renew) -> bool:
        self._holding.renew(request.name, request.ttl_ms)
        return True

    async def _pause(self, request: Pause) -> bool:
        self._holding.pause_transactions(request.name, request.pause_ms)
        return True

    async def _end(self, request: End) -> bool:
        self._holding.end(request.name)
        return True

    async def _cut(self, request: TakeCut) -> BrokerCut:
        """Of a node of one, everything is as of one turn of the event loop: what `kill -9` at that
        moment would have left. Of a broker in a cluster, that is so for all that it leads, and the
        metadata is read afterwards."""
        node = self._node
        self._holding.check(request.name)
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
        if request.with_metadata:
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
