"""Make a data directory of a backup: that of a node of one, which can become a cluster's first.

A mark is written first and `format.json`, without which no broker starts on a folder, last. So a
restore that was cut short is never taken for a node, and is begun again from the start. Indexes,
snapshots and the like are not in a backup: the broker makes them anew, and verifies every batch
once more, as it does after a crash.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from goqueue.backup.catalogue import Catalogue
from goqueue.backup.chunks import checked_batches
from goqueue.backup.errors import BackupDamaged, BackupFailed
from goqueue.backup.manifest import Chunk, Manifest, PartitionCopy, TopicCopy
from goqueue.backup.progress import Progress
from goqueue.backup.rate import Rate
from goqueue.backup.stored_metadata import read_metadata
from goqueue.backup.work import Crew
from goqueue.metadata.local import LocalStore
from goqueue.metadata.store import Put
from goqueue.model.batch_editing import covering_all
from goqueue.model.names import NodeId, topic_partition
from goqueue.state import metadata_keys as keys
from goqueue.state.sole_node import entries_of_sole_node
from goqueue.storage.checkpoint import Checkpoint
from goqueue.storage.data_directory import (
    FORMAT_FILE,
    FORMAT_VERSION,
    LOCK_FILE,
    LOGS_FOLDER,
    METADATA_FOLDER,
    RESTORING_FILE,
    FolderFormat,
)
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import DamagedFile, load, save
from goqueue.storage.open_file import OpenFile
from goqueue.storage.partition_files import CHECKPOINT_FILE, IDENTITY_FILE, PartitionIdentity
from goqueue.storage.segment_files import LOG_SUFFIX, file_name

_KEYS_A_TRANSACTION: Final = 10_000
# Space that a file system wants beside the data, and what the broker makes of them: indexes.
_SPACE_SHARE: Final = 1.02
# What a restore makes, and may remove when it begins again.
_OWN: Final = frozenset({RESTORING_FILE, LOGS_FOLDER, METADATA_FOLDER, LOCK_FILE})
_HARMLESS: Final = frozenset({LOCK_FILE, "lost+found"})
# A mark is replaced as a whole.
_TEMPORARY_MARK: Final = RESTORING_FILE + ".tmp"


class _Mark(msgspec.Struct, frozen=True):
    backup: str


class _Piece(NamedTuple):
    topic: TopicCopy
    number: int
    partition: PartitionCopy


def restore(
    catalogue: Catalogue,
    manifest: Manifest,
    target: Path,
    *,
    node_id: NodeId,
    jobs: int,
    rate: Rate,
    progress: Progress,
) -> None:
    """`target` is empty, missing, or holds what a restore that was cut short has left."""
    disk = Disk()
    entries = read_metadata(catalogue, manifest)
    _take(disk, target, manifest)
    save(disk, target / RESTORING_FILE, _Mark(manifest.id))
    disk.mkdir(target / LOGS_FOLDER)
    pieces = [
        _Piece(topic, index, partition)
        for topic in manifest.topics
        for index, partition in enumerate(topic.partitions)
    ]
    pieces.sort(key=lambda piece: -sum(chunk.size for chunk in piece.partition.chunks))
    crew: Crew[_Piece, None] = Crew(
        jobs,
        lambda piece: _Restored(catalogue, disk, target, piece).write(
            rate, progress, lambda: crew.check()
        ),
    )
    progress.begin("restored", manifest.size_bytes)
    try:
        crew.run(pieces)
    finally:
        progress.end()
    disk.fsync_dir(target / LOGS_FOLDER)
    asyncio.run(_write_metadata(target / METADATA_FOLDER, manifest, entries, node_id))
    disk.fsync_dir(target)
    whole = FolderFormat(version=FORMAT_VERSION, cluster_id=manifest.cluster_id)
    save(disk, target / FORMAT_FILE, whole)
    disk.unlink(target / RESTORING_FILE)
    disk.fsync_dir(target)


def _take(disk: Disk, target: Path, manifest: Manifest) -> None:
    """The folder is ours and empty on return."""
    disk.mkdir(target)
    found = set(disk.listdir(target)) - {_TEMPORARY_MARK}
    if RESTORING_FILE in found and FORMAT_FILE not in found:
        try:
            load(disk, target / RESTORING_FILE, _Mark)
        except DamagedFile as error:
            raise BackupFailed(f"{error}; give an empty folder") from error
        strangers = sorted(found - _OWN - _HARMLESS)
        if not strangers:
            for folder in (LOGS_FOLDER, METADATA_FOLDER):
                if folder in found:
                    shutil.rmtree(target / folder)
            found -= _OWN
    strangers = sorted(found - _HARMLESS)
    if strangers:
        raise BackupFailed(
            f"{target} is not empty: it holds {strangers[0]!r}; give an empty folder"
        )
    space = disk.statvfs(target)
    free_bytes = space.f_bavail * space.f_frsize
    if manifest.size_bytes * _SPACE_SHARE > free_bytes:
        raise BackupFailed(
            f"backup {manifest.id} has {manifest.size_bytes} bytes, and the disk of {target} has "
            f"{free_bytes} left; give a folder on a larger one"
        )


async def _write_metadata(
    path: Path, manifest: Manifest, entries: dict[str, bytes], node_id: NodeId
) -> None:
    """Leaders begin an epoch of their own: readers that were further than the backup notice that
    what they read is gone (KIP-320)."""
    owners = {key for key in entries if key.startswith(keys.BROKER_CONFIGS_PREFIX)}
    owners.discard(keys.broker_config_key(None))
    if len(owners) > 1:
        # Of several brokers, none is the one that the node will be.
        entries = {key: value for key, value in entries.items() if key not in owners}
    puts = [Put(*each) for each in entries_of_sole_node(entries.items(), node_id, epochs_later=1)]
    puts.append(Put(*keys.cluster_id_entry(manifest.cluster_id)))
    store = await LocalStore.open(path)
    try:
        for first in range(0, len(puts), _KEYS_A_TRANSACTION):
            await store.transact((), puts[first : first + _KEYS_A_TRANSACTION])
    finally:
        await store.close()


class _Restored:
    """One partition's folder: a segment for each chunk."""

    def __init__(self, catalogue: Catalogue, disk: Disk, target: Path, piece: _Piece) -> None:
        self._catalogue = catalogue
        self._disk = disk
        self._piece = piece
        self._name = topic_partition(piece.topic.name, piece.number)
        self._folder = target / LOGS_FOLDER / str(self._name)
        # Of the last batch that was written; leaders' epochs only grow.
        self._epoch: int | None = None

    def write(self, rate: Rate, progress: Progress, check: Callable[[], None]) -> None:
        partition = self._piece.partition
        self._disk.mkdir(self._folder)
        reached = partition.start
        for position, chunk in enumerate(partition.chunks):
            check()
            rate.take(chunk.size)
            content = self._catalogue.get(chunk.sha, chunk.size)
            is_last = position == len(partition.chunks) - 1
            base = min(reached, chunk.first)
            parts = self._parts(content, chunk, reached, partition.end if is_last else None)
            self._write_segment(base, parts)
            reached = chunk.next
            progress.add(chunk.size)
        if not partition.chunks and partition.start < partition.end:
            gap = covering_all(partition.start, partition.end, 0)
            self._write_segment(partition.start, gap)
        identity = PartitionIdentity(
            topic=self._name.topic,
            partition=self._name.partition,
            topic_id=self._piece.topic.id,
        )
        save(self._disk, self._folder / IDENTITY_FILE, identity)
        if partition.start:
            checkpoint = Checkpoint(self._disk, self._folder / CHECKPOINT_FILE)
            checkpoint.save(log_start_offset=partition.start)
        self._disk.fsync_dir(self._folder)

    def _parts(
        self, content: bytes, chunk: Chunk, reached: int, end: int | None
    ) -> Iterator[memoryview | bytes]:
        """The batches, and empty ones where offsets are missing: a log has no gaps."""
        view = memoryview(content)
        written = 0
        for position, header, before in checked_batches(content, chunk, reached):
            epoch = header.leader_epoch if self._epoch is None else self._epoch
            if header.leader_epoch < epoch:
                raise BackupDamaged(f"{self._name}: epochs of object {chunk.sha} go back")
            if header.base_offset > before:
                if position > written:
                    yield view[written:position]
                yield from covering_all(before, header.base_offset, epoch)
                written = position
            self._epoch = header.leader_epoch
        yield view[written:]
        if end is not None and chunk.next < end:
            yield from covering_all(chunk.next, end, self._epoch or 0)

    def _write_segment(self, base: int, parts: Iterator[memoryview | bytes]) -> None:
        path = self._folder / file_name(base, LOG_SUFFIX)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with OpenFile(self._disk, path, flags) as file:
            position = 0
            for part in parts:
                file.write(part, position)
                position += len(part)
            file.sync()
