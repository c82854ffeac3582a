"""Which log file an index was made for: batches do not say whose they are.

The index of a segment carries checksums of the segment's place (partition and base offset) and of
its first batch, from the first append on. A log file that was put in the place of another is told
by them: its first batch is whole, but not the one that was written here. After the first flush it
is noted again, with how far that went: what was on disk then must be found again. Nothing here
waits for the disk: a killed process leaves all of it, a power cut at worst nothing.
"""

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from goqueue.model.batch import HEADER_BYTES, MAGIC_POSITION, check_batch, read_header
from goqueue.model.errors import CorruptBatch
from goqueue.storage.open_file import OpenFile

_MARK: Final = 0x474F514F
_FIELDS: Final = struct.Struct(">IIIqq")
_CHECKSUM: Final = struct.Struct(">I")
ORIGIN_BYTES: Final = _FIELDS.size + _CHECKSUM.size


class Origin(NamedTuple):
    """Of a closed log file, `log_size` is its size and `next_offset` where it ends.

    Of one that takes appends, `log_size` is 0 and `next_offset` up to where it was on disk.
    """

    place: int
    first_batch: int
    log_size: int
    next_offset: int

    def encode(self) -> bytes:
        fields = _FIELDS.pack(_MARK, *self)
        return fields + _CHECKSUM.pack(crc32c(fields))


def place_of(folder_name: str, base_offset: int) -> int:
    return crc32c(f"{folder_name}/{base_offset}".encode())


def origin_of(log: OpenFile, place: int, log_size: int, next_offset: int) -> Origin | None:
    """What is to be noted about a log file; None while it holds nothing."""
    header = log.read(HEADER_BYTES, 0)
    if len(header) < HEADER_BYTES:
        return None
    return Origin(place, _fingerprint(header), log_size, next_offset)


def decode_origin(stored: bytes) -> Origin | None:
    if len(stored) != ORIGIN_BYTES:
        return None
    fields = stored[: _FIELDS.size]
    mark, *content = _FIELDS.unpack(fields)
    if mark != _MARK or stored[_FIELDS.size :] != _CHECKSUM.pack(crc32c(fields)):
        return None
    return Origin(*content)


def why_foreign(noted: Origin, log: OpenFile, log_size: int, place: int) -> str | None:
    """Why the log file is not the one that belongs in this place, if its first batch tells.

    Neither place nor batch as noted: the index alone is another's, and is made anew.
    """
    header = log.read(HEADER_BYTES, 0)
    if len(header) < HEADER_BYTES:
        return None
    is_its_log = noted.first_batch == _fingerprint(header)
    is_its_place = noted.place == place
    if is_its_log == is_its_place:
        return None
    if is_its_log:
        return "the file and its index are those of another segment"
    batch_size = read_header(header).size_bytes
    if not HEADER_BYTES <= batch_size <= log_size:
        return None
    try:
        check_batch(log.read(batch_size, 0))
    except CorruptBatch:
        # A damaged batch: those behind it may be good.
        return None
    return "the file is not the one that was written here: it begins with another batch"


def why_another_version(noted: Origin, log_size: int, next_offset: int) -> str | None:
    """The same of a file in which every batch is in order, and which ends at `next_offset`."""
    if noted.log_size in (0, log_size) or noted.next_offset != next_offset:
        return None
    return f"the file has {log_size} bytes, and had {noted.log_size} with the same offsets"


def _fingerprint(header: bytes) -> int:
    """Of the first batch's checksum and all else that it covers; neither base offset nor epoch."""
    return crc32c(header[MAGIC_POSITION:])
