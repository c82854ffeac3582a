"""The small files in a partition's folder: whose it is, and where its log starts."""

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


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """`recovery_offset`: segments that end at or before it are known to be on disk."""

    log_start_offset: int = 0
    recovery_offset: int = 0


def remove_folder(disk: Disk, folder: Path) -> None:
    """Delete a partition's folder with its files."""
    for name in disk.listdir(folder):
        disk.unlink(folder / name)
    disk.rmdir(folder)
