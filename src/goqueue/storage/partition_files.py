"""What lies in a partition's folder beside its segments."""

import os
import re
from collections.abc import Callable
from errno import ENOTDIR
from itertools import count
from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec

from goqueue.model.names import TopicPartition
from goqueue.storage.disk import Disk

IDENTITY_FILE: Final = "partition.json"
CHECKPOINT_FILE: Final = "checkpoint.json"
EPOCHS_FILE: Final = "leader-epochs.json"
# Folders of deleted partitions, by topic id: a topic's name can be as long as file names get. No
# partition's own name ends so. Copies that moved to another broker can go several times, and say
# nothing of their topic: it is still there.
_DELETED_FOLDER: Final = re.compile(r"[0-9a-f]{32}-[0-9]+\.deleted", re.ASCII)
_MOVED_FOLDER: Final = re.compile(r"[0-9a-f]{32}-[0-9]+\.[0-9]+\.moved", re.ASCII)


class PartitionIdentity(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    topic_id: UUID


def mark_deleted(disk: Disk, folder: Path, name: TopicPartition, topic_id: UUID) -> Path:
    """Rename a partition's folder; from then on it is removed, if not now then by the next start.

    A crash half-way leaves no half partition. The caller syncs the folder above: once for all
    partitions of a topic.
    """
    marked = folder.with_name(f"{topic_id.hex}-{name.partition}.deleted")
    disk.rename(folder, marked)
    return marked


def mark_moved(disk: Disk, folder: Path, name: TopicPartition, topic_id: UUID) -> Path:
    """As `mark_deleted`, for a copy that is not needed here any more."""
    numbered = (
        folder.with_name(f"{topic_id.hex}-{name.partition}.{number}.moved") for number in count(1)
    )
    marked = next(path for path in numbered if not os.path.lexists(path))
    disk.rename(folder, marked)
    return marked


def is_marked_deleted(name: str) -> bool:
    return _DELETED_FOLDER.fullmatch(name) is not None


def is_to_be_removed(name: str) -> bool:
    """Marked in either way."""
    return is_marked_deleted(name) or _MOVED_FOLDER.fullmatch(name) is not None


def remove_folder(disk: Disk, folder: Path, *, is_over: Callable[[], bool] = lambda: False) -> None:
    """Delete a partition's folder with its files, or as much of it as there is time for.

    A link is not followed: the files behind it are somebody else's.
    """
    if folder.is_symlink():
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(folder))
    for name in disk.listdir(folder):
        if is_over():
            return
        disk.unlink(folder / name)
    disk.rmdir(folder)
