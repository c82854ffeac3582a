"""Files and folders that others than their owner must not read: proofs of passwords lie in them.

New ones are made so. Those of earlier releases, and folders that somebody made, are mended when
security is on.
"""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def take_from_others(folder: Path, inner: tuple[str, ...]) -> None:
    """The folder, and everything in these of its folders; the rest of it is behind its door."""
    mended = 0
    try:
        for path in _all_of(folder, inner):
            mode = path.lstat().st_mode
            if mode & _OTHERS and not stat.S_ISLNK(mode):
                path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
                mended += 1
    except FileNotFoundError:
        # Removed meanwhile; a start of the next one looks again.
        pass
    except PermissionError as error:
        logger.warning(
            "%s: others than the broker may be able to read it: %s; correct its owner, or run: "
            "chmod -R go= %s",
            folder,
            error.strerror,
            folder,
        )
        return
    if mended:
        logger.warning(
            "%s: others than the broker could read %d of its files and folders; no longer",
            folder,
            mended,
        )


def _all_of(folder: Path, inner: tuple[str, ...]) -> Iterator[Path]:
    yield folder
    for name in inner:
        for parent, _, files in os.walk(folder / name):
            yield Path(parent)
            yield from (Path(parent) / file for file in files)
