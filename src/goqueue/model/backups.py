"""The cut of a backup: how far each partition goes that one broker leads, at one moment."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from goqueue.model.names import NodeId

# For how long compaction is put off unless somebody asks again: a copy does so several times
# within this.
TTL_MAX_MS: Final = 10 * 60 * 1000
# For how long transactions wait: clients notice no more of it than a slow answer.
PAUSE_MAX_MS: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPartition:
    """Offsets `start` up to, not including, `end` were committed."""

    topic: str
    topic_id: UUID
    partition: int
    start: int
    end: int
    size_bytes: int
    segment_bytes: int
    # Whether batches below `end` may change: nothing is used again then without being read.
    is_compacted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCut:
    """`offline` says why partitions that this broker should serve are not in the cut."""

    node_id: NodeId
    cluster_id: str
    is_cluster: bool
    taken_at_ms: int
    partitions: tuple[CutPartition, ...]
    offline: dict[str, str]
    # Keys of the metadata store; None if nobody asked for them.
    metadata: dict[str, str] | None
