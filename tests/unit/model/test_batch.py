"""Record batches as views over bytes: what is accepted, what is refused, what is patched."""

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model import batch
from goqueue.model.batch import BatchHeader
from goqueue.model.batch_editing import stamp_append_time
from goqueue.model.errors import CorruptBatch, InvalidRecord
from goqueue.model.records import NewRecord, decode_records, encode_records

NOW_MS = 1_700_000_000_000


def encoded(*values: bytes, **options: int | bool) -> bytearray:
    records = [NewRecord(value=value) for value in values]
    return encode_records(records, now_ms=NOW_MS, **options)  # type: ignore[arg-type]


def resealed(data: bytearray, **changes: int) -> bytearray:
    """The batch with other header fields and a checksum that fits them."""
    header = batch.read_header(data)._replace(**changes)
    batch.HEADER_FIELDS.pack_into(data, 0, *header)
    crc = crc32c(memoryview(data)[batch.CHECKSUMMED_FROM :])
    batch.HEADER_FIELDS.pack_into(data, 0, *header._replace(crc=crc))
    return data


def test_header_of_an_encoded_batch() -> None:
    data = encoded(b"one", b"two", b"three")
    header = batch.check_batch(data)
    assert header.record_count == 3
    assert header.last_offset_delta == 2
    assert header.next_offset == 3
    assert header.size_bytes == len(data)
    assert header.max_timestamp_ms == NOW_MS
    assert not header.has_producer
    assert not header.is_control


def test_every_flipped_bit_behind_the_length_is_detected() -> None:
    data = encoded(b"some value")
    # Base offset, length and leader epoch stand before the checksum and are the broker's own.
    for position in range(batch.MAGIC_POSITION, len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptBatch):
                batch.check_batch(damaged)


@pytest.mark.parametrize("size", [0, 1, 11, 60, 61])
def test_cut_batch_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptBatch):
        batch.check_batch(encoded(b"some value")[:size])


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1])
def test_length_that_does_not_fit_is_corrupt(length: int) -> None:
    data = encoded(b"some value")
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch, match="batch length"):
        batch.check_batch(data)


def test_iterates_batches_up_to_the_damaged_one() -> None:
    first, second = encoded(b"a"), encoded(b"b", b"c")
    found = list(batch.iterate_batches(bytes(first + second)))
    assert [position for position, _ in found] == [0, len(first)]
    assert [header.record_count for _, header in found] == [1, 2]

    second[-1] ^= 1
    batches = batch.iterate_batches(bytes(first + second))
    assert next(batches)[0] == 0
    with pytest.raises(CorruptBatch, match="checksum"):
        next(batches)


@given(
    base_offset=st.integers(0, 2**63 - 1),
    leader_epoch=st.integers(0, 2**31 - 1),
)
def test_assigning_a_place_keeps_the_checksum(base_offset: int, leader_epoch: int) -> None:
    data = encoded(b"before", b"after")
    joined = bytearray(b"x" * 7) + data
    batch.assign(joined, 7, base_offset, leader_epoch)
    header = batch.check_batch(joined, 7)
    assert (header.base_offset, header.leader_epoch) == (base_offset, leader_epoch)
    assert joined[:7] == b"x" * 7
    assert decode_records(data)[0].value == b"before"


@given(now_ms=st.integers(0, 2**62))
def test_append_time_is_stamped_on_every_record(now_ms: int) -> None:
    data = encoded(b"one", b"two")
    stamp_append_time(data, 0, batch.check_batch(data), now_ms)
    header = batch.check_batch(data)
    assert header.uses_append_time
    assert header.max_timestamp_ms == now_ms
    assert [record.timestamp_ms for record in decode_records(data)] == [now_ms, now_ms]


def test_produced_batch_of_an_old_format_is_named() -> None:
    data = encoded(b"x")
    data[batch.MAGIC_POSITION] = 1
    with pytest.raises(InvalidRecord, match="format 1"):
        batch.check_produced(data)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"record_count": 0}, "0 records"),
        ({"record_count": -1}, "-1 records"),
        ({"record_count": 5}, "5 records"),
        ({"last_offset_delta": 7}, "delta 7"),
        ({"attributes": batch.CONTROL_BIT}, "control"),
        ({"attributes": 5}, "compression type 5"),
        ({"attributes": batch.TRANSACTIONAL_BIT}, "producer id"),
        ({"producer_id": 4, "producer_epoch": -1, "base_sequence": 0}, "epoch -1"),
        ({"producer_id": 4, "producer_epoch": 0, "base_sequence": -1}, "sequence"),
    ],
)
def test_headers_a_producer_must_not_send(changes: dict[str, int], reason: str) -> None:
    with pytest.raises(InvalidRecord, match=reason):
        batch.check_produced(resealed(encoded(b"x"), **changes))


def test_idempotent_and_transactional_batches_are_accepted() -> None:
    data = encoded(b"x", is_transactional=True, producer_id=4, producer_epoch=0, base_sequence=9)
    header: BatchHeader = batch.check_produced(data)
    assert header.is_transactional
    assert (header.producer_id, header.base_sequence) == (4, 9)


@settings(max_examples=200)
@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_and_nothing_else_is_raised(data: bytes) -> None:
    with pytest.raises((CorruptBatch, InvalidRecord)):
        batch.check_produced(data)
