"""A disk whose power goes at a chosen step, with or without what was not synced."""

import os
from collections.abc import Callable
from pathlib import Path

from goqueue.model.batch import Buffer
from goqueue.storage.disk import Disk


class PowerCut(BaseException):
    """Not an `Exception`: nobody handles the end of the machine."""


class PowerCutDisk(Disk):
    """Every change of a file or folder is a step; at step `cut_at` the power goes before it.

    `forget_unsynced` then brings the folder to what a power cut may leave of it: changes of names
    since the last `fsync_dir` are undone, and files that were never synced are empty.
    """

    def __init__(self, backups: Path, cut_at: int | None = None) -> None:
        super().__init__()
        backups.mkdir(parents=True, exist_ok=True)
        self.steps = 0
        self._cut_at = cut_at
        self._backups = backups
        self._undo: list[Callable[[], None]] = []
        self._paths: dict[int, Path] = {}
        self._unsynced: dict[int, Path] = {}

    def forget_unsynced(self) -> None:
        for undo in reversed(self._undo):
            undo()
        for inode in self._unsynced:
            for path in self._backups.parent.rglob("*"):
                if path.is_file() and path.stat().st_ino == inode:
                    path.write_bytes(b"")

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self._cut_at:
            raise PowerCut

    def _backup(self, path: Path) -> Callable[[], None]:
        """Keep the file under another name; the result puts it back."""
        if not path.exists():
            return lambda: None
        kept = self._backups / str(self.steps)
        os.link(path, kept)

        def restore() -> None:
            path.unlink(missing_ok=True)
            os.link(kept, path)

        return restore

    def open(self, path: Path, flags: int) -> int:
        is_new = bool(flags & os.O_CREAT) and not path.exists()
        if flags & os.O_CREAT:
            self._step()
        fd = super().open(path, flags)
        self._paths[fd] = path
        if is_new:
            self._undo.append(lambda: path.unlink(missing_ok=True))
            self._unsynced[os.fstat(fd).st_ino] = path
        return fd

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:
        self._step()
        return super().pwrite(fd, data, position)

    def truncate(self, fd: int, size: int) -> None:
        self._step()
        super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        self._step()
        self._unsynced.pop(os.fstat(fd).st_ino, None)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        put_back = self._backup(target)
        super().rename(source, target)

        def undo() -> None:
            target.rename(source)
            put_back()

        self._undo.append(undo)

    def unlink(self, path: Path) -> None:
        self._step()
        self._undo.append(self._backup(path))
        super().unlink(path)

    def fsync_dir(self, path: Path) -> None:
        self._step()
        self._undo.clear()
