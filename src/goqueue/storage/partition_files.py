"""What lies in a partition's folder beside its segments."""

from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec

from goqueue.model.names import TopicPartition
from goqueue.storage.disk import Disk

IDENTITY_FILE: Final = "partition.json"
CHECKPOINT_FILE: Final = "checkpoint.json"
EPOCHS_FILE: Final = "leader-epochs.json"
# Folders with this ending are on their way out; no partition's own name ends so.
DELETED_FOLDER_SUFFIX: Final = ".deleted"


class PartitionIdentity(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    topic_id: UUID


def remove_folder(disk: Disk, folder: Path) -> None:
    """Delete a partition's folder with its files."""
    for name in disk.listdir(folder):
        disk.unlink(folder / name)
    disk.rmdir(folder)


def delete_folder(disk: Disk, folder: Path, name: TopicPartition, topic_id: UUID) -> None:
    """Delete a partition's folder so that a crash half-way leaves no half partition.

    The new name goes by the topic's id: a topic's name can be as long as file names get.
    """
    doomed = folder.with_name(f"{topic_id.hex}-{name.partition}{DELETED_FOLDER_SUFFIX}")
    disk.rename(folder, doomed)
    disk.fsync_dir(doomed.parent)
    remove_folder(disk, doomed)
