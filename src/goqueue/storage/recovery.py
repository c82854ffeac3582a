"""Find a log's segments on disk and bring them into a state that can be served and appended to."""

from collections.abc import Collection
from itertools import pairwise, product
from pathlib import Path
from typing import Final, NamedTuple

from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import TEMPORARY_SUFFIX
from goqueue.storage.segment import Segment
from goqueue.storage.segment_files import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    SegmentFiles,
    base_offset_in,
    file_name,
)
from goqueue.storage.segment_home import SegmentHome
from goqueue.storage.survey import Scrutiny

_INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)


class LostSegment(NamedTuple):
    """`next_offset` is where it ended at least."""

    base_offset: int
    next_offset: int


class Leftovers(NamedTuple):
    """Files beside the segments. `orphans`: index files without a log file."""

    orphans: list[Path]
    lost: list[LostSegment]
    # Whether there are segments that retention was about to delete.
    has_removed: bool

    @property
    def lost_end(self) -> int:
        return max((lost.next_offset for lost in self.lost), default=0)


def recover_segments(
    home: SegmentHome,
    names: Collection[str],
    *,
    clean: bool,
    recovery_offset: int,
    index_interval_bytes: int,
    scrutiny: Scrutiny,
) -> list[Segment]:
    """The segments in order, the last one ending at the log's end; empty for a new log.

    `names` are those of the files in the folder.
    After a clean shutdown this reads the last segment's index and nothing else. Otherwise it
    verifies what may not have reached the disk: every segment that ends after `recovery_offset`.
    """
    segments = [
        Segment(
            home,
            base_offset,
            index_interval_bytes=index_interval_bytes,
            size_bytes=home.disk.stat(home.folder / file_name(base_offset, LOG_SUFFIX)).st_size,
        )
        for base_offset in _base_offsets(home.disk, home.folder, names)
    ]
    for segment, following in pairwise(segments):
        segment.next_offset = following.base_offset
    if not segments or (clean and segments[-1].trust()):
        return segments
    if not clean:
        for segment in segments[:-1]:
            if segment.next_offset > recovery_offset:
                segment.recover_closed(scrutiny)
    segments[-1].recover_last(scrutiny)
    # A crash right after a roll can tear the tail of the segment before the one just begun.
    while (
        len(segments) > 1
        and segments[-1].size_bytes == 0
        and segments[-2].has_bad_tail
        and segments[-2].next_offset > recovery_offset
        and not segments[-2].is_foreign
    ):
        segments.pop().remove()
        segments[-1].recover_last(scrutiny._replace(on_batch=None))
    return segments


def _base_offsets(disk: Disk, folder: Path, names: Collection[str]) -> list[int]:
    """Base offsets of the log files; files that an earlier run was about to delete go now."""
    base_offsets = []
    for name in names:
        if name.endswith((DELETED_SUFFIX, TEMPORARY_SUFFIX)):
            disk.unlink(folder / name)
            continue
        base_offset = base_offset_in(name, LOG_SUFFIX)
        if base_offset is not None:
            base_offsets.append(base_offset)
    return sorted(base_offsets)


def noted_as_flushed(disk: Disk, folder: Path, names: Collection[str]) -> int:
    """Up to where the segment that takes appends was on disk, as far as that was noted; else 0.

    To be called before `recover_segments`, which notes something else.
    """
    found = (base_offset_in(name, LOG_SUFFIX) for name in names)
    last = max((base_offset for base_offset in found if base_offset is not None), default=None)
    return 0 if last is None else SegmentFiles(disk, folder, last).flushed_offset()


def find_leftovers(disk: Disk, folder: Path, names: Collection[str]) -> Leftovers:
    """To be called before `recover_segments`, which removes some of them.

    A log file is made after its index files and removed after them: if they say which log file is
    theirs, it was there and has been lost.
    """
    orphans, lost = [], []
    for suffix, name in product(_INDEX_SUFFIXES, sorted(names)):
        base_offset = base_offset_in(name, suffix)
        if base_offset is None or file_name(base_offset, LOG_SUFFIX) in names:
            continue
        orphans.append(folder / name)
        noted = SegmentFiles(disk, folder, base_offset).noted_origin()
        if noted is not None and suffix == INDEX_SUFFIX:
            lost.append(LostSegment(base_offset, noted.next_offset))
    has_removed = any(name.endswith(LOG_SUFFIX + DELETED_SUFFIX) for name in names)
    return Leftovers(orphans, lost, has_removed)
