"""Open a partition's folder: whose it is, its small files, its segments."""

import logging
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from goqueue.model.errors import PartitionOffline
from goqueue.model.names import TopicPartition
from goqueue.storage.checkpoint import Checkpoint
from goqueue.storage.clean_stop import LogEnd
from goqueue.storage.compaction.history import History
from goqueue.storage.compaction.swapping import is_to_be_settled, settle
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import DamagedFile, load, save
from goqueue.storage.epochs import EpochsOfBatches, EpochStart, LeaderEpochs
from goqueue.storage.log_health import LogHealth
from goqueue.storage.open_segments import OpenSegments
from goqueue.storage.partition_files import (
    CHECKPOINT_FILE,
    EPOCHS_FILE,
    IDENTITY_FILE,
    PartitionIdentity,
)
from goqueue.storage.recovery import Leftovers, find_leftovers, noted_as_flushed, recover_segments
from goqueue.storage.segment import Segment
from goqueue.storage.segment_home import SegmentHome
from goqueue.storage.survey import OnBatch, Scrutiny

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
    open_segments: OpenSegments,
    clean: bool,
    closed: LogEnd | None,
    index_interval_bytes: int,
    now_ms: int,
    on_batch: OnBatch | None,
    epoch_max: int | None,
) -> OpenedPartition:
    """Make the folder if need be, recover what is in it, and leave at least one segment there.

    `closed` is what the log had when it was closed in order, if that is known: what is missing now
    is reported as damage, and its offsets are not used again.
    """
    disk.mkdir(path)
    is_new = _claim(disk, path, name, topic_id)
    # Thousands of folders are opened at a start, most of them with little in them: what is not
    # there need not be asked for.
    names = set(disk.listdir(path))
    checkpoint = Checkpoint(disk, path / CHECKPOINT_FILE)
    if CHECKPOINT_FILE in names:
        _load_checkpoint(checkpoint)
    known_epochs = _load_epochs(disk, path)
    epochs = known_epochs or LeaderEpochs(disk, path / EPOCHS_FILE)
    home = SegmentHome(path, name, epochs, disk, LogHealth(name), open_segments)
    # Without a file, and if not all batches are looked at, every epoch is accepted at first.
    finds_epochs = known_epochs is not None or not (clean or checkpoint.recovery_offset)
    compactions = History()
    if is_to_be_settled(names):
        compactions = settle(disk, path)
        names = set(disk.listdir(path))
    leftovers = find_leftovers(disk, path, names)
    _drop_orphans(disk, leftovers, name)
    flushed_offset = 0 if clean else noted_as_flushed(disk, path, names)
    segments = recover_segments(
        home,
        names,
        clean=clean,
        recovery_offset=checkpoint.recovery_offset,
        index_interval_bytes=index_interval_bytes,
        scrutiny=Scrutiny(on_batch, EpochsOfBatches(epochs, epoch_max) if finds_epochs else epochs),
    )
    if not segments and not is_new and closed is None:
        logger.error("%s: its folder is there without a segment: what it held is gone", name)
    known = closed or _had_at_least(checkpoint, segments, leftovers, flushed_offset)
    _compare(checkpoint, segments, known, name)
    if segments and segments[-1].next_offset < checkpoint.log_start_offset:
        logger.warning("%s: all that is left lies below the log's start and is removed", name)
        for segment in segments:
            segment.remove()
        segments = []
    if segments and (segments[-1].next_offset < known.end or segments[-1].is_foreign):
        end = known.end if closed is not None else max(known.end, segments[-1].next_offset)
        _leave_gap(segments[-1], end)
        segments.append(Segment(home, end, index_interval_bytes=index_interval_bytes))
        segments[-1].create(now_ms)
    if not segments:
        first_offset = max(checkpoint.log_start_offset, known.end)
        segment = Segment(home, first_offset, index_interval_bytes=index_interval_bytes)
        segment.create(now_ms)
        segments = [segment]
    checkpoint.note(first_offset=segments[0].base_offset)
    if not finds_epochs:
        _rebuild_epochs(epochs, segments)
    else:
        # An epoch that starts at the end may be assigned before its first append.
        epochs.truncate_end(segments[-1].next_offset + 1)
    return OpenedPartition(home, segments, checkpoint, compactions, is_new)


def _drop_orphans(disk: Disk, leftovers: Leftovers, name: TopicPartition) -> None:
    for lost in leftovers.lost:
        logger.error("%s: the segment with offset %d is gone", name, lost.base_offset)
    for file in leftovers.orphans:
        disk.unlink(file)


def _had_at_least(
    checkpoint: Checkpoint, segments: list[Segment], leftovers: Leftovers, flushed_offset: int
) -> LogEnd:
    """What a log had that was not closed in order, as far as that is known."""
    end = max(checkpoint.recovery_offset, flushed_offset, leftovers.lost_end)
    first_offset = segments[0].base_offset if segments else end
    start = checkpoint.first_offset
    if start is None or leftovers.has_removed:
        start = first_offset
    return LogEnd(max(min(start, first_offset), checkpoint.log_start_offset), end)


def _compare(
    checkpoint: Checkpoint, segments: list[Segment], closed: LogEnd, name: TopicPartition
) -> None:
    """Say what is missing, and start where the log started."""
    first_offset = segments[0].base_offset if segments else closed.end
    if first_offset > closed.start:
        logger.error(
            "%s: offsets %d to %d were there when the broker stopped, and are gone",
            name,
            closed.start,
            first_offset - 1,
        )
    elif max(first_offset, checkpoint.log_start_offset) < closed.start:
        # Without this, records that were deleted would be back.
        logger.error("%s: its start was forgotten, and is at offset %d again", name, closed.start)
        checkpoint.save(log_start_offset=closed.start)


def _leave_gap(last: Segment, end: int) -> None:
    """The log went up to `end`: what is missing is a gap, as in a damaged segment."""
    last.next_offset = end
    last.recover_closed()


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


def _load_checkpoint(checkpoint: Checkpoint) -> None:
    try:
        checkpoint.load()
    except DamagedFile as error:
        logger.error("%s; the log starts at its first segment and is verified as a whole", error)


def _load_epochs(disk: Disk, path: Path) -> LeaderEpochs | None:
    try:
        return LeaderEpochs.load(disk, path / EPOCHS_FILE)
    except DamagedFile as error:
        logger.error("%s; rebuilt from the log", error)
        return None


def _rebuild_epochs(epochs: LeaderEpochs, segments: list[Segment]) -> None:
    found: list[EpochStart] = []
    for segment in segments:
        for _, header in segment.headers_from(segment.base_offset):
            if not found or header.leader_epoch > found[-1].epoch:
                found.append(EpochStart(header.leader_epoch, header.base_offset))
    # Not before all are looked at: a segment that is scanned is held against what is known.
    for entry in found:
        epochs.assign(*entry)
