"""A data directory that no broker uses, opened without changing anything in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from goqueue.model.errors import DataDirectoryError
from goqueue.storage.clean_stop import CleanStop
from goqueue.storage.data_directory import (
    CLEAN_FILE,
    FORMAT_FILE,
    LOCK_FILE,
    LOGS_FOLDER,
    METADATA_FOLDER,
    STRAYS_FOLDER,
    WORKERS_FILE,
)
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import DamagedFile, load
from goqueue.storage.open_file import OpenFile


class StoppedFolder(NamedTuple):
    """`last_stop` is None after a crash."""

    logs: Path
    metadata: Path
    # May not be there.
    strays: Path
    last_stop: CleanStop | None


@contextmanager
def stopped_folder(disk: Disk, path: Path) -> Iterator[StoppedFolder]:
    """Hold the lock, so that no broker starts meanwhile. `DataDirectoryError` if one runs."""
    if not (path / FORMAT_FILE).is_file():
        if (path / WORKERS_FILE).is_file():
            raise DataDirectoryError(
                f"{path} is the folder of several workers; give the data directory of one of them, "
                f"such as {path / 'worker-0'}"
            )
        raise DataDirectoryError(f"{path} is not the data directory of a broker: no {FORMAT_FILE}")
    try:
        lock = OpenFile(disk, path / LOCK_FILE)
    except OSError as error:
        raise DataDirectoryError(f"data directory {path} cannot be locked: {error}") from error
    with lock:
        try:
            lock.lock()
        except BlockingIOError:
            raise DataDirectoryError(
                f"data directory {path} is in use by a broker; stop it first"
            ) from None
        try:
            yield StoppedFolder(
                path / LOGS_FOLDER,
                path / METADATA_FOLDER,
                path / STRAYS_FOLDER,
                _last_stop(disk, path),
            )
        except OSError as error:
            raise DataDirectoryError(f"data directory {path} cannot be used: {error}") from error


def _last_stop(disk: Disk, path: Path) -> CleanStop | None:
    """One that this user may not read is no crash: logs that lost their end would look whole."""
    try:
        return load(disk, path / CLEAN_FILE, CleanStop)
    except DamagedFile:
        return None
