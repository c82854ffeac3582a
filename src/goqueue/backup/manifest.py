"""What a backup consists of: one document, checked before anything is done by it.

    goqueue-backup 1 <sha256 of the rest>
    {"id": "…", "cluster_id": "…", "topics": […], …}

Whoever can write to a store can write any manifest: sizes, names and offsets have limits here, and
nothing in it is used as a path but ids and checksums, which are digits and letters.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from goqueue.backup.errors import BackupDamaged, BackupTooNew
from goqueue.model.errors import GoQueueError
from goqueue.model.names import check_topic_name
from goqueue.model.settings import INT32_MAX

FORMAT: Final = 1
_MAGIC: Final = "goqueue-backup"
# A million partitions of one chunk each; it is held in memory as a whole.
MANIFEST_BYTES_MAX: Final = 512 * 1024 * 1024
# The largest batch that a broker takes is 1 GiB; a chunk is one batch, or far smaller.
OBJECT_BYTES_MAX: Final = 1024 * 1024 * 1024 + 64 * 1024 * 1024
_OFFSET_MAX: Final = 2**62
# Of one partition: a million messages a second for half a year. What is missing between batches is
# filled with empty ones, so a lie here would fill a disk.
_SPAN_MAX: Final = 2**44
_FIRST_LINE_BYTES_MAX: Final = 200

_SHA: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ID: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}", re.ASCII)
_CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """Whole batches of one partition, in one object.

    `first` is the base offset of the first batch, `next` the offset after the last one. `last` and
    `last_crc` are base offset and checksum of the last batch: a log that has the same batch there
    is the same up to there. `missing` counts offsets between its batches that none of them covers,
    as compaction leaves them. `is_full`: a later backup may use it as it is.
    """

    sha: str
    size: int
    first: int
    next: int
    last: int
    last_crc: int
    missing: int
    is_full: bool


class PartitionCopy(msgspec.Struct, frozen=True, array_like=True):
    """Offsets `start` up to, not including, `end`; the first chunk may begin below `start`."""

    start: int
    end: int
    chunks: tuple[Chunk, ...] = ()


class TopicCopy(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    id: UUID
    partitions: tuple[PartitionCopy, ...]


class StoredObject(msgspec.Struct, frozen=True, array_like=True):
    sha: str
    size: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    cluster_id: str
    is_cluster: bool
    # Of the broker's clock, when the cut was taken.
    taken_at_ms: int
    # How long the copying took, and how much of it was new to the store.
    seconds: float
    new_bytes: int
    # Keys and values of the metadata store.
    metadata: StoredObject
    topics: tuple[TopicCopy, ...]

    @property
    def size_bytes(self) -> int:
        return self.metadata.size + sum(chunk.size for chunk in self.chunks())

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics)

    def chunks(self) -> Iterator[Chunk]:
        for topic in self.topics:
            for partition in topic.partitions:
                yield from partition.chunks

    def objects(self) -> dict[str, int]:
        """Name -> size of everything that this backup needs."""
        found = {chunk.sha: chunk.size for chunk in self.chunks()}
        found[self.metadata.sha] = self.metadata.size
        return found


class Place(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def is_backup_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def encode(manifest: Manifest) -> bytes:
    body = msgspec.json.encode(manifest)
    return f"{_MAGIC} {FORMAT} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def decode(data: bytes, name: str) -> Manifest:
    """`name` is that of the backup whose manifest this should be; `BackupDamaged` says why not."""
    line, newline, body = data.partition(b"\n")
    words = line[:_FIRST_LINE_BYTES_MAX].decode("ascii", "replace").split(" ")
    if not newline or len(words) != 3 or words[0] != _MAGIC:
        raise BackupDamaged(f"the manifest of backup {name} is none of GoQueue's")
    if words[1] != str(FORMAT):
        raise BackupTooNew(
            f"backup {name} has format {words[1]}; this release reads {FORMAT}: use the release "
            "that wrote it"
        )
    if hashlib.sha256(body).hexdigest() != words[2]:
        raise BackupDamaged(f"the manifest of backup {name} is not what was once written")
    try:
        manifest = msgspec.json.decode(body, type=Manifest)
        _check(manifest, name)
    except (msgspec.MsgspecError, GoQueueError, ValueError) as error:
        raise BackupDamaged(f"the manifest of backup {name} makes no sense: {error}") from error
    return manifest


def _check(manifest: Manifest, name: str) -> None:
    _demand(manifest.id == name, f"it is that of {manifest.id!r}")
    _demand(_CLUSTER_ID.fullmatch(manifest.cluster_id) is not None, "cluster id")
    _check_object(manifest.metadata.sha, manifest.metadata.size)
    names = [topic.name for topic in manifest.topics]
    _demand(len(set(names)) == len(names), "a topic is there twice")
    _demand(len({topic.id for topic in manifest.topics}) == len(names), "a topic id is there twice")
    for topic in manifest.topics:
        check_topic_name(topic.name)
        _demand(0 < len(topic.partitions) <= INT32_MAX, f"partitions of {topic.name}")
        for index, partition in enumerate(topic.partitions):
            _check_partition(partition, Place(topic.name, index))


def _check_partition(partition: PartitionCopy, place: Place) -> None:
    _demand(0 <= partition.start <= partition.end <= _OFFSET_MAX, f"offsets of {place}")
    first = partition.chunks[0].first if partition.chunks else partition.start
    _demand(partition.end - min(first, partition.start) <= _SPAN_MAX, f"span of {place}")
    reached = None
    for chunk in partition.chunks:
        _check_object(chunk.sha, chunk.size)
        _demand(
            0 <= chunk.first <= chunk.last < chunk.next <= partition.end
            and partition.start < chunk.next
            and (reached is None or reached <= chunk.first)
            and 0 <= chunk.missing <= _OFFSET_MAX
            and 0 <= chunk.last_crc <= 0xFFFFFFFF,
            f"chunks of {place}",
        )
        reached = chunk.next


def _check_object(sha: str, size: int) -> None:
    _demand(_SHA.fullmatch(sha) is not None, "an object has no checksum for a name")
    _demand(0 < size <= OBJECT_BYTES_MAX, f"an object of {size} bytes")


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)
