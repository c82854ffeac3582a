"""Where backups are kept: named objects that are written whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from goqueue.backup.errors import BackupDamaged, BackupFailed
from goqueue.storage.owner_only import FILE_MODE, FOLDER_MODE

_TEMPORARY: Final = ".tmp"


class Found(NamedTuple):
    name: str
    size: int


class Store(Protocol):
    """Names are paths with slashes, made by `catalogue.py` alone. For any thread.

    `OSError` where the store cannot be reached or refuses.
    """

    @property
    def address(self) -> str:
        """As the user wrote it."""

    def put(self, name: str, content: bytes) -> None:
        """Whole or not at all; what was there is replaced. On return it is safe."""

    def get(self, name: str, *, size_max: int) -> bytes:
        """`FileNotFoundError`; `BackupDamaged` for more than `size_max` bytes."""

    def size(self, name: str) -> int | None:
        """None if there is no such object."""

    def names(self, folder: str) -> Iterator[Found]:
        """All below a folder, which may not be there, by their full names."""

    def remove(self, name: str) -> None:
        """One that is not there is no error."""


def open_store(address: str) -> Store:
    """A folder, or an object store by its URL: `s3://bucket/path`, `gs://…`, `abfss://…`."""
    if "://" not in address:
        return FolderStore(Path(address), address)
    place = urlsplit(address)
    if place.scheme == "file":
        return FolderStore(Path(unquote(place.path)), address)
    try:
        from goqueue.backup.object_store import ObjectStore
    except ImportError as error:
        raise BackupFailed(
            f"object stores need PyArrow, which is not installed ({error}); "
            "install it with: pip install 'goqueue[backup]'"
        ) from error
    return ObjectStore(address)


class FolderStore:
    def __init__(self, folder: Path, address: str) -> None:
        self.address = address
        self._folder = folder.absolute()

    def put(self, name: str, content: bytes) -> None:
        path = self._folder / name
        _make_folder(path.parent)
        # Two that write the same object at once each have a file of their own.
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}{_TEMPORARY}")
        try:
            # The metadata is in it, with proofs of passwords.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with os.fdopen(os.open(temporary, flags, FILE_MODE), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(path.parent)

    def get(self, name: str, *, size_max: int) -> bytes:
        with (self._folder / name).open("rb") as file:
            content = file.read(size_max + 1)
        if len(content) > size_max:
            raise BackupDamaged(f"{name} has more than {size_max} bytes")
        return content

    def size(self, name: str) -> int | None:
        try:
            return (self._folder / name).stat().st_size
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> Iterator[Found]:
        for parent, _, files in os.walk(self._folder / folder):
            for file in sorted(files):
                path = Path(parent) / file
                if path.suffix != _TEMPORARY:
                    with contextlib.suppress(FileNotFoundError):
                        yield Found(path.relative_to(self._folder).as_posix(), path.stat().st_size)

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)


def _make_folder(path: Path) -> None:
    """A new folder is safe when the one above it is."""
    if path.is_dir():
        return
    _make_folder(path.parent)
    path.mkdir(mode=FOLDER_MODE, exist_ok=True)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
