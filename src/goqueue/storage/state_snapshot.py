"""Snapshots of a state log: the last value of every key up to an offset, in one checked file.

A snapshot only saves time. One that is damaged is passed over for the one before it, and the log
before the oldest kept snapshot is still there to be read.
"""

import logging
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

logger = logging.getLogger(__name__)

SUFFIX: Final = ".state"
# Two to fall back on, should the newest turn out damaged.
KEPT_SNAPSHOTS: Final = 3

_MAGIC: Final = b"GQSTATE1"
_HEAD: Final = struct.Struct(">8sqI")  # magic, next offset, entries
_ENTRY: Final = struct.Struct(">II")  # key bytes, value bytes
_CHECKSUM: Final = struct.Struct(">I")


class StateSnapshot(NamedTuple):
    """`entries` in the order of their last change; `next_offset` is where the log goes on."""

    next_offset: int
    entries: dict[bytes, bytes]


def write_snapshot(folder: Path, next_offset: int, entries: Mapping[bytes, bytes]) -> Path:
    """Write a snapshot so that a crash at any point leaves the old ones or this one whole."""
    parts = [_HEAD.pack(_MAGIC, next_offset, len(entries))]
    for key, value in entries.items():
        parts += (_ENTRY.pack(len(key), len(value)), key, value)
    body = b"".join(parts)
    path = folder / f"{next_offset:020d}{SUFFIX}"
    temporary = path.with_suffix(".state.tmp")
    with open(temporary, "wb") as file:
        file.write(body)
        file.write(_CHECKSUM.pack(crc32c(body)))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder_fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)
    for old in _paths(folder)[KEPT_SNAPSHOTS:]:
        old.unlink(missing_ok=True)
    return path


def read_newest_snapshot(folder: Path, *, log_start: int, log_end: int) -> StateSnapshot | None:
    """The newest undamaged snapshot that the log continues, if there is one."""
    for path in _paths(folder):
        try:
            snapshot = _parse(path.read_bytes())
        except (OSError, ValueError, struct.error) as error:
            logger.warning("snapshot %s is passed over: %s", path, error)
            continue
        if log_start <= snapshot.next_offset <= log_end:
            return snapshot
        logger.warning(
            "snapshot %s is removed: it ends at %d, the log holds %d to %d",
            path,
            snapshot.next_offset,
            log_start,
            log_end,
        )
        # The log was cut below it. What is written at these offsets from now on is something else.
        path.unlink(missing_ok=True)
    return None


def _paths(folder: Path) -> list[Path]:
    """Newest first."""
    return sorted(folder.glob(f"*{SUFFIX}"), reverse=True)


def _parse(data: bytes) -> StateSnapshot:
    body_end = len(data) - _CHECKSUM.size
    if body_end < _HEAD.size:
        raise ValueError("it is cut short")
    view = memoryview(data)
    (checksum,) = _CHECKSUM.unpack_from(data, body_end)
    if crc32c(view[:body_end]) != checksum:
        raise ValueError("its checksum is wrong")
    magic, next_offset, count = _HEAD.unpack_from(data, 0)
    if magic != _MAGIC:
        raise ValueError(f"it has the unknown format {magic!r}")
    entries: dict[bytes, bytes] = {}
    position = _HEAD.size
    for _ in range(count):
        key_bytes, value_bytes = _ENTRY.unpack_from(data, position)
        position += _ENTRY.size
        key = data[position : position + key_bytes]
        position += key_bytes
        entries[key] = data[position : position + value_bytes]
        position += value_bytes
    return StateSnapshot(next_offset, entries)
