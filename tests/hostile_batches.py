"""Batches as no client library makes them: bombs, and headers that lie about what follows."""

import zlib
from collections.abc import Callable, Iterable
from typing import Final

import cramjam
from crc32c import crc32c

from goqueue.model.batch import CHECKSUMMED_FROM, CRC_POSITION, HEADER_BYTES, HEADER_FIELDS

CODECS: Final = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NOW_MS: Final = 1_700_000_000_000
_CHUNK: Final = bytes(1024 * 1024)


def varint(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))


def record(
    value: bytes | None = b"", *, key: bytes | None = None, delta: int = 0, headers: bytes = b"\0"
) -> bytes:
    """`headers`: their count and what follows it."""
    body = b"".join(
        (
            b"\0\0",
            varint(delta),
            *(varint(-1) if part is None else varint(len(part)) + part for part in (key, value)),
            headers,
        )
    )
    return varint(len(body)) + body


def batch(
    payload: bytes,
    *,
    count: int,
    codec: int = 0,
    last_delta: int | None = None,
    base_offset: int = 0,
) -> bytearray:
    """A batch with a right checksum around any bytes."""
    data = bytearray(HEADER_BYTES) + payload
    HEADER_FIELDS.pack_into(
        data,
        0,
        base_offset,
        len(data) - 12,
        0,
        2,
        0,
        codec,
        count - 1 if last_delta is None else last_delta,
        NOW_MS,
        NOW_MS,
        -1,
        -1,
        -1,
        count,
    )
    checksum = crc32c(bytes(data[CHECKSUMMED_FROM:]))
    data[CRC_POSITION : CRC_POSITION + 4] = checksum.to_bytes(4, "big")
    return data


def pack(codec: str, pieces: Iterable[bytes]) -> bytes:
    """Compress piece by piece, so that a test need not hold what it stands for."""
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(b"".join(pieces)))
    if codec == "gzip":
        gzip = zlib.compressobj(9, wbits=31)
        return b"".join([*(gzip.compress(piece) for piece in pieces), gzip.flush()])
    compressor = getattr(cramjam, codec).Compressor()
    for piece in pieces:
        compressor.compress(piece)
    return bytes(compressor.finish())


def one_huge_record(codec: str, size_bytes: int, *, key: bytes | None = b"k") -> bytearray:
    """A batch whose only record has a value of this many zeros."""

    def pieces() -> Iterable[bytes]:
        begin = b"\0\0\0" + (varint(-1) if key is None else varint(len(key)) + key)
        begin += varint(size_bytes)
        yield varint(len(begin) + size_bytes + 1) + begin
        for start in range(0, size_bytes, len(_CHUNK)):
            yield _CHUNK[: size_bytes - start]
        yield b"\0"

    return batch(pack(codec, pieces()), count=1, codec=CODECS[codec])


def many_tiny_records(codec: str, count: int) -> bytearray:
    """As many as asked for, of the smallest size that can be; their offsets are all the same."""
    tiny = record(None)
    portion = 100_000
    pieces = (tiny * min(portion, count - start) for start in range(0, count, portion))
    return batch(pack(codec, pieces), count=count, codec=CODECS[codec])


def many_headers(codec: str, count: int) -> bytearray:
    """One record with this many empty headers."""
    one = record(b"", headers=varint(count) + b"\0\1" * count)
    return batch(pack(codec, [one]), count=1, codec=CODECS[codec])


BOMBS: Final[dict[str, Callable[[str, int], bytearray]]] = {
    "one huge record": one_huge_record,
    "many tiny records": lambda codec, size_bytes: many_tiny_records(codec, size_bytes // 7 + 1),
    "many headers": lambda codec, size_bytes: many_headers(codec, size_bytes // 2 + 1),
}
