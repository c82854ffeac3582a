"""Records in and out of batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.batch import COMPRESSION_NAMES, check_produced
from goqueue.model.batch_editing import recompress
from goqueue.model.errors import CorruptBatch
from goqueue.model.records import (
    COMPRESSION_CODES,
    NewRecord,
    decode_records,
    encode_records,
)

NOW_MS = 1_700_000_000_000

optional_bytes = st.none() | st.binary(max_size=40)
new_records = st.builds(
    NewRecord,
    value=optional_bytes,
    key=optional_bytes,
    headers=st.lists(st.tuples(st.text(max_size=10), optional_bytes), max_size=3).map(tuple),
    timestamp_ms=st.none() | st.integers(0, 2**48),
)


@given(records=st.lists(new_records, min_size=1, max_size=10), compression=st.integers(0, 4))
def test_what_is_encoded_is_decoded(records: list[NewRecord], compression: int) -> None:
    data = encode_records(records, now_ms=NOW_MS, compression=compression)
    header = check_produced(data)
    assert header.record_count == len(records)
    assert header.compression == compression

    decoded = decode_records(data)
    assert [record.offset for record in decoded] == list(range(len(records)))
    for new, stored in zip(records, decoded, strict=True):
        assert (stored.key, stored.value, stored.headers) == (new.key, new.value, new.headers)
        assert stored.timestamp_ms == (NOW_MS if new.timestamp_ms is None else new.timestamp_ms)


def test_compression_codes_are_kafkas() -> None:
    assert COMPRESSION_CODES == {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
    assert [COMPRESSION_CODES[name] for name in COMPRESSION_NAMES] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("compression", range(5))
def test_compression_makes_repetitive_batches_smaller(compression: int) -> None:
    records = [NewRecord(value=b"the same text again and again") for _ in range(200)]
    plain = encode_records(records, now_ms=NOW_MS)
    packed = encode_records(records, now_ms=NOW_MS, compression=compression)
    assert compression == 0 or len(packed) < len(plain) / 4


@given(data=st.data())
def test_garbage_records_are_corrupt_whatever_the_codec(data: st.DataObject) -> None:
    compression = data.draw(st.integers(0, 4))
    batch = encode_records([NewRecord(value=b"x" * 20)], now_ms=NOW_MS, compression=compression)
    garbage = data.draw(st.binary(min_size=len(batch) - 61, max_size=len(batch) - 61))
    batch[61:] = garbage
    try:
        decoded = decode_records(batch)
    except CorruptBatch:
        return
    assert len(decoded) == 1  # the bytes drawn happened to be one record


@pytest.mark.parametrize("compression", range(5))
def test_recompressed_batch_keeps_records_producer_and_sequence(compression: int) -> None:
    records = [NewRecord(value=b"v%d" % n, key=b"k", timestamp_ms=NOW_MS + n) for n in range(5)]
    batch = encode_records(
        records, now_ms=NOW_MS, compression=1, producer_id=7, producer_epoch=2, base_sequence=40
    )
    before = check_produced(batch)
    again = recompress(batch, before, compression)
    after = check_produced(again)
    assert decode_records(again) == decode_records(batch)
    assert after.compression == compression
    assert after[9:] == before[9:]
    assert after.max_timestamp_ms == before.max_timestamp_ms
