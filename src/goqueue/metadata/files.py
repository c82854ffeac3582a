"""The few file operations the journal needs, in one place so that tests can make them fail."""

import contextlib
import os
from pathlib import Path
from typing import Final

# Proofs of passwords are in it (RFC 5802): nobody else may read them.
_NEW_FILE_MODE: Final = 0o600
_NEW_FOLDER_MODE: Final = 0o700


class Files:
    def make_directory(self, path: Path) -> None:
        if not path.exists():
            path.mkdir(mode=_NEW_FOLDER_MODE, parents=True, exist_ok=True)
            self.sync_directory(path.parent)

    def names(self, directory: Path) -> list[str]:
        return sorted(os.listdir(directory))  # noqa: PTH208 - names, not paths

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def create(self, path: Path) -> int:
        """Open for writing, empty whether or not it was there."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _NEW_FILE_MODE)

    def open_to_append(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def write(self, file: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]

    def truncate(self, file: int, size: int) -> None:
        os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        os.fsync(file)

    def sync_directory(self, path: Path) -> None:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)  # noqa: PTH105 - one call, as the seam promises

    def remove(self, path: Path) -> None:
        path.unlink()

    def close(self, file: int) -> None:
        with contextlib.suppress(OSError):  # what matters was synced before
            os.close(file)
