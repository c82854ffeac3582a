"""The three files of a segment, under one name that can change."""

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from goqueue.storage.disk import Disk
from goqueue.storage.index import (
    SealedIndex,
    decode_index,
    encode_index,
    encode_open_index,
    stored_origin,
)
from goqueue.storage.open_file import OpenFile
from goqueue.storage.origin import Origin, origin_of, place_of, why_another_version, why_foreign
from goqueue.storage.survey import Survey

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
DELETED_SUFFIX: Final = ".deleted"
# The log file comes last: as long as it has its name, the others can be rebuilt.
SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX)
# As in Kafka's file names.
_OFFSET_DIGITS: Final = 20
_OFFSET_MAX: Final = 2**63 - 1


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:0{_OFFSET_DIGITS}d}{suffix}"


def base_offset_in(name: str, suffix: str) -> int | None:
    """Of a segment's file; None for any other name."""
    stem = name.removesuffix(suffix)
    if stem == name or len(stem) != _OFFSET_DIGITS or not (stem.isascii() and stem.isdecimal()):
        return None
    offset = int(stem)
    return offset if offset <= _OFFSET_MAX else None


class SegmentFiles:
    """Safe from any thread: a file is opened under the name it has at that moment."""

    def __init__(self, disk: Disk, folder: Path, base_offset: int, *, ending: str = "") -> None:
        self._disk = disk
        self._folder = folder
        self._base_offset = base_offset
        self._ending = ending
        self._place = place_of(folder.name, base_offset)
        self._lock = threading.Lock()

    def path(self, suffix: str = LOG_SUFFIX) -> Path:
        return self._folder / (file_name(self._base_offset, suffix) + self._ending)

    def create(self) -> OpenFile:
        """Make all three, so that a segment which exists has room for its index's names."""
        made: list[OpenFile] = []
        try:
            for suffix in SUFFIXES:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
                made.append(OpenFile(self._disk, self.path(suffix), flags))
        except OSError:
            for file in made:
                self._disk.unlink(file.path)
            raise
        return made[-1]

    def open_log(self, flags: int = os.O_RDONLY) -> OpenFile:
        with self._lock:
            return OpenFile(self._disk, self.path(), flags)

    def load_index(self, log_size: int) -> SealedIndex | None:
        """None when a file is missing, unreadable, or not sealed for this log and its size."""
        with self._lock:
            try:
                with (
                    OpenFile(self._disk, self.path(INDEX_SUFFIX)) as by_offset,
                    OpenFile(self._disk, self.path(TIME_INDEX_SUFFIX)) as by_time,
                ):
                    places, times = by_offset.read_all(), by_time.read_all()
            except OSError:
                return None
        origin = stored_origin(places)
        if origin is not None and origin.place != self._place:
            return None
        return decode_index(places, times, log_size)

    def save_index(self, sealed: SealedIndex, log_size: int) -> None:
        with self._lock:
            origin = self._find_origin(log_size, sealed.next_offset)
            contents = encode_index(sealed, self._base_offset, log_size, origin)
            for suffix, content in zip((INDEX_SUFFIX, TIME_INDEX_SUFFIX), contents, strict=True):
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                with OpenFile(self._disk, self.path(suffix), flags) as file:
                    file.write(content, 0)

    def note_origin(self, flushed_offset: int, *, is_wanted: Callable[[], bool]) -> None:
        """Note which log file this is, unless that is no longer wanted once it is our turn."""
        with self._lock:
            if not is_wanted():
                return
            origin = self._find_origin(0, flushed_offset)
            if origin is not None:
                flags = os.O_WRONLY | os.O_TRUNC
                with OpenFile(self._disk, self.path(INDEX_SUFFIX), flags) as file:
                    file.write(encode_open_index(origin), 0)

    def _find_origin(self, log_size: int, next_offset: int) -> Origin | None:
        with OpenFile(self._disk, self.path()) as log:
            return origin_of(log, self._place, log_size, next_offset)

    def noted_origin(self) -> Origin | None:
        """Which log file belongs here, if that was noted, whether or not it is there."""
        with self._lock:
            try:
                with OpenFile(self._disk, self.path(INDEX_SUFFIX)) as file:
                    return stored_origin(file.read_all())
            except OSError:
                return None

    def flushed_offset(self) -> int:
        """Up to where the log file that takes appends was on disk when that was noted; else 0."""
        noted = self.noted_origin()
        if noted is None or noted.place != self._place or noted.log_size:
            return 0
        return noted.next_offset if noted.next_offset > self._base_offset else 0

    def why_foreign(self, log: OpenFile, log_size: int) -> str | None:
        """Why this is not the log file that belongs here, if its beginning tells."""
        noted = self.noted_origin()
        return None if noted is None else why_foreign(noted, log, log_size, self._place)

    def why_another_version(self, found: Survey, log_size: int) -> str | None:
        """The same, once every batch of it was looked at."""
        noted = self.noted_origin()
        if noted is None or noted.place != self._place or found.gaps or found.tail is not None:
            return None
        return why_another_version(noted, log_size, found.next_offset)

    def forget_origin(self) -> None:
        """Blocking: the segment begins anew with other batches; durable on return."""
        with self._lock:
            self._disk.unlink(self.path(INDEX_SUFFIX))
            self._disk.fsync_dir(self._folder)

    def modified_ms(self) -> int:
        return self._disk.stat(self.path()).st_mtime_ns // 1_000_000

    def rename(self, ending: str) -> None:
        """Give all names another ending. After an `OSError` it can be tried again."""
        with self._lock:
            if ending == self._ending:
                return
            for suffix in SUFFIXES:
                target = self._folder / (file_name(self._base_offset, suffix) + ending)
                with contextlib.suppress(FileNotFoundError):
                    self._disk.rename(self.path(suffix), target)
            self._ending = ending

    def remove(self) -> None:
        with self._lock:
            for suffix in SUFFIXES:
                self._disk.unlink(self.path(suffix))
