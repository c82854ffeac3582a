"""What waits in memory, and what it costs."""

import tracemalloc
from uuid import UUID

import pytest

from goqueue.model.records import NewRecord, decode_records, encode_records
from goqueue.state.delays.pending import Entry, PendingTable
from goqueue.state.delays.records import (
    Claimed,
    Scheduled,
    TargetKey,
    note_record,
    parse_address,
    parse_note,
    scheduled_record,
    stored_size_bytes,
)

NOW_MS = 1_800_000_000_000
BYTES_PER_MESSAGE_MAX = 200


@pytest.mark.parametrize("count", [88_000, 150_000, 176_000])
def test_a_pending_message_takes_less_than_200_bytes(count: int) -> None:
    """Also right after the dictionary has grown."""
    numbers = range(10**9, 10**9 + count)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    table = PendingTable(NOW_MS)
    for number in numbers:
        table.add(Entry(number, NOW_MS + number % 7_000_000, 3, number, 150))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table) == count
    assert (after - before) / count < BYTES_PER_MESSAGE_MAX


def test_places_of_removed_entries_are_used_again() -> None:
    table = PendingTable(NOW_MS)
    for number in range(1_000):
        table.add(Entry(number, NOW_MS + 1_000, 0, number, 1))
        assert table.remove(number) is not None
    table.add(Entry(5_000, NOW_MS + 1_000, 0, 0, 1))
    assert len(table._numbers) == 1
    assert table.pop_due(NOW_MS + 1_000, limit=10) == [5_000]


def test_a_message_keeps_what_is_its_own_beside_its_address() -> None:
    address = Scheduled(2**40, NOW_MS, TargetKey(UUID(int=77), 12), 3)
    message = NewRecord(key=None, value=None, headers=(("@", b"mine"), ("h", None)))
    batch = encode_records([scheduled_record(address, message)], now_ms=NOW_MS)
    [stored] = decode_records(batch)
    assert parse_address(stored.headers) == address
    assert stored.headers[1:] == message.headers
    assert (stored.key, stored.value) == (None, None)


def test_sizes_are_never_less_than_what_is_stored() -> None:
    for headers in ((), (("ü" * 50, b"x" * 9), ("", None)), (("h", b""),) * 20):
        message = NewRecord(key=b"k" * 70, value=b"v" * 300, headers=headers)
        address = Scheduled(2**50, 2**50, TargetKey(UUID(int=1), 2**30), 2**31)
        batch = encode_records([scheduled_record(address, message)] * 4, now_ms=NOW_MS)
        assert 4 * stored_size_bytes(message.key, message.value, headers) >= len(batch)


def test_notes_come_back_as_they_were() -> None:
    note = Claimed(UUID(int=5), 1, 99, 2**31 - 1, b"\1" * 16)
    [stored] = decode_records(encode_records([note_record(note)], now_ms=NOW_MS))
    assert parse_address(stored.headers) is None
    assert parse_note(stored.value or b"") == note
    assert len(note.numbers) == 2


def test_a_header_that_is_not_ours_is_noticed() -> None:
    with pytest.raises(ValueError, match="unknown header 'x'"):
        parse_address([("x", b"")])
