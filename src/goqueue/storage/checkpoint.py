"""Where a log starts and how much of it need not be verified, kept in a small file beside it."""

import threading
from pathlib import Path

import msgspec

from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import load, save


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    log_start_offset: int = 0
    recovery_offset: int = 0


class Checkpoint:
    """Saved by the appending thread (log start) and by flushing ones (recovery offset).

    `recovery_offset`: segments that end at or before it are known to be on disk.
    """

    __slots__ = ("_content", "_disk", "_lock", "_path")

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._content = _Content()
        self._lock = threading.Lock()

    def load(self) -> None:
        """Read the file if there is one; `DamagedFile` leaves the checkpoint at offset 0."""
        self._content = load(self._disk, self._path, _Content) or _Content()

    @property
    def log_start_offset(self) -> int:
        return self._content.log_start_offset

    @property
    def recovery_offset(self) -> int:
        return self._content.recovery_offset

    def save(self, **changes: int) -> None:
        """Change fields by name; durable on return."""
        with self._lock:
            content = msgspec.structs.replace(self._content, **changes)
            save(self._disk, self._path, content)
            self._content = content
