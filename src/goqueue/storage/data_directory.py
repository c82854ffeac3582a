"""The broker's folder: one broker at a time, a format it knows, and whether it was left in order.

broker.lock      locked by the running broker
format.json      version of this layout, cluster id
node.json        in a cluster: which node this folder is, and what it knows of its past
clean-shutdown   there while no broker runs, if the last one stopped in order: where each log ended
restore-unfinished.json  a backup is being restored, or that was cut short; without format.json
metadata/        the metadata store's
logs/            a folder `<topic>-<partition>` per partition, and those of deleted ones
                 and of copies that moved to other brokers, marked
strays/          folders of `logs` that the metadata does not know
"""

import base64
import logging
import os
import uuid
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, Self
from uuid import UUID

import msgspec

from goqueue.model.errors import DataDirectoryError, DataDirectoryInUse
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.storage.clean_stop import CleanStop
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import TEMPORARY_SUFFIX, DamagedFile, load, save
from goqueue.storage.epochs import LeaderEpochs
from goqueue.storage.open_file import OpenFile
from goqueue.storage.owner_only import take_from_others
from goqueue.storage.partition_files import (
    EPOCHS_FILE,
    IDENTITY_FILE,
    PartitionIdentity,
    is_marked_deleted,
    is_to_be_removed,
    mark_deleted,
    mark_moved,
)

logger = logging.getLogger(__name__)

# 2: the state of queues and delayed messages are kept beside each topic (decision 14). A release
# that looks for them elsewhere would deliver again what was acknowledged.
FORMAT_VERSION: Final = 2
# The oldest that a start can bring to this one.
OLDEST_VERSION: Final = 1

LOCK_FILE: Final = "broker.lock"
FORMAT_FILE: Final = "format.json"
NODE_FILE: Final = "node.json"
CLEAN_FILE: Final = "clean-shutdown"
METADATA_FOLDER: Final = "metadata"
LOGS_FOLDER: Final = "logs"
STRAYS_FOLDER: Final = "strays"
# What tracing and the audit note.
NOTES_FOLDERS: Final = ("traces", "audit")
# There from the first to the last step of restoring a backup; `format.json` comes at its end.
RESTORING_FILE: Final = "restore-unfinished.json"
# Says that the data directories of several workers are in it (`server/workers/folder.py`).
WORKERS_FILE: Final = "workers.json"
# Secrets are made from it (`broker/security/master_key.py`).
MASTER_KEY_FILE: Final = "master.key"
# What an interrupted first start, making the folder a mount point, or giving it a key can leave.
HARMLESS: Final = frozenset(
    {
        LOCK_FILE,
        FORMAT_FILE + TEMPORARY_SUFFIX,
        WORKERS_FILE + TEMPORARY_SUFFIX,
        MASTER_KEY_FILE,
        "lost+found",
    }
)


class _Version(msgspec.Struct, frozen=True):
    """The one field that every format has."""

    version: int


class FolderFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `format.json`."""

    version: int
    cluster_id: str


class PartitionFolder(NamedTuple):
    tp: TopicPartition
    topic_id: UUID
    path: Path


class DataDirectory:
    """Holds the lock from `open` to `close`. `last_stop` is None after a crash."""

    def __init__(
        self,
        path: Path,
        disk: Disk,
        lock: OpenFile,
        *,
        cluster_id: str,
        last_stop: CleanStop | None,
    ) -> None:
        self.path = path
        self.cluster_id = cluster_id
        self.last_stop = last_stop
        self._disk = disk
        self._lock: OpenFile | None = lock

    @classmethod
    def open(cls, path: Path, disk: Disk | None = None) -> Self:
        """Lock the folder, making it if need be; `DataDirectoryError` says what to do else."""
        disk = disk or Disk()
        try:
            return cls._open(path, disk)
        except DamagedFile as error:
            raise DataDirectoryError(
                f"{error}; restore the file from a copy, or give another data directory"
            ) from error
        except OSError as error:
            raise DataDirectoryError(
                f"data directory {path} cannot be used: {error}; "
                "check that it is a folder this user may write to, on a disk with space left"
            ) from error

    @classmethod
    def _open(cls, path: Path, disk: Disk) -> Self:
        disk.mkdir(path)
        lock = _take_lock(disk, path)
        try:
            return cls._open_locked(path, disk, lock)
        except BaseException:
            lock.close()
            raise

    @classmethod
    def _open_locked(cls, path: Path, disk: Disk, lock: OpenFile) -> Self:
        cluster_id = check_format(disk, path)
        last_stop = _take_last_stop(disk, path)
        directory = cls(path, disk, lock, cluster_id=cluster_id, last_stop=last_stop)
        disk.mkdir(directory.metadata_path)
        disk.mkdir(directory.logs_path)
        return directory

    def take_from_others(self) -> None:
        """What only the broker may read, in a folder of an earlier release."""
        take_from_others(self.path, (METADATA_FOLDER, *NOTES_FOLDERS))

    @property
    def node_path(self) -> Path:
        return self.path / NODE_FILE

    @property
    def is_of_a_cluster(self) -> bool:
        """Whether it was a member of a cluster; the metadata of its logs is not in it then."""
        return NODE_FILE in self._disk.listdir(self.path)

    @property
    def has_logs(self) -> bool:
        return bool(self.stored_partitions() or self.strays())

    def join(self, cluster_id: str) -> None:
        """A folder without logs becomes one of another cluster."""
        assert not self.has_logs
        self._save_format(cluster_id)
        self.cluster_id = cluster_id

    def begin_format(self) -> None:
        """A broker uses the folder: from now on no release that knows only an older format may."""
        found = load(self._disk, self.path / FORMAT_FILE, _Version)
        if found is None or found.version != FORMAT_VERSION:
            try:
                self._save_format(self.cluster_id)
            except OSError as error:
                raise DataDirectoryError(
                    f"data directory {self.path} cannot be brought to format {FORMAT_VERSION}: "
                    f"{error}"
                ) from error

    def _save_format(self, cluster_id: str) -> None:
        content = FolderFormat(version=FORMAT_VERSION, cluster_id=cluster_id)
        save(self._disk, self.path / FORMAT_FILE, content)

    @property
    def metadata_path(self) -> Path:
        return self.path / METADATA_FOLDER

    @property
    def logs_path(self) -> Path:
        return self.path / LOGS_FOLDER

    def partition_path(self, tp: TopicPartition) -> Path:
        return self.logs_path / str(tp)

    def stored_partitions(self) -> list[PartitionFolder]:
        """Partitions that have a folder here, by their own word."""
        return self._partitions_in(self.logs_path)

    def deleted_partitions(self) -> list[Path]:
        """Folders that were marked, and are still there."""
        names = sorted(filter(is_to_be_removed, self._disk.listdir(self.logs_path)))
        return [self.logs_path / name for name in names]

    def mark_deleted(self, tp: TopicPartition, topic_id: UUID) -> Path | None:
        """Where the folder is now, if there is one and it is this topic's by its own word."""
        path = self._path_of(tp, topic_id)
        return None if path is None else mark_deleted(self._disk, path, tp, topic_id)

    def mark_moved(self, tp: TopicPartition, topic_id: UUID) -> Path | None:
        """The same of a copy whose topic stays."""
        path = self._path_of(tp, topic_id)
        return None if path is None else mark_moved(self._disk, path, tp, topic_id)

    def _path_of(self, tp: TopicPartition, topic_id: UUID) -> Path | None:
        found = self._partition_at(self.partition_path(tp))
        return None if found is None or found[:2] != (tp, topic_id) else found.path

    def newest_epoch(self, folder: PartitionFolder) -> int | None:
        """Of the leaders that wrote the log in it; None where nothing says so."""
        try:
            epochs = LeaderEpochs.load(self._disk, folder.path / EPOCHS_FILE)
        except (OSError, DamagedFile):
            return None
        return None if epochs is None else epochs.latest

    def topics_being_deleted(self) -> set[UUID]:
        """Topics of which folders were marked because they were deleted."""
        return {
            UUID(path.name.partition("-")[0])
            for path in self.deleted_partitions()
            if is_marked_deleted(path.name)
        }

    def sync_logs(self) -> None:
        """Renamed folders stay so."""
        self._disk.fsync_dir(self.logs_path)

    def _partitions_in(self, folder: Path) -> list[PartitionFolder]:
        names = sorted(self._disk.listdir(folder))
        found = (self._partition_at(folder / name) for name in names if not is_to_be_removed(name))
        return [partition for partition in found if partition is not None]

    def _partition_at(self, path: Path) -> PartitionFolder | None:
        try:
            identity = load(self._disk, path / IDENTITY_FILE, PartitionIdentity)
        except (OSError, DamagedFile) as error:
            logger.warning("%s is left alone, whose it is cannot be read: %s", path, error)
            return None
        if identity is None:
            return None
        tp = topic_partition(identity.topic, identity.partition)
        return PartitionFolder(tp, identity.topic_id, path)

    def set_aside(self, stray: PartitionFolder) -> Path:
        """Keep a folder where no broker serves or deletes it; returns its new place.

        The caller syncs, once for all.
        """
        strays = self.path / STRAYS_FOLDER
        self._disk.mkdir(strays)
        # The same one may have been set aside before; a name of a topic may be as long as it gets.
        numbered = (strays / f"{stray.topic_id.hex}-{stray.tp.partition}.{n}" for n in count(1))
        target = next(path for path in numbered if not os.path.lexists(path))
        self._disk.rename(stray.path, target)
        return target

    def sync_strays(self) -> None:
        """Folders that were set aside or taken back stay where they are."""
        self._disk.fsync_dir(self.path / STRAYS_FOLDER)
        self._disk.fsync_dir(self.logs_path)

    def strays(self) -> list[PartitionFolder]:
        """What was set aside."""
        folder = self.path / STRAYS_FOLDER
        return self._partitions_in(folder) if folder.is_dir() else []

    def take_back(self, stray: PartitionFolder) -> None:
        """Undo `set_aside`. The caller syncs, once for all."""
        self._disk.rename(stray.path, self.partition_path(stray.tp))

    def close(self, stop: CleanStop | None) -> bool:
        """Unlock. `stop` says what was closed without an error; None is as after a crash.

        False if that could not be written.
        """
        if self._lock is None:
            return True
        try:
            if stop is not None:
                save(self._disk, self.path / CLEAN_FILE, stop)
            return True
        except OSError as error:
            logger.error("the next start verifies every log, as after a crash: %s", error)
            return False
        finally:
            self._lock.close()
            self._lock = None


def _take_lock(disk: Disk, path: Path) -> OpenFile:
    lock = OpenFile(disk, path / LOCK_FILE, os.O_RDWR | os.O_CREAT)
    try:
        lock.lock()
    except BlockingIOError:
        lock.close()
        raise in_use(path) from None
    return lock


def in_use(path: Path) -> DataDirectoryInUse:
    return DataDirectoryInUse(
        f"data directory {path} is in use by another broker; "
        "stop that one or give this one its own data directory"
    )


def _take_last_stop(disk: Disk, path: Path) -> CleanStop | None:
    """Gone for good before anything is written: a crash from here on is seen as one."""
    if CLEAN_FILE not in disk.listdir(path):
        return None
    try:
        last_stop = load(disk, path / CLEAN_FILE, CleanStop)
    except DamagedFile as error:
        logger.warning("%s; every log is verified as after a crash", error)
        last_stop = None
    disk.unlink(path / CLEAN_FILE)
    disk.fsync_dir(path)
    return last_stop


def refuse_strangers(disk: Disk, path: Path) -> None:
    """A folder that no broker made yet must be empty."""
    names = set(disk.listdir(path))
    if WORKERS_FILE in names:
        raise DataDirectoryError(
            f"data directory {path} is that of several workers: start it with `goqueue serve "
            f"--workers`; each worker has a data directory in it, such as {path / 'worker-0'}"
        )
    if RESTORING_FILE in names:
        raise DataDirectoryError(
            f"data directory {path} holds a part of a backup: restoring it was cut short; run "
            "`goqueue backup restore` again"
        )
    strangers = sorted(names - HARMLESS)
    if strangers:
        raise DataDirectoryError(
            f"data directory {path} has no {FORMAT_FILE} but holds {strangers[0]!r}; "
            "give an empty folder or one that a broker made"
        )


def check_format(disk: Disk, path: Path) -> str:
    """Return the cluster id of a folder in our format; put both into an empty folder."""
    found = load(disk, path / FORMAT_FILE, _Version)
    if found is not None:
        if not OLDEST_VERSION <= found.version <= FORMAT_VERSION:
            raise DataDirectoryError(
                f"data directory {path} has format version {found.version}; this release reads "
                f"versions {OLDEST_VERSION} to {FORMAT_VERSION}: use the release that wrote it, or "
                "another directory"
            )
        stored = load(disk, path / FORMAT_FILE, FolderFormat)
        assert stored is not None
        return stored.cluster_id
    refuse_strangers(disk, path)
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    save(disk, path / FORMAT_FILE, FolderFormat(version=FORMAT_VERSION, cluster_id=cluster_id))
    return cluster_id
