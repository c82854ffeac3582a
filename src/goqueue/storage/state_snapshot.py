"""Snapshots of a state log: the last value of every key up to an offset, in one checked file.

The log before the oldest kept snapshot is still there to be read.
"""

import logging
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from crc32c import crc32c

from goqueue.storage.snapshot_files import STATE, LogSnapshots

logger = logging.getLogger(__name__)

_MAGIC: Final = b"GQSTATE1"
_HEAD: Final = struct.Struct(">8sqI")  # magic, next offset, entries
_ENTRY: Final = struct.Struct(">II")  # key bytes, value bytes
_CHECKSUM: Final = struct.Struct(">I")


class StateSnapshot(NamedTuple):
    """`entries` in the order of their last change; `next_offset` is where the log goes on."""

    next_offset: int
    entries: dict[bytes, bytes]


def write_state(
    snapshots: LogSnapshots, next_offset: int, entries: Mapping[bytes, bytes], *, cuts: int
) -> None:
    """Write a snapshot so that a crash at any point leaves the old ones or this one whole."""
    parts = [_HEAD.pack(_MAGIC, next_offset, len(entries))]
    for key, value in entries.items():
        parts += (_ENTRY.pack(len(key), len(value)), key, value)
    body = b"".join(parts)
    content = body + _CHECKSUM.pack(crc32c(body))
    snapshots.write(STATE, next_offset, content, cuts=cuts)


def read_newest_state(
    snapshots: LogSnapshots, *, log_start: int, log_end: int, up_to: int
) -> StateSnapshot | None:
    """The newest undamaged snapshot up to an offset that the log continues, if there is one."""
    for offset, content in snapshots.read(STATE, log_end=log_end, up_to=up_to):
        try:
            snapshot = _parse(content)
        except (ValueError, struct.error) as error:
            logger.warning("state snapshot %d is passed over: %s", offset, error)
            continue
        if log_start <= snapshot.next_offset:
            return snapshot
    return None


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
