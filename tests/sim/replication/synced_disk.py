"""A disk that knows what of it a power cut leaves for certain: what was synced."""

import os
from pathlib import Path
from random import Random

from goqueue.storage.disk import Disk


class SyncedDisk(Disk):
    """Files and names as they were synced last. Nothing is really synced: that takes too long."""

    def __init__(self) -> None:
        super().__init__()
        # Inodes are used again, so files have numbers of their own.
        self._numbers: dict[int, int] = {}
        self._last_number = 0
        self._synced: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}

    def open(self, path: Path, flags: int) -> int:
        is_new = bool(flags & os.O_CREAT) and not path.exists()
        fd = super().open(path, flags)
        if is_new:
            self._last_number += 1
            self._numbers[os.fstat(fd).st_ino] = self._last_number
        return fd

    def fdatasync(self, fd: int) -> None:
        number = self._numbers[os.fstat(fd).st_ino]
        # Some are open for writing only.
        self._synced[number] = Path(f"/proc/self/fd/{fd}").read_bytes()

    def fsync_dir(self, path: Path) -> None:
        if path.exists():
            self._names[path] = {
                file.name: self._numbers[file.stat().st_ino]
                for file in path.iterdir()
                if file.is_file()
            }

    def adopt(self, folder: Path) -> None:
        """A folder that somebody else filled: all of it is on disk."""
        for file in folder.iterdir():
            self._last_number += 1
            self._numbers[file.stat().st_ino] = self._last_number
            self._synced[self._last_number] = file.read_bytes()
        self.fsync_dir(folder)

    def cut_power(self, folder: Path, chance: Random) -> None:
        """Leave what was synced; of all else whatever the kernel happened to have written."""
        written = {
            self._numbers[file.stat().st_ino]: (file.name, file.read_bytes())
            for file in folder.iterdir()
        }
        names = self._names.get(folder, {})
        if chance.random() < 0.5:
            names = {name: number for number, (name, _) in written.items()}
        left = {
            name: self._left_of(number, written[number][1] if number in written else None, chance)
            for name, number in names.items()
        }
        for file in folder.iterdir():
            file.unlink()
        for name, content in left.items():
            (folder / name).write_bytes(content)
        self.adopt(folder)

    def _left_of(self, number: int, written: bytes | None, chance: Random) -> bytes:
        synced = self._synced.get(number, b"")
        if written is None or chance.random() < 0.4:
            return synced
        if written.startswith(synced) and chance.random() < 0.7:
            return written[: chance.randint(len(synced), len(written))]
        return written
