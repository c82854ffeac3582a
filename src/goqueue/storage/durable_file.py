"""Small files that are replaced whole: after a crash there is the old one or the new one.

A file is one line with the CRC-32C of the rest, then JSON that a person can read.
"""

import os
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

import msgspec
from crc32c import crc32c

from goqueue.model.errors import GoQueueError
from goqueue.storage.disk import Disk
from goqueue.storage.open_file import OpenFile

T = TypeVar("T")

TEMPORARY_SUFFIX: Final = ".tmp"

# msgspec looks at a type when it is first decoded, and crashes the process where two threads do so
# at once; a broker opens its partitions with several.
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}
_making = Lock()


class DamagedFile(GoQueueError):
    """A small file is not what was once written."""

    code = "damaged_file"


def save(disk: Disk, path: Path, content: object, *, durable: bool = True) -> None:
    """Replace the file. The old content stays on `OSError`.

    With `durable` the new content survives a power loss from here on.
    """
    body = msgspec.json.format(msgspec.json.encode(content)) + b"\n"
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with OpenFile(disk, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
        file.write(b"%08x\n" % crc32c(body) + body, 0)
        if durable:
            file.sync()
    disk.rename(temporary, path)
    if durable:
        disk.fsync_dir(path.parent)


def load(disk: Disk, path: Path, content_type: type[T]) -> T | None:
    """Return the content, None when there is no file, or raise `DamagedFile`."""
    try:
        with OpenFile(disk, path) as file:
            stored = file.read_all()
    except FileNotFoundError:
        return None
    checksum, _, body = stored.partition(b"\n")
    if checksum != b"%08x" % crc32c(body):
        raise DamagedFile(f"{path}: the checksum in its first line does not match the rest")
    try:
        return _decoder(content_type).decode(body)
    except msgspec.MsgspecError as error:
        raise DamagedFile(f"{path}: {error}") from error


def _decoder(content_type: type[T]) -> msgspec.json.Decoder[T]:
    with _making:
        found = _decoders.get(content_type)
        if found is None:
            found = _decoders[content_type] = msgspec.json.Decoder(content_type)
    return found
