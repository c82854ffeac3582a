"""What is wrong with a data directory: every batch of every log is verified."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from goqueue.storage.clean_stop import CleanStop, LogEnd
from goqueue.storage.damage import Gap
from goqueue.storage.data_directory import FORMAT_FILE, FolderFormat
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import DamagedFile, load
from goqueue.storage.epochs import LeaderEpochs
from goqueue.storage.open_file import OpenFile
from goqueue.storage.partition_files import (
    CHECKPOINT_FILE,
    DELETED_FOLDER_SUFFIX,
    EPOCHS_FILE,
    IDENTITY_FILE,
    PartitionIdentity,
)
from goqueue.storage.scan import scan
from goqueue.storage.segment_files import LOG_SUFFIX
from goqueue.storage.survey import survey

# Only the offsets matter here; an index is not kept.
_INDEX_INTERVAL_BYTES: Final = 1 << 30


class DamagedLog(NamedTuple):
    """A segment with stretches that hold no valid batch.

    `next_offset` is where the segment ends; None for the last of a log whose end nobody noted: a
    bad end may then be an append that was under way, and a start cuts it off.
    """

    folder: Path
    base_offset: int
    next_offset: int | None
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
    return [logs / name for name in sorted(names) if not name.endswith(DELETED_FOLDER_SUFFIX)]


def stray_folders(disk: Disk, strays: Path) -> list[Path]:
    """What a start set aside because the metadata did not know it."""
    if not strays.is_dir():
        return []
    return [strays / name for name in sorted(disk.listdir(strays))]


def check_format(disk: Disk, path: Path) -> Iterator[DamagedSmallFile]:
    try:
        load(disk, path / FORMAT_FILE, FolderFormat)
    except DamagedFile as error:
        yield DamagedSmallFile(path / FORMAT_FILE, str(error), "restore it from a copy")


def check_strays(disk: Disk, strays: Path) -> Iterator[DamagedSmallFile]:
    for path in stray_folders(disk, strays):
        try:
            whose = load(disk, path / IDENTITY_FILE, PartitionIdentity)
        except DamagedFile:
            whose = None
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
    yield from _check_small_files(disk, folder)
    closed = None if stop is None else stop.end_of(folder.name)
    found_any = False
    for damaged in _check_segments(disk, folder, closed):
        found_any = True
        if damaged.gaps:
            yield damaged
    if not found_any and closed is not None and closed.start < closed.end:
        yield DamagedSmallFile(
            folder,
            f"its segments are gone; they had offsets {closed.start} to {closed.end - 1}",
            "restore the folder from a copy, or the next start begins where it ended",
        )


def _check_small_files(disk: Disk, folder: Path) -> Iterator[DamagedSmallFile]:
    try:
        whose = load(disk, folder / IDENTITY_FILE, PartitionIdentity)
    except DamagedFile as error:
        yield DamagedSmallFile(folder / IDENTITY_FILE, str(error))
    else:
        if whose is not None and f"{whose.topic}-{whose.partition}" != folder.name:
            yield DamagedSmallFile(
                folder / IDENTITY_FILE,
                f"it is that of {whose.topic}-{whose.partition}",
                "restore it from a copy, or remove it if the other files are those of this one",
            )
    for name in (CHECKPOINT_FILE, EPOCHS_FILE):
        try:
            load(disk, folder / name, object)
        except DamagedFile as error:
            yield DamagedSmallFile(folder / name, str(error))


def _check_segments(disk: Disk, folder: Path, closed: LogEnd | None) -> Iterator[DamagedLog]:
    """All segments, those without gaps among them."""
    epochs = read_epochs(disk, folder)
    base_offsets = sorted(
        int(name.removesuffix(LOG_SUFFIX))
        for name in disk.listdir(folder)
        if name.endswith(LOG_SUFFIX) and name.removesuffix(LOG_SUFFIX).isdecimal()
    )
    ends: list[int | None] = [*base_offsets[1:]]
    ends.append(None if closed is None else closed.end)
    for base_offset, next_offset in zip(base_offsets, ends, strict=False):
        yield _check_segment(disk, folder, base_offset, next_offset, epochs)


def _check_segment(
    disk: Disk, folder: Path, base_offset: int, next_offset: int | None, epochs: LeaderEpochs
) -> DamagedLog:
    path = folder / f"{base_offset:020d}{LOG_SUFFIX}"
    size = disk.stat(path).st_size
    with OpenFile(disk, path) as file:
        batches = scan(
            file, size, base_offset, expected_epoch=epochs.covering, end_offset=next_offset
        )
        found = survey(batches, base_offset, _INDEX_INTERVAL_BYTES)
    end = found.next_offset if next_offset is None else next_offset
    return DamagedLog(folder, base_offset, next_offset, found.all_gaps(size, max(end, base_offset)))


def read_epochs(disk: Disk, folder: Path) -> LeaderEpochs:
    """As the file says; none where it cannot be read, so that every epoch is accepted."""
    try:
        known = LeaderEpochs.load(disk, folder / EPOCHS_FILE)
    except DamagedFile:
        known = None
    return known or LeaderEpochs(disk, folder / EPOCHS_FILE)
