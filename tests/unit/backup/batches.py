"""Logs and manifests for tests of backups."""

from collections.abc import Iterator
from uuid import UUID

from goqueue.backup.chunks import FullChunk, Gatherer
from goqueue.backup.manifest import Manifest, PartitionCopy, StoredObject, TopicCopy
from goqueue.model.backups import CutPartition
from goqueue.model.batch import assign, read_header
from goqueue.model.records import NewRecord, encode_records

TOPIC_ID = UUID(int=7)
BACKUP_ID = "20260131T120000Z-0123abcd"
CLUSTER_ID = "cluster-of-tests"


def batch(base_offset: int, *values: bytes, epoch: int = 0) -> bytes:
    content = encode_records([NewRecord(key=b"k", value=value) for value in values], now_ms=1_000)
    assign(content, 0, base_offset, epoch)
    return bytes(content)


def gathered(batches: list[bytes], limit_bytes: int, **options: frozenset[int]) -> list[FullChunk]:
    def all_of_them() -> Iterator[FullChunk | None]:
        gatherer = Gatherer(limit_bytes, **options)
        for each in batches:
            yield gatherer.add(each, read_header(each))
        yield gatherer.finish()

    return [full for full in all_of_them() if full is not None]


def manifest_of(
    *partitions: PartitionCopy, metadata: StoredObject | None = None, backup: str = BACKUP_ID
) -> Manifest:
    return Manifest(
        id=backup,
        cluster_id=CLUSTER_ID,
        is_cluster=False,
        taken_at_ms=1_000,
        seconds=1.0,
        new_bytes=10,
        metadata=metadata or StoredObject("ab" * 32, 10),
        topics=(TopicCopy(name="orders", id=TOPIC_ID, partitions=partitions),),
    )


def cut_of(start: int, end: int, *, is_compacted: bool = False, partition: int = 0) -> CutPartition:
    return CutPartition(
        topic="orders",
        topic_id=TOPIC_ID,
        partition=partition,
        start=start,
        end=end,
        size_bytes=1_000,
        segment_bytes=1_000_000,
        is_compacted=is_compacted,
    )
