"""Kafka's record format in machine code: records of batches, straight into Arrow's columns.

Layout: https://kafka.apache.org/documentation/#record. Every length is checked against the bytes
that are there before it is followed; damage ends the scan with a code, never a read beyond.

Arguments are addresses of tables of 64-bit numbers, whose places are named below.
"""

from typing import Final

import numpy as np

from goqueue.model import header_names
from goqueue.model.batch import NO_TIMESTAMP
from goqueue.model.settings import INT64_MAX
from goqueue.spark.native_code import native
from goqueue.spark.native_memory import (
    WORD_BYTES,
    add_to_word,
    copy_bytes,
    load8,
    load64,
    put_word,
    same_bytes,
    store8,
    store32,
    store64,
    word_at,
)

# What is known of a batch: a row each in the table of batches.
SECTION_START: Final = 0
SECTION_END: Final = 1
BASE_OFFSET: Final = 2
BASE_TIMESTAMP_MS: Final = 3
# The broker's time of append, or NO_APPEND_TIME where the records' own times hold.
APPEND_TIMESTAMP_MS: Final = 4
RECORD_COUNT: Final = 5
BATCH_COLUMNS: Final = 6
NO_APPEND_TIME: Final = -(2**63)

# Where a scan goes on; all 0 at first.
CURSOR_BATCH: Final = 0
CURSOR_RECORD: Final = 1
CURSOR_POSITION: Final = 2
CURSOR_PLACES: Final = 3

# Which records are wanted: offsets and times from the first up to, not including, the end.
FIRST_OFFSET: Final = 0
END_OFFSET: Final = 1
FIRST_TIME_MS: Final = 2
END_TIME_MS: Final = 3
# Nobody asks for a time: records without one are wanted, too.
ANY_TIME: Final = 4
# 0 if any key will do; else the addresses of the keys and of the 64-bit numbers where they end.
KEY_COUNT: Final = 5
KEYS: Final = 6
KEYS_ENDS: Final = 7
WANTED_PLACES: Final = 8

# Addresses of the columns to fill; 0 for a column that nobody wants. Those of presence have a byte
# per row. Ends have a place more than there are rows: Arrow's begin with 0.
OFFSETS: Final = 0
TIMES_US: Final = 1
TIME_PRESENCE: Final = 2
TIME_TYPES: Final = 3
PRIORITIES: Final = 4
KEY_ENDS: Final = 5
KEY_PRESENCE: Final = 6
KEY_CONTENT: Final = 7
VALUE_ENDS: Final = 8
VALUE_PRESENCE: Final = 9
VALUE_CONTENT: Final = 10
HEADER_STARTS: Final = 11
HEADER_COUNTS: Final = 12
COLUMN_PLACES: Final = 13

# What a scan has counted in the rows it made.
KEY_BYTES: Final = 0
KEY_NULLS: Final = 1
VALUE_BYTES: Final = 2
VALUE_NULLS: Final = 3
TIME_NULLS: Final = 4
HEADERS: Final = 5
HEADERS_BYTES: Final = 6
ROWS: Final = 7
COUNT_PLACES: Final = 8

# length, attributes, timestamp, offset, key length, value length, header count: a byte each
MIN_RECORD_BYTES: Final = 7

US_PER_MS: Final = 1000
# What 64 bits of microseconds hold; others would turn into another time without a word.
LAST_TIME_MS: Final = INT64_MAX // US_PER_MS
FIRST_TIME_HELD_MS: Final = -LAST_TIME_MS

DEFAULT_PRIORITY: Final = 2
_VARINT_MAX_SHIFT: Final = 63
_PRIORITY_NAME: Final = header_names.PRIORITY.encode()
# The name is compared as two numbers of 64 bits.
assert len(_PRIORITY_NAME) == 2 * WORD_BYTES
_PRIORITY_NAME_BYTES: Final = 2 * WORD_BYTES
_PRIORITY_NAME_BEGIN: Final = int.from_bytes(_PRIORITY_NAME[:WORD_BYTES], "little", signed=True)
_PRIORITY_NAME_REST: Final = int.from_bytes(_PRIORITY_NAME[WORD_BYTES:], "little", signed=True)


@native
def _long_varint(position: int, end: int) -> tuple[int, int]:
    raw = 0
    shift = 0
    while position < end:
        byte = load8(position)
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            # The sign's bit is no part of the half: numbers are shifted with their sign.
            return ((raw >> 1) & INT64_MAX) ^ -(raw & 1), position
        shift += 7
        if shift > _VARINT_MAX_SHIFT:
            break
    return 0, -1


@native
def varint(position: int, end: int) -> tuple[int, int]:
    """(value, next position) of a zigzag varint of up to 10 bytes; next position -1 if broken."""
    if position >= end:
        return 0, -1
    first = load8(position)
    if first < 0x80:  # most are of one byte
        return (first >> 1) ^ -(first & 1), position + 1
    if position + 1 < end:
        second = load8(position + 1)
        if second < 0x80:
            raw = (first & 0x7F) | (second << 7)
            return (raw >> 1) ^ -(raw & 1), position + 2
    return _long_varint(position, end)


@native
def _field(position: int, end: int) -> tuple[int, int, int]:
    """(start, length, next position) of bytes with their length before; length -1 is null."""
    length, start = varint(position, end)
    if start < 0 or length < -1 or length > end - start:
        return 0, 0, -1
    return start, length, start + max(length, 0)


@native
def _priority(start: int, length: int) -> int:
    """0 to 4 from a digit or a name in any case; the names differ in their first letter."""
    while length > 0 and load8(start) <= 32:
        start, length = start + 1, length - 1
    while length > 0 and load8(start + length - 1) <= 32:
        length -= 1
    if length <= 0:
        return DEFAULT_PRIORITY
    first = load8(start)
    if length == 1 and 48 <= first <= 52:
        return first - 48
    letter = first | 32
    if letter == 99 and length == 8:  # critical
        return 0
    if letter == 104 and length == 4:  # high
        return 1
    if letter == 108 and length == 3:  # low
        return 3
    if letter == 98 and length == 10:  # background
        return 4
    return DEFAULT_PRIORITY


@native
def _scan_headers(position: int, end: int, count: int) -> int:
    """The priority; -1 if the headers do not end where the record ends."""
    priority = DEFAULT_PRIORITY
    for _ in range(count):
        key, key_length, position = _field(position, end)
        if position < 0 or key_length < 0:  # a header's key cannot be null
            return -1
        value, value_length, position = _field(position, end)
        if position < 0:
            return -1
        if (
            key_length == _PRIORITY_NAME_BYTES
            and load64(key) == _PRIORITY_NAME_BEGIN
            and load64(key + WORD_BYTES) == _PRIORITY_NAME_REST
        ):
            priority = _priority(value, value_length)
    return priority if position == end else -1


@native
def _is_wanted_key(wanted: int, start: int, length: int) -> bool:
    keys = word_at(wanted, KEYS)
    ends = word_at(wanted, KEYS_ENDS)
    begin = 0
    for index in range(word_at(wanted, KEY_COUNT)):
        end = word_at(ends, index)
        if end - begin == length and same_bytes(keys + begin, start, length):
            return True
        begin = end
    return False


@native
def _record(position: int, section_end: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """(end or -1 if broken, time, offset, key, its length, value, its length, headers, their count)

    Time and offset are relative to the batch's.
    """
    broken = -1, 0, 0, 0, 0, 0, 0, 0, 0
    length, position = varint(position, section_end)
    if position < 0 or length < MIN_RECORD_BYTES - 1 or length > section_end - position:
        return broken
    end = position + length
    time, position = varint(position + 1, end)  # after the attributes
    if position < 0:
        return broken
    offset, position = varint(position, end)
    if position < 0:
        return broken
    key, key_length, position = _field(position, end)
    if position < 0:
        return broken
    value, value_length, position = _field(position, end)
    if position < 0:
        return broken
    count, position = varint(position, end)
    # A header has two lengths at least.
    if position < 0 or count < 0 or count > (end - position) // 2:
        return broken
    if count == 0 and position != end:
        return broken
    return end, time, offset, key, key_length, value, value_length, position, count


@native
def _is_wanted(wanted: int, offset: int, time: int, key: int, key_length: int) -> bool:
    if offset < word_at(wanted, FIRST_OFFSET) or offset >= word_at(wanted, END_OFFSET):
        return False
    if not word_at(wanted, ANY_TIME):
        if time == NO_TIMESTAMP:
            return False
        if time < word_at(wanted, FIRST_TIME_MS) or time >= word_at(wanted, END_TIME_MS):
            return False
    return word_at(wanted, KEY_COUNT) == 0 or _is_wanted_key(wanted, key, key_length)


@native
def _write_time(columns: int, counts: int, row: int, time: int, is_append_time: int) -> None:
    times = word_at(columns, TIMES_US)
    if times:
        held = min(max(time, FIRST_TIME_HELD_MS), LAST_TIME_MS)
        is_there = int(time != NO_TIMESTAMP)
        store64(times + row * 8, held * US_PER_MS)
        store8(word_at(columns, TIME_PRESENCE) + row, is_there)
        add_to_word(counts, TIME_NULLS, 1 - is_there)
    types = word_at(columns, TIME_TYPES)
    if types:
        store32(types + row * 4, is_append_time)


@native
def _write_field(
    columns: int, ends_place: int, counts: int, bytes_place: int, row: int, start: int, length: int
) -> None:
    """The places of presence and content follow that of the ends; nulls that of the bytes."""
    ends = word_at(columns, ends_place)
    if ends:
        position = word_at(counts, bytes_place)
        store8(word_at(columns, ends_place + 1) + row, int(length >= 0))
        if length >= 0:
            copy_bytes(word_at(columns, ends_place + 2) + position, start, length)
            position += length
            put_word(counts, bytes_place, position)
        else:
            add_to_word(counts, bytes_place + 1, 1)
        store32(ends + row * 4 + 4, position)


@native
def _write_headers(
    columns: int, counts: int, row: int, data: int, start: int, end: int, count: int
) -> bool:
    """Priority and the place of the headers; False if they are broken."""
    priorities = word_at(columns, PRIORITIES)
    starts = word_at(columns, HEADER_STARTS)
    priority = DEFAULT_PRIORITY
    if count and (priorities or starts):
        priority = _scan_headers(start, end, count)
        if priority < 0:
            return False
    if priorities:
        store32(priorities + row * 4, priority)
    if starts:
        store64(starts + row * 8, start - data)
        store64(word_at(columns, HEADER_COUNTS) + row * 8, count)
        add_to_word(counts, HEADERS, count)
        add_to_word(counts, HEADERS_BYTES, end - start)
    return True


@native
def _scan_batch(
    data: int, batch: int, cursor: int, wanted: int, columns: int, counts: int, room: int
) -> bool:
    """Fill the columns with records of one batch, as far as there is room; False if it is broken.

    The cursor stands at the batch's next record. Rows are counted among the counts.
    """
    record = word_at(cursor, CURSOR_RECORD)
    position = word_at(cursor, CURSOR_POSITION)
    if record == 0:
        position = data + word_at(batch, SECTION_START)
    section_end = data + word_at(batch, SECTION_END)
    base_offset = word_at(batch, BASE_OFFSET)
    base_time = word_at(batch, BASE_TIMESTAMP_MS)
    append_time = word_at(batch, APPEND_TIMESTAMP_MS)
    is_append_time = int(append_time != NO_APPEND_TIME)
    record_count = word_at(batch, RECORD_COUNT)
    row = word_at(counts, ROWS)
    while record < record_count and row < room:
        record += 1
        position, time, offset, key, key_length, value, value_length, headers, header_count = (
            _record(position, section_end)
        )
        if position < 0:
            return False
        offset += base_offset
        time = append_time if is_append_time else time + base_time
        if not _is_wanted(wanted, offset, time, key, key_length):
            continue
        if not _write_headers(columns, counts, row, data, headers, position, header_count):
            return False
        offsets = word_at(columns, OFFSETS)
        if offsets:
            store64(offsets + row * 8, offset)
        _write_time(columns, counts, row, time, is_append_time)
        _write_field(columns, KEY_ENDS, counts, KEY_BYTES, row, key, key_length)
        _write_field(columns, VALUE_ENDS, counts, VALUE_BYTES, row, value, value_length)
        row += 1
    put_word(counts, ROWS, row)
    if record == record_count:
        add_to_word(cursor, CURSOR_BATCH, 1)
        record = 0
    put_word(cursor, CURSOR_RECORD, record)
    put_word(cursor, CURSOR_POSITION, position)
    return True


@native
def scan_records(
    data: int,
    batches: int,
    batch_count: int,
    cursor: int,
    wanted: int,
    columns: int,
    counts: int,
    room: int,
) -> int:
    """Fill the columns with up to `room` wanted records, and move the cursor behind them.

    Returns the rows made, or -1 less the index of a batch that is broken. The columns of content
    have room for all bytes of the batches' sections; the counts are all 0.
    """
    for ends_place in (KEY_ENDS, VALUE_ENDS):
        ends = word_at(columns, ends_place)
        if ends:
            store32(ends, 0)
    while word_at(cursor, CURSOR_BATCH) < batch_count and word_at(counts, ROWS) < room:
        index = word_at(cursor, CURSOR_BATCH)
        batch = batches + index * (BATCH_COLUMNS * WORD_BYTES)
        if not _scan_batch(data, batch, cursor, wanted, columns, counts, room):
            return -1 - index
    return word_at(counts, ROWS)


@native
def copy_headers(
    data: int,
    end: int,
    starts: int,
    header_counts: int,
    rows: int,
    list_ends: int,
    key_ends: int,
    keys: int,
    value_ends: int,
    values: int,
    presence: int,
) -> int:
    """Copy the headers of every row; returns the count of headers without a value.

    The scan has checked all lengths: nothing is checked again. `end` is the end of the data.
    """
    key_bytes = value_bytes = header = nulls = 0
    store32(list_ends, 0)
    store32(key_ends, 0)
    store32(value_ends, 0)
    for row in range(rows):
        position = data + load64(starts + row * 8)
        for _ in range(load64(header_counts + row * 8)):
            start, length, position = _field(position, end)
            copy_bytes(keys + key_bytes, start, length)
            key_bytes += length
            start, length, position = _field(position, end)
            store8(presence + header, length >= 0)
            if length < 0:
                nulls += 1
            else:
                copy_bytes(values + value_bytes, start, length)
                value_bytes += length
            header += 1
            store32(key_ends + header * 4, key_bytes)
            store32(value_ends + header * 4, value_bytes)
        store32(list_ends + row * 4 + 4, header)
    return nulls


def load_scan() -> None:
    """Compile what reads records, or load it, without a record."""
    places = np.zeros((4, COLUMN_PLACES), np.int64)
    cursor, wanted, columns, counts = (int(row.ctypes.data) for row in places)
    scan_records(0, 0, 0, cursor, wanted, columns, counts, 0)
