"""Transaction markers in Kafka's format."""

import pytest

from goqueue.model.batch import assign, check_batch
from goqueue.model.control import (
    MARKER_BATCH_BYTES,
    Marker,
    MarkerType,
    decode_marker,
    encode_marker,
)
from goqueue.model.errors import CorruptBatch
from goqueue.model.records import NewRecord, decode_records, encode_records


@pytest.mark.parametrize("type_", list(MarkerType))
def test_round_trip(type_: MarkerType) -> None:
    marker = Marker(type_, 2**31 - 1)
    batch = encode_marker(marker, producer_id=2**40, producer_epoch=12, now_ms=1_700_000_000_000)
    header = check_batch(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 12, -1)
    assert (header.record_count, header.last_offset_delta) == (1, 0)
    assert header.max_timestamp_ms == header.base_timestamp_ms == 1_700_000_000_000
    assert decode_marker(batch) == marker


def test_bytes_are_those_of_kafka() -> None:
    batch = encode_marker(Marker(MarkerType.COMMIT, 3), producer_id=1, producer_epoch=0, now_ms=0)
    assert len(batch) == MARKER_BATCH_BYTES == 78
    # Length 16, attributes, deltas, key (version 0, type 1), value (version 0, epoch 3), headers.
    assert batch[61:].hex() == "20000000080000000" + "10c00000000000300"


def test_an_assigned_marker_stays_valid() -> None:
    batch = encode_marker(Marker(MarkerType.ABORT, 0), producer_id=1, producer_epoch=0, now_ms=5)
    assign(batch, 0, 1234, 7)
    assert check_batch(batch).base_offset == 1234
    assert decode_records(batch)[0].offset == 1234


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\0\0\5", b"\0\0\0\0\0\0"),
        (b"\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\1", b"\0"),
        (None, None),
    ],
)
def test_other_control_records_are_refused(key: bytes | None, value: bytes | None) -> None:
    batch = encode_records([NewRecord(key=key, value=value)], now_ms=0)
    with pytest.raises(CorruptBatch, match="control record at offset 0"):
        decode_marker(batch)
