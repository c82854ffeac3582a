"""What Produce takes as the records of a partition."""

import struct

import pytest

from goqueue.doors.kafka.produced_batch import check_one_batch
from goqueue.model.errors import CorruptBatch, InvalidRecord, UnsupportedCompression
from goqueue.model.records import NewRecord, encode_records


def batch(compression: int = 0) -> bytearray:
    return encode_records([NewRecord(value=b"v" * 50)], now_ms=1, compression=compression)


def with_length(length: int) -> bytearray:
    data = batch()
    struct.pack_into(">i", data, 8, length)
    return data


def with_magic(magic: int) -> bytearray:
    data = batch()
    data[16] = magic
    return data


def test_one_batch_is_taken() -> None:
    data = batch()
    assert check_one_batch(memoryview(data), 9) == data


@pytest.mark.parametrize(
    "records",
    [
        None,
        b"",
        bytes(16),
        batch() + batch(),
        batch()[:-1],
        batch() + b"x",
        with_magic(0),
        with_magic(1),
        with_length(2**31 - 1),
    ],
)
def test_anything_but_one_whole_batch_of_format_2_is_an_invalid_record(
    records: bytes | None,
) -> None:
    with pytest.raises(InvalidRecord):
        check_one_batch(records, 9)


@pytest.mark.parametrize(
    "records", [with_length(-1), with_length(13), with_magic(3), with_length(14)[:26]]
)
def test_lengths_and_formats_without_sense_are_corrupt(records: bytes) -> None:
    with pytest.raises(CorruptBatch):
        check_one_batch(records, 9)


def test_zstd_needs_version_7() -> None:
    with pytest.raises(UnsupportedCompression):
        check_one_batch(batch(compression=4), 6)
    check_one_batch(batch(compression=4), 7)
