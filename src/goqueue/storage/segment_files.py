"""The three files of a segment, under one name that can change."""

import contextlib
import os
import threading
from pathlib import Path
from typing import Final

from goqueue.storage.disk import Disk
from goqueue.storage.index import SealedIndex, decode_index, encode_index
from goqueue.storage.open_file import OpenFile

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
DELETED_SUFFIX: Final = ".deleted"
# The log file comes last: as long as it has its name, the others can be rebuilt.
SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX)


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


class SegmentFiles:
    """Safe from any thread: a file is opened under the name it has at that moment."""

    def __init__(self, disk: Disk, folder: Path, base_offset: int, *, ending: str = "") -> None:
        self._disk = disk
        self._folder = folder
        self._base_offset = base_offset
        self._ending = ending
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
        """None when a file is missing, unreadable, or not sealed for a log of this size."""
        with self._lock:
            try:
                with (
                    OpenFile(self._disk, self.path(INDEX_SUFFIX)) as by_offset,
                    OpenFile(self._disk, self.path(TIME_INDEX_SUFFIX)) as by_time,
                ):
                    return decode_index(by_offset.read_all(), by_time.read_all(), log_size)
            except OSError:
                return None

    def save_index(self, sealed: SealedIndex, log_size: int) -> None:
        contents = encode_index(sealed, self._base_offset, log_size)
        with self._lock:
            for suffix, content in zip((INDEX_SUFFIX, TIME_INDEX_SUFFIX), contents, strict=True):
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                with OpenFile(self._disk, self.path(suffix), flags) as file:
                    file.write(content, 0)

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
