"""Where a log starts and how much of it need not be verified, kept in a small file beside it."""

import threading
from pathlib import Path

import msgspec

from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import DamagedFile, load, save


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    # Whose it is; None in files of earlier releases.
    folder: str | None = None
    log_start_offset: int = 0
    recovery_offset: int = 0
    first_offset: int | None = None


class Checkpoint:
    """Saved by the appending thread (log start) and by flushing ones (recovery offset).

    `recovery_offset`: segments that end at or before it are known to be on disk.
    `first_offset`: of the first segment; None if unknown, as in files of earlier releases.
    """

    __slots__ = ("_content", "_disk", "_lock", "_path")

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._content = _Content(folder=path.parent.name)
        self._lock = threading.Lock()

    def load(self) -> None:
        """Read the file if there is one; `DamagedFile` leaves the checkpoint at offset 0."""
        folder = self._path.parent.name
        content = load(self._disk, self._path, _Content) or _Content()
        if content.folder not in (None, folder):
            raise DamagedFile(f"{self._path}: it is that of {content.folder}")
        self._content = msgspec.structs.replace(content, folder=folder)

    @property
    def log_start_offset(self) -> int:
        return self._content.log_start_offset

    @property
    def recovery_offset(self) -> int:
        return self._content.recovery_offset

    @property
    def first_offset(self) -> int | None:
        return self._content.first_offset

    def note(self, **changes: int | None) -> None:
        """Change fields by name, for the next time that it is saved."""
        with self._lock:
            self._content = msgspec.structs.replace(self._content, **changes)

    def raise_start(self, offset: int) -> None:
        """As `save`; several may do it at a time, and the highest counts."""
        if offset > self._content.log_start_offset:
            with self._lock:
                if offset > self._content.log_start_offset:
                    self._save(log_start_offset=offset)

    def save(self, **changes: int | None) -> None:
        """Change fields by name; durable on return."""
        with self._lock:
            self._save(**changes)

    def _save(self, **changes: int | None) -> None:
        content = msgspec.structs.replace(self._content, **changes)
        save(self._disk, self._path, content)
        self._content = content
