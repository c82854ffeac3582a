"""Copies take the places of what they were copied from: first on paper, then on disk.

The swap is written into the history before the first file is renamed, and taken out when the
renames are on disk. So a start after a crash finds either no swap, and removes the copies, or a
swap that it completes; the renames can be repeated.
"""

import logging
from collections.abc import Collection
from pathlib import Path

import msgspec

from goqueue.storage.compaction.copy_writer import CLEANED_SUFFIX, cleaned_ending
from goqueue.storage.compaction.history import (
    FILE_NAME,
    History,
    Swap,
    load_history,
    save_history,
)
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import DamagedFile
from goqueue.storage.segment_files import SegmentFiles

logger = logging.getLogger(__name__)


def is_to_be_settled(names: Collection[str]) -> bool:
    """Whether a folder with these files was ever compacted, or was to be."""
    return FILE_NAME in names or any(name.endswith(CLEANED_SUFFIX) for name in names)


def settle(disk: Disk, folder: Path) -> History:
    """Complete the swap that a crash cut short, if there is one, and remove other copies.

    Called when a log is opened, before its segments are looked for.
    """
    try:
        history = load_history(disk, folder)
    except DamagedFile as error:
        logger.error("%s; the whole log counts as not compacted", error)
        history = History()
    if history.swap is not None:
        _complete(disk, folder, history.swap)
        history = msgspec.structs.replace(history, swap=None)
        save_history(disk, folder, history)
    remove_copies(disk, folder, CLEANED_SUFFIX)
    return history


def remove_copies(disk: Disk, folder: Path, ending: str) -> None:
    for name in disk.listdir(folder):
        if name.endswith(ending):
            disk.unlink(folder / name)


def _complete(disk: Disk, folder: Path, swap: Swap) -> None:
    for cleaned in swap.segments:
        for base_offset in cleaned.replaced:
            if base_offset != cleaned.base_offset:
                SegmentFiles(disk, folder, base_offset).remove()
        ending = cleaned_ending(swap.token)
        SegmentFiles(disk, folder, cleaned.base_offset, ending=ending).rename("")
    disk.fsync_dir(folder)
