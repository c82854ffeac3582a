"""How far the partitions of a data folder were committed, as their replicas knew it last.

One file for all, written now and then: a value that is too old is as good as any, for what lies
above is found to be committed again. Without the file, all begin at the starts of their logs.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import DamagedFile, load, save

logger = logging.getLogger(__name__)

FILE_NAME: Final = "high-watermarks.json"


def watermark_key(topic_id: UUID, partition: int) -> str:
    """By the topic's id: another topic of the same name has other offsets."""
    return f"{topic_id.hex}-{partition}"


def load_high_watermarks(disk: Disk, folder: Path) -> dict[str, int]:
    try:
        return load(disk, folder / FILE_NAME, dict[str, int]) or {}
    except DamagedFile as error:
        logger.warning("%s; replicas learn anew how far they were committed", error)
        return {}


def save_high_watermarks(disk: Disk, folder: Path, watermarks: Mapping[str, int]) -> None:
    """Blocking."""
    save(disk, folder / FILE_NAME, watermarks, durable=False)
