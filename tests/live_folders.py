"""Copies of a folder that a broker writes to, as a crash would leave it."""

import shutil
from pathlib import Path

TORN_BYTES = 7


def copy_live(folder: Path, copy: Path, torn: Path | None = None) -> None:
    """`torn` is a file of the folder whose last write was cut short."""
    while True:
        try:
            shutil.copytree(folder, copy)
            break
        except shutil.Error:
            # A thread was exchanging a file, or removing the folder of a deleted topic.
            shutil.rmtree(copy)
    if torn is not None:
        path = copy / torn.relative_to(folder)
        path.write_bytes(path.read_bytes()[:-TORN_BYTES])
