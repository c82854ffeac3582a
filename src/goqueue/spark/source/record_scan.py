"""Kafka's record format in machine code: find the records of batches, then copy their fields.

Layout: https://kafka.apache.org/documentation/#record. Every length is checked against the bytes
that are there before it is followed; damage ends the scan with a code, never a read beyond.
"""

from typing import Any, Final

import numpy as np

from goqueue.model import header_names
from goqueue.spark.native_code import native

# What one record was found to be: a column each in the table that `scan_records` fills.
OFFSET: Final = 0
TIMESTAMP_MS: Final = 1
KEY_START: Final = 2
KEY_LENGTH: Final = 3
VALUE_START: Final = 4
VALUE_LENGTH: Final = 5
HEADERS_START: Final = 6
HEADERS_END: Final = 7
HEADER_COUNT: Final = 8
PRIORITY: Final = 9
HAS_APPEND_TIME: Final = 10
RECORD_COLUMNS: Final = 11

# What is known of a batch: a column each in the table that `scan_records` is given.
SECTION_START: Final = 0
SECTION_END: Final = 1
BASE_OFFSET: Final = 2
BASE_TIMESTAMP_MS: Final = 3
# The broker's time of append, or NO_APPEND_TIME where the records' own times hold.
APPEND_TIMESTAMP_MS: Final = 4
RECORD_COUNT: Final = 5
BATCH_COLUMNS: Final = 6
NO_APPEND_TIME: Final = -(2**63)

# length, attributes, timestamp, offset, key length, value length, header count: a byte each
MIN_RECORD_BYTES: Final = 7

DEFAULT_PRIORITY: Final = 2
NULL_LENGTH: Final = -1
_PRIORITY_HEADER: Final = np.frombuffer(header_names.PRIORITY.encode(), np.uint8).copy()

# `boundscheck` is off: the code below checks each position itself.
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
# int or numpy.int64: the same in machine code, and different to a type checker.
Whole = Any


@native
def _varint(data: Bytes, position: Whole, end: Whole) -> tuple[Whole, Whole]:
    """(value, next position) of a zigzag varint of up to 10 bytes; next position -1 if broken."""
    if position >= end:
        return np.int64(0), np.int64(-1)
    first = np.int64(data[np.uint64(position)])
    if first < 0x80:  # most are of one byte
        return (first >> 1) ^ -(first & 1), np.int64(position + 1)
    raw = np.uint64(0)
    shift = np.uint64(0)
    while position < end:
        byte = data[np.uint64(position)]
        position += 1
        raw |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            half = np.int64(raw >> np.uint64(1))
            return (~half if raw & np.uint64(1) else half), np.int64(position)
        shift += np.uint64(7)
        if shift > np.uint64(63):
            break
    return np.int64(0), np.int64(-1)


@native
def _field(data: Bytes, position: Whole, end: Whole) -> tuple[Whole, Whole, Whole]:
    """(start, length, next position) of bytes with their length before; length -1 is null."""
    length, start = _varint(data, position, end)
    if start < 0 or length < -1 or length > end - start:
        return np.int64(0), np.int64(0), np.int64(-1)
    if length == -1:
        return np.int64(start), np.int64(-1), np.int64(start)
    return np.int64(start), np.int64(length), np.int64(start + length)


@native
def _is_priority_header(data: Bytes, start: Whole, length: Whole) -> bool:
    if length != len(_PRIORITY_HEADER):
        return False
    differing = 0
    for index in range(length):
        differing += data[start + index] != _PRIORITY_HEADER[index]
    return differing == 0


@native
def _priority(data: Bytes, start: Whole, length: Whole) -> Whole:
    """0 to 4 from a digit or a name in any case; the names differ in their first letter."""
    while length > 0 and data[start] <= 32:
        start, length = start + 1, length - 1
    while length > 0 and data[start + length - 1] <= 32:
        length -= 1
    if length <= 0:
        return DEFAULT_PRIORITY
    first = data[start]
    if length == 1 and 48 <= first <= 52:
        return np.int64(first) - 48
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
def _scan_headers(data: Bytes, position: Whole, end: Whole, count: Whole) -> tuple[Whole, Whole]:
    """(next position or -1, priority)"""
    priority = DEFAULT_PRIORITY
    for _ in range(count):
        key_start, key_length, position = _field(data, position, end)
        if position < 0 or key_length < 0:  # a header's key cannot be null
            return np.int64(-1), np.int64(priority)
        value_start, value_length, position = _field(data, position, end)
        if position < 0:
            return np.int64(-1), np.int64(priority)
        if _is_priority_header(data, key_start, key_length):
            priority = _priority(data, value_start, value_length)
    return np.int64(position), np.int64(priority)


@native
def _scan_record(data: Bytes, position: Whole, section_end: Whole, row: Numbers) -> Whole:
    """Fill `row` with one record, offset and timestamp as deltas; next position, -1 if broken."""
    length, position = _varint(data, position, section_end)
    if position < 0 or length < MIN_RECORD_BYTES - 1 or length > section_end - position:
        return np.int64(-1)
    end = position + length
    row[TIMESTAMP_MS], position = _varint(data, position + 1, end)  # after the attributes
    if position < 0:
        return np.int64(-1)
    row[OFFSET], position = _varint(data, position, end)
    if position < 0:
        return np.int64(-1)
    row[KEY_START], row[KEY_LENGTH], position = _field(data, position, end)
    if position < 0:
        return np.int64(-1)
    row[VALUE_START], row[VALUE_LENGTH], position = _field(data, position, end)
    if position < 0:
        return np.int64(-1)
    count, position = _varint(data, position, end)
    # A header has two lengths at least.
    if position < 0 or count < 0 or count > (end - position) // 2:
        return np.int64(-1)
    row[HEADERS_START] = position
    row[HEADERS_END] = end
    row[HEADER_COUNT] = count
    position, row[PRIORITY] = _scan_headers(data, position, end, count)
    return np.int64(end) if position == end else np.int64(-1)


@native
def scan_records(
    data: Bytes, batches: Numbers, first_offset: Whole, end_offset: Whole, found: Numbers
) -> tuple[Whole, Whole]:
    """Fill `found` with the records from `first_offset` up to `end_offset`.

    Returns (records found, index of the first broken batch or -1). `found` has a row for each
    record that the batches say they have, and one more.
    """
    rows = 0
    for index in range(len(batches)):
        position = batches[index, SECTION_START]
        append_time_ms = batches[index, APPEND_TIMESTAMP_MS]
        for _ in range(batches[index, RECORD_COUNT]):
            row = found[rows]
            position = _scan_record(data, position, batches[index, SECTION_END], row)
            if position < 0:
                return rows, index
            row[OFFSET] += batches[index, BASE_OFFSET]
            row[HAS_APPEND_TIME] = append_time_ms != NO_APPEND_TIME
            if row[HAS_APPEND_TIME]:
                row[TIMESTAMP_MS] = append_time_ms
            else:
                row[TIMESTAMP_MS] += batches[index, BASE_TIMESTAMP_MS]
            # A row that is not wanted is written over by the next.
            if first_offset <= row[OFFSET] < end_offset:
                rows += 1
    return rows, -1


@native
def _copy(data: Bytes, start: Whole, length: Whole, target: Bytes, position: Whole) -> None:
    # Unsigned positions: a negative one would count from the array's end, and testing for that
    # per byte keeps the compiler from copying many bytes at once.
    source = np.uint64(start)
    goal = np.uint64(position)
    for index in range(np.uint64(length)):
        target[goal + index] = data[source + index]


@native
def copy_fields(
    data: Bytes,
    found: Numbers,
    start_column: Whole,
    ends: np.ndarray[Any, np.dtype[np.int32]],
    content: Bytes,
    present: Bytes,
) -> int:
    """Copy one field of every record into Arrow's layout; returns the count of nulls.

    `ends` has a place more than there are records: Arrow's offsets begin with 0.
    """
    position = 0
    nulls = 0
    ends[0] = 0
    for row in range(len(found)):
        length = found[row, start_column + 1]
        present[row] = length >= 0
        if length < 0:
            nulls += 1
        else:
            _copy(data, found[row, start_column], length, content, position)
            position += length
        ends[row + 1] = position
    return nulls


@native
def copy_headers(
    data: Bytes,
    found: Numbers,
    list_ends: np.ndarray[Any, np.dtype[np.int32]],
    key_ends: np.ndarray[Any, np.dtype[np.int32]],
    keys: Bytes,
    value_ends: np.ndarray[Any, np.dtype[np.int32]],
    values: Bytes,
    present: Bytes,
) -> int:
    """Copy the headers of every record; returns the count of headers without a value.

    The scan has checked all lengths: nothing is checked again.
    """
    key_position = value_position = header = nulls = 0
    list_ends[0] = key_ends[0] = value_ends[0] = 0
    end = len(data)
    for row in range(len(found)):
        position = found[row, HEADERS_START]
        for _ in range(found[row, HEADER_COUNT]):
            start, length, position = _field(data, position, end)
            _copy(data, start, length, keys, key_position)
            key_position += length
            start, length, position = _field(data, position, end)
            present[header] = length >= 0
            if length < 0:
                nulls += 1
            else:
                _copy(data, start, length, values, value_position)
                value_position += length
            header += 1
            key_ends[header] = key_position
            value_ends[header] = value_position
        list_ends[row + 1] = header
    return nulls
