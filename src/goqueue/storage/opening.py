"""Open a partition's folder: whose it is, its small files, its segments."""

import logging
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from goqueue.model.errors import PartitionOffline
from goqueue.model.names import TopicPartition
from goqueue.storage.checkpoint import Checkpoint
from goqueue.storage.compaction.history import History
from goqueue.storage.compaction.swapping import settle
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import DamagedFile, load, save
from goqueue.storage.epochs import LeaderEpochs
from goqueue.storage.partition_files import (
    CHECKPOINT_FILE,
    EPOCHS_FILE,
    IDENTITY_FILE,
    PartitionIdentity,
)
from goqueue.storage.recovery import recover_segments
from goqueue.storage.segment import Segment, SegmentHome
from goqueue.storage.segment_readers import SegmentReaders
from goqueue.storage.survey import OnBatch

logger = logging.getLogger(__name__)


class OpenedPartition(NamedTuple):
    home: SegmentHome
    segments: list[Segment]
    checkpoint: Checkpoint
    compactions: History
    is_new: bool


def open_partition(
    path: Path,
    *,
    name: TopicPartition,
    topic_id: UUID,
    disk: Disk,
    readers: SegmentReaders,
    clean: bool,
    index_interval_bytes: int,
    now_ms: int,
    on_batch: OnBatch | None,
) -> OpenedPartition:
    """Make the folder if need be, recover what is in it, and leave at least one segment there."""
    disk.mkdir(path)
    is_new = _claim(disk, path, name, topic_id)
    checkpoint = _load_checkpoint(disk, path)
    known_epochs = _load_epochs(disk, path)
    epochs = known_epochs or LeaderEpochs(disk, path / EPOCHS_FILE)
    home = SegmentHome(path, name, epochs, disk, readers)
    compactions = settle(disk, path)
    segments = recover_segments(
        home,
        clean=clean,
        recovery_offset=checkpoint.recovery_offset,
        index_interval_bytes=index_interval_bytes,
        on_batch=on_batch,
    )
    if segments and segments[-1].next_offset < checkpoint.log_start_offset:
        logger.warning("%s: all that is left lies below the log's start and is removed", name)
        for segment in segments:
            segment.remove()
        segments = []
    if not segments:
        segment = Segment(
            home, checkpoint.log_start_offset, index_interval_bytes=index_interval_bytes
        )
        segment.create(now_ms)
        segments = [segment]
    if known_epochs is None:
        _rebuild_epochs(epochs, segments)
    else:
        # An epoch that starts at the end may be assigned before its first append.
        epochs.truncate_end(segments[-1].next_offset + 1)
    return OpenedPartition(home, segments, checkpoint, compactions, is_new)


def _claim(disk: Disk, path: Path, name: TopicPartition, topic_id: UUID) -> bool:
    """Check that the folder is this partition's, or make it so; True if it was nobody's.

    The file only helps to tell whose folders lie around, so it is not worth an fsync.
    """
    ours = PartitionIdentity(topic=name.topic, partition=name.partition, topic_id=topic_id)
    try:
        found = load(disk, path / IDENTITY_FILE, PartitionIdentity)
    except DamagedFile as error:
        logger.warning("%s; written anew", error)
        found = None
    if found is None:
        save(disk, path / IDENTITY_FILE, ours, durable=False)
    elif found != ours:
        raise PartitionOffline(
            f"{name}: {path} belongs to {found.topic}-{found.partition} with topic id "
            f"{found.topic_id}, not {topic_id}; move the folder away to start empty"
        )
    return found is None


def _load_checkpoint(disk: Disk, path: Path) -> Checkpoint:
    checkpoint = Checkpoint(disk, path / CHECKPOINT_FILE)
    try:
        checkpoint.load()
    except DamagedFile as error:
        logger.error("%s; the log starts at its first segment and is verified as a whole", error)
    return checkpoint


def _load_epochs(disk: Disk, path: Path) -> LeaderEpochs | None:
    try:
        return LeaderEpochs.load(disk, path / EPOCHS_FILE)
    except DamagedFile as error:
        logger.error("%s; rebuilt from the log", error)
        return None


def _rebuild_epochs(epochs: LeaderEpochs, segments: list[Segment]) -> None:
    for segment in segments:
        for _, header in segment.headers_from(segment.base_offset):
            epochs.assign(header.leader_epoch, header.base_offset)
