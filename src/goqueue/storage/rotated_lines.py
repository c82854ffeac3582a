"""Lines in files that are rotated by size and removed by number and age; for the owner's eyes only.

One thread writes. Others may read at the same time: a line is complete once its line feed is there,
and one that is not (written right now, or cut off by a crash) is passed over.
"""

import contextlib
import os
import re
import time
from io import FileIO
from pathlib import Path
from typing import Final

from goqueue.storage.owner_only import FILE_MODE, FOLDER_MODE

NO_RETENTION: Final = -1


class RotatedLines:
    """Files `<prefix>-<number>.jsonl` in a folder; `retention_ms` -1: of any age."""

    def __init__(
        self,
        folder: Path,
        prefix: str,
        *,
        max_bytes: int,
        max_files: int,
        retention_ms: int = NO_RETENTION,
    ) -> None:
        self.folder = folder
        self._prefix = prefix
        self._name = re.compile(rf"{re.escape(prefix)}-(\d{{12}})\.jsonl")
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._retention_ms = retention_ms
        self._open: FileIO | None = None

    # --- writing (one thread) -------------------------------------------------------------

    def write(self, lines: bytes) -> None:
        file = self._open or self._begin()
        while lines:
            # Less than all of it on a disk that is nearly full; the next try then says so.
            lines = lines[file.write(lines) :]
        if file.tell() >= self._max_bytes:
            self.close()
            self._expire()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _begin(self) -> FileIO:
        """Go on with the newest file if there is room in it."""
        self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        paths = self.paths()
        newest = paths[0] if paths else None
        number = 1
        if newest is not None:
            number = self._number(newest)
            if newest.stat().st_size >= self._max_bytes:
                number += 1
        # Unbuffered: a killed process loses none of what was written.
        path = self.folder / f"{self._prefix}-{number:012d}.jsonl"
        self._open = FileIO(path, "ab", opener=_for_owner)
        if self._open.tell() and not _ends_line(path):
            # A crash cut the last line off: the next one must not become part of it.
            self._open.write(b"\n")
        self._expire()
        return self._open

    def _expire(self) -> None:
        oldest_s = time.time() - self._retention_ms / 1000
        for at, path in enumerate(self.paths()):
            with contextlib.suppress(FileNotFoundError):
                is_old = self._retention_ms >= 0 and path.stat().st_mtime < oldest_s
                if at >= self._max_files or (at and is_old):
                    path.unlink()

    # --- reading (any thread) -------------------------------------------------------------

    def paths(self) -> list[Path]:
        """The newest first."""
        if not self.folder.is_dir():
            return []
        found = [path for path in self.folder.iterdir() if self._name.fullmatch(path.name)]
        return sorted(found, reverse=True)

    @property
    def size_bytes(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return sum(path.stat().st_size for path in self.paths())
        return 0

    def last_lines(self, max_bytes: int) -> list[bytes]:
        """Complete lines at the end of the newest files, oldest first, of about so many bytes."""
        found: list[bytes] = []
        for path in self.paths():
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                begin = max(0, size - max_bytes)
                file.seek(begin)
                lines = file.read(size - begin).split(b"\n")
                # What stands before the first line feed may be the end of a line, and what stands
                # behind the last one is none yet.
                found = lines[1 if begin else 0 : -1] + found
                max_bytes -= size - begin
            if max_bytes <= 0:
                break
        return found

    def _number(self, path: Path) -> int:
        found = self._name.fullmatch(path.name)
        assert found is not None
        return int(found[1])


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"
