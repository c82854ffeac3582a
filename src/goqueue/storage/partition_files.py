"""What lies in a partition's folder beside its segments."""

from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec

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
