"""What is wrong with a data directory: every batch of every log is verified."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from goqueue.storage.checkpoint import Checkpoint
from goqueue.storage.clean_stop import CleanStop
from goqueue.storage.damage import Gap
from goqueue.storage.data_directory import CLEAN_FILE, FORMAT_FILE, FolderFormat
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import DamagedFile, load
from goqueue.storage.epochs import EpochsOfBatches, LeaderEpochs
from goqueue.storage.partition_files import (
    CHECKPOINT_FILE,
    EPOCHS_FILE,
    IDENTITY_FILE,
    PartitionIdentity,
    is_to_be_removed,
)
from goqueue.storage.recovery import find_leftovers, noted_as_flushed
from goqueue.storage.scan import KnownEpochs, scan
from goqueue.storage.segment_files import LOG_SUFFIX, SegmentFiles, base_offset_in, file_name
from goqueue.storage.survey import nothing_of, survey

# Only the offsets matter here; an index is not kept.
_INDEX_INTERVAL_BYTES: Final = 1 << 30
MAY_READ: Final = "see that this user may read it"
_MOVE_AWAY: Final = "no broker made it; move it away"


class DamagedLog(NamedTuple):
    """A segment with stretches that hold no valid batch."""

    folder: Path
    base_offset: int
    gaps: tuple[Gap, ...]

    @property
    def path(self) -> Path:
        return self.folder / f"{self.base_offset:020d}{LOG_SUFFIX}"


class DamagedSmallFile(NamedTuple):
    """Anything else, also a folder that was set aside; a start makes most of these files anew."""

    path: Path
    reason: str
    repair: str = "made anew by the next start"


def stored_folders(disk: Disk, logs: Path) -> list[Path]:
    names = disk.listdir(logs)
    return [logs / name for name in sorted(names) if not is_to_be_removed(name)]


def stray_folders(disk: Disk, strays: Path) -> list[Path]:
    """What a start set aside because the metadata did not know it."""
    if not strays.is_dir():
        return []
    paths = (strays / name for name in sorted(disk.listdir(strays)))
    return [path for path in paths if path.is_dir() and not path.is_symlink()]


def check_top_files(disk: Disk, path: Path) -> Iterator[DamagedSmallFile]:
    """The format, and where every log ended when the broker stopped."""
    try:
        load(disk, path / FORMAT_FILE, FolderFormat)
    except DamagedFile as error:
        yield DamagedSmallFile(path / FORMAT_FILE, str(error), "restore it from a copy")
    try:
        load(disk, path / CLEAN_FILE, CleanStop)
    except DamagedFile as error:
        yield DamagedSmallFile(
            path / CLEAN_FILE, str(error), "the next start verifies every log as after a crash"
        )


def check_strays(disk: Disk, strays: Path) -> Iterator[DamagedSmallFile]:
    try:
        folders = stray_folders(disk, strays)
    except OSError as error:
        yield _unreadable(strays, error)
        return
    for path in folders:
        whose = _read_identity(disk, path)
        name = "it" if whose is None else f"{whose.topic}-{whose.partition}"
        yield DamagedSmallFile(
            path,
            f"the metadata did not know {name}",
            "kept; `goqueue data remove-strays` deletes it",
        )


def check_folder(
    disk: Disk, folder: Path, stop: CleanStop | None
) -> Iterator[DamagedLog | DamagedSmallFile]:
    """What is wrong with one partition."""
    if not folder.is_dir():
        yield DamagedSmallFile(folder, "it is no folder", _MOVE_AWAY)
        return
    try:
        for name in sorted(disk.listdir(folder)):
            if not (folder / name).is_file():
                yield DamagedSmallFile(folder / name, "it is no file", _MOVE_AWAY)
        yield from _check_files(disk, folder, stop)
    except OSError as error:
        yield _unreadable(folder, error)


def _unreadable(path: Path, error: OSError) -> DamagedSmallFile:
    return DamagedSmallFile(path, f"it cannot be read: {error}", MAY_READ)


def _check_files(
    disk: Disk, folder: Path, stop: CleanStop | None
) -> Iterator[DamagedLog | DamagedSmallFile]:
    yield from _check_small_files(disk, folder)
    closed = None if stop is None else stop.end_of(folder.name)
    checkpoint = _read_checkpoint(disk, folder)
    names = set(disk.listdir(folder))
    leftovers = find_leftovers(disk, folder, names)
    base_offsets = _base_offsets(disk, folder)
    for lost in leftovers.lost:
        if base_offsets and base_offsets[0] < lost.base_offset:
            continue  # listed as what the segment before it should have reached
        yield DamagedSmallFile(
            folder / file_name(lost.base_offset, LOG_SUFFIX),
            "it is gone; its index is there",
            "restore it from a copy, or the next start leaves its offsets out",
        )
    start = checkpoint.first_offset if closed is None else closed.start
    if start is not None and base_offsets and not leftovers.has_removed:
        start = max(start, checkpoint.log_start_offset)
        if start < base_offsets[0]:
            yield DamagedSmallFile(
                folder,
                f"offsets {start} to {base_offsets[0] - 1} are gone",
                "restore them from a copy, or the next start leaves them out",
            )
    found_any = False
    end = (
        max(checkpoint.recovery_offset, leftovers.lost_end, noted_as_flushed(disk, folder, names))
        if closed is None
        else closed.end
    )
    for damaged in _check_segments(
        disk, folder, base_offsets, end, is_end_known=closed is not None
    ):
        found_any = True
        if isinstance(damaged, DamagedSmallFile) or damaged.gaps:
            yield damaged
    if not found_any and closed is not None and closed.start < closed.end:
        yield DamagedSmallFile(
            folder,
            f"its segments are gone; they had offsets {closed.start} to {closed.end - 1}",
            "restore the folder from a copy, or the next start begins where it ended",
        )


def _check_small_files(disk: Disk, folder: Path) -> Iterator[DamagedSmallFile]:
    paths = (folder / name for name in (IDENTITY_FILE, CHECKPOINT_FILE, EPOCHS_FILE))
    for path in (path for path in paths if path.is_file()):
        try:
            load(disk, path, PartitionIdentity if path.name == IDENTITY_FILE else object)
        except DamagedFile as error:
            yield DamagedSmallFile(path, str(error))
        except OSError as error:
            yield _unreadable(path, error)
    whose = _read_identity(disk, folder)
    if whose is not None and f"{whose.topic}-{whose.partition}" != folder.name:
        yield DamagedSmallFile(
            folder / IDENTITY_FILE,
            f"it is that of {whose.topic}-{whose.partition}",
            "restore it from a copy, or remove it if the other files are those of this one",
        )


def _read_identity(disk: Disk, folder: Path) -> PartitionIdentity | None:
    """None where it cannot be read."""
    try:
        return load(disk, folder / IDENTITY_FILE, PartitionIdentity)
    except (DamagedFile, OSError):
        return None


def _read_checkpoint(disk: Disk, folder: Path) -> Checkpoint:
    checkpoint = Checkpoint(disk, folder / CHECKPOINT_FILE)
    with contextlib.suppress(DamagedFile, OSError):
        checkpoint.load()
    return checkpoint


def _base_offsets(disk: Disk, folder: Path) -> list[int]:
    names = (name for name in disk.listdir(folder) if (folder / name).is_file())
    found = (base_offset_in(name, LOG_SUFFIX) for name in names)
    return sorted(base_offset for base_offset in found if base_offset is not None)


def _check_segments(
    disk: Disk, folder: Path, base_offsets: list[int], end: int, *, is_end_known: bool
) -> Iterator[DamagedLog | DamagedSmallFile]:
    """All segments, those without gaps among them. `end` is where the log ended, or at least."""
    stored = read_epochs(disk, folder)
    # A broker that was killed may have known of epochs that the file lacks.
    is_complete = is_end_known or not stored.entries
    epochs = stored if is_complete else EpochsOfBatches(stored, None)
    ends: list[int | None] = [*base_offsets[1:], end if is_end_known else None]
    for base_offset, next_offset in zip(base_offsets, ends, strict=False):
        try:
            yield _check_segment(disk, folder, base_offset, next_offset, epochs, at_least=end)
        except OSError as error:
            yield _unreadable(folder / file_name(base_offset, LOG_SUFFIX), error)


def _check_segment(
    disk: Disk,
    folder: Path,
    base_offset: int,
    next_offset: int | None,
    epochs: KnownEpochs,
    *,
    at_least: int,
) -> DamagedLog | DamagedSmallFile:
    """Without `next_offset` nobody noted where it ended, only that it was not before `at_least`.

    A bad end may then be an append that was under way, and a start cuts it off.
    """
    files = SegmentFiles(disk, folder, base_offset)
    size = disk.stat(files.path()).st_size
    with files.open_log() as file:
        batches = scan(file, size, base_offset, epochs=epochs, end_offset=next_offset)
        found = survey(batches, base_offset, _INDEX_INTERVAL_BYTES)
        foreign = files.why_foreign(file, size) or files.why_another_version(found, size)
    end = max(found.next_offset, at_least) if next_offset is None else next_offset
    if foreign is not None:
        noted = files.noted_origin()
        if next_offset is None and noted is not None:
            end = max(end, noted.next_offset)
        found = nothing_of(base_offset, foreign)
    gaps = found.all_gaps(size, max(end, base_offset))
    if size == 0 and not gaps and files.noted_origin() is not None:
        return DamagedSmallFile(
            files.path(), "what it held is gone", "restore it from a copy, or the log ends before"
        )
    return DamagedLog(folder, base_offset, gaps)


def read_epochs(disk: Disk, folder: Path) -> LeaderEpochs:
    """As the file says; none where it cannot be read, so that every epoch is accepted."""
    try:
        known = LeaderEpochs.load(disk, folder / EPOCHS_FILE)
    except (DamagedFile, OSError):
        known = None
    return known or LeaderEpochs(disk, folder / EPOCHS_FILE)
