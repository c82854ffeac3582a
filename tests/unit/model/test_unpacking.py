"""Batches are unpacked within bounds, whatever made them, and believed where they are right."""

import struct

import pytest

from goqueue.model.batch import check_produced, read_header
from goqueue.model.batch_editing import recompress, with_records
from goqueue.model.decoding_bounds import DEFAULT_BOUNDS, DecodingBounds
from goqueue.model.errors import CorruptBatch, InvalidRecord, UnpackedTooLarge
from goqueue.model.records import (
    NewRecord,
    decode_records,
    encode_records,
    find_first_since,
    open_records,
)
from tests.hostile_batches import BOMBS, CODECS, batch, many_headers, one_huge_record, pack, record

MEGABYTE = 1024 * 1024
SMALL = DecodingBounds.of_bytes(MEGABYTE)


@pytest.mark.parametrize("kind", BOMBS)
@pytest.mark.parametrize("codec", CODECS)
def test_what_is_larger_unpacked_is_refused_by_name(codec: str, kind: str) -> None:
    bomb = BOMBS[kind](codec, 8 * MEGABYTE)
    header = read_header(bomb)
    for decode in (
        lambda: decode_records(bomb, SMALL),
        lambda: find_first_since(bomb, 0, 0, SMALL),
        lambda: next(open_records(bomb, SMALL)),
        lambda: recompress(bomb, header, 0, SMALL),
    ):
        with pytest.raises(UnpackedTooLarge, match=r"max\.decompressed\.message\.bytes"):
            decode()


@pytest.mark.parametrize("codec", CODECS)
def test_up_to_the_bound_all_is_decoded(codec: str) -> None:
    value_bytes = MEGABYTE - 16
    [found] = decode_records(one_huge_record(codec, value_bytes), SMALL)
    assert found.value == bytes(value_bytes)
    with pytest.raises(UnpackedTooLarge):
        decode_records(one_huge_record(codec, MEGABYTE + 1), SMALL)


def test_the_records_of_a_large_batch_may_not_be_cut_by_the_bound_either() -> None:
    bomb = one_huge_record("zstd", 8 * MEGABYTE)
    with pytest.raises(UnpackedTooLarge):
        with_records(bytes(bomb), read_header(bomb), [True], 0, SMALL)


@pytest.mark.parametrize("codec", ["", *CODECS])
@pytest.mark.parametrize("size_bytes", [0, 100, 70_000, 3 * MEGABYTE])
def test_ordinary_batches_come_out_as_they_went_in(codec: str, size_bytes: int) -> None:
    value = bytes(range(256)) * (size_bytes // 256)
    records = [
        NewRecord(key=b"%d" % n, value=value, headers=(("h", b"x"), ("n", None)), timestamp_ms=n)
        for n in range(5)
    ]
    packed = encode_records(records, now_ms=0, compression=CODECS.get(codec, 0))
    decoded = decode_records(packed)
    assert [(each.offset, each.timestamp_ms, each.value) for each in decoded] == [
        (n, n, value) for n in range(5)
    ]
    assert decoded[0].headers == (("h", b"x"), ("n", None))


def test_gzip_of_several_members_and_blocks_of_snappy() -> None:
    payload = record(b"a", delta=0) + record(b"b", delta=1)
    parts = [payload[:9], payload[9:]]
    members = b"".join(pack("gzip", [part]) for part in parts)
    java = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    for part in parts:
        block = pack("snappy", [part])
        java += struct.pack(">i", len(block)) + block
    for codec, packed in ((1, members), (2, java)):
        decoded = decode_records(batch(packed, count=2, codec=codec))
        assert [each.value for each in decoded] == [b"a", b"b"]


def test_a_snappy_block_that_says_it_is_huge_takes_no_memory() -> None:
    claims_a_gigabyte = b"\x80\x80\x80\x80\x04" + b"\0" * 10
    with pytest.raises(UnpackedTooLarge):
        decode_records(batch(claims_a_gigabyte, count=1, codec=2))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kept", [0, 1, 8, -1])
def test_what_no_codec_made_is_damage(codec: str, kept: int) -> None:
    whole = pack(codec, [record(b"value" * 100)])
    with pytest.raises(CorruptBatch):
        decode_records(batch(whole[:kept], count=1, codec=CODECS[codec]))
    with pytest.raises(CorruptBatch):
        decode_records(batch(b"garbage that is not packed", count=1, codec=CODECS[codec]))


def test_an_unknown_codec_is_damage() -> None:
    with pytest.raises(CorruptBatch, match="compression type 7"):
        decode_records(batch(record(), count=1, codec=7))


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(record(delta=0) + record(delta=0), id="the same offset twice"),
        pytest.param(record(delta=1) + record(delta=0), id="offsets that fall"),
        pytest.param(record(delta=0) + record(delta=7), id="an offset of a later batch"),
        pytest.param(record(delta=-1) + record(delta=1), id="an offset of an earlier batch"),
    ],
)
@pytest.mark.parametrize("codec", ["", *CODECS])
def test_records_have_the_offsets_of_their_batch(payload: bytes, codec: str) -> None:
    packed = pack(codec, [payload]) if codec else payload
    with pytest.raises(CorruptBatch, match="offsets 0 to 1"):
        decode_records(batch(packed, count=2, codec=CODECS.get(codec, 0)))


@pytest.mark.parametrize("codec", ["", *CODECS])
def test_a_count_is_held_against_the_size(codec: str) -> None:
    payload = record(b"x")
    packed = pack(codec, [payload]) if codec else payload
    lie = batch(packed, count=2_000_000_000, codec=CODECS.get(codec, 0))
    with pytest.raises(InvalidRecord, match="2000000000 records"):
        check_produced(lie)
    with pytest.raises(CorruptBatch):
        decode_records(lie)
    with pytest.raises(CorruptBatch):
        decode_records(batch(packed, count=2, codec=CODECS.get(codec, 0)))


@pytest.mark.parametrize("codec", ["", *CODECS])
def test_as_many_records_as_a_codec_can_pack_are_taken(codec: str) -> None:
    count = 100_000
    payload = record(None) * count
    packed = pack(codec, [payload]) if codec else payload
    assert check_produced(batch(packed, count=count, codec=CODECS.get(codec, 0)))


def test_a_batch_of_73_bytes_moves_nothing_by_thousands_of_millions() -> None:
    lie = batch(b"twelve bytes", count=2**31 - 1)
    assert len(lie) == 73
    with pytest.raises(InvalidRecord, match="12 bytes \\(uncompressed\\) hold 1 at most"):
        check_produced(lie)


def test_numbers_that_go_past_the_end_are_damage() -> None:
    """The compiled decoder reads some before it looks where the batch ends."""
    whole = record(b"v", headers=b"\x02\x02h\x02x")
    for cut in range(1, len(whole) - 1):
        with pytest.raises(CorruptBatch):
            decode_records(batch(whole[:cut] + b"\xff", count=1))
    endless = record(b"v", headers=b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f")
    with pytest.raises(CorruptBatch):
        decode_records(batch(endless, count=1))


def test_many_headers_of_a_large_batch_are_counted_first() -> None:
    assert len(decode_records(many_headers("zstd", 300_000))[0].headers) == 300_000
    with pytest.raises(UnpackedTooLarge, match="headers"):
        decode_records(many_headers("zstd", 2_000_000))


def test_a_record_without_a_time_has_the_number_for_it() -> None:
    packed = encode_records([NewRecord(value=b"v", timestamp_ms=-1)], now_ms=0)
    assert [each.timestamp_ms for each in decode_records(packed)] == [-1]
    assert find_first_since(packed, 5, 0) is None


def test_by_default_the_largest_uncompressed_batch_is_within_the_bounds() -> None:
    tiny_records = 1_048_588 // 7
    assert tiny_records < DEFAULT_BOUNDS.records
