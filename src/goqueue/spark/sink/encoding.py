"""Rows to Kafka's record format, in machine code: no Python per row.

Layout: https://kafka.apache.org/documentation/#record. Columns come as one buffer of bytes and the
positions in it, as Arrow keeps them. Compiled functions get them by address, in a table of 64-bit
words whose places are named below.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from goqueue.spark.native_code import native
from goqueue.spark.native_memory import (
    WORD_BYTES,
    add_to_word,
    copy_bytes,
    load8,
    load32,
    put_word,
    store8,
    word_at,
)

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

NO_PARTITION: Final = -1

# Of a column of bytes.
_DATA: Final = 0
_OFFSETS: Final = 1
_IS_NULL: Final = 2
# Of all columns: where each begins.
_KEY: Final = 0
_VALUE: Final = 3
_HEADER_KEYS: Final = 6
_HEADER_VALUES: Final = 9
_MARK_NAMES: Final = 12
_MARK_VALUES: Final = 15
_TIMESTAMPS_MS: Final = 18
_HEADER_STARTS: Final = 19
_MARK_COUNT: Final = 20
_ROW_COUNT: Final = 21
_HAS_HEADERS: Final = 22

_MURMUR_SEED: Final = 0x9747B28C
_MURMUR_MULTIPLIER: Final = 0x5BD1E995
_LOW_32: Final = 0xFFFF_FFFF
# Of 64 bits shifted by seven, those that are no copy of the sign.
_WITHOUT_SIGN: Final = 2**57 - 1


class BytesColumn(NamedTuple):
    """Row r is data[offsets[r] : offsets[r + 1]], or null where is_null[r]."""

    data: Bytes
    offsets: Numbers
    is_null: Bytes

    def addresses(self) -> list[int]:
        return [each.ctypes.data for each in self]


class RowColumns(NamedTuple):
    """Everything that a record is made of. Entries of headers are counted over all rows; `marks`
    are the headers that GoQueue itself reads, by rows: mark m of row r is entry m * rows + r."""

    key: BytesColumn
    value: BytesColumn
    timestamps_ms: Numbers
    header_starts: Numbers
    header_keys: BytesColumn
    header_values: BytesColumn
    mark_count: int
    mark_names: BytesColumn
    mark_values: BytesColumn

    def table(self) -> Numbers:
        """For compiled functions; good as long as the columns are."""
        columns = (self.key, self.value, self.header_keys, self.header_values)
        marks = (self.mark_names, self.mark_values)
        return np.array(
            [
                *(address for each in (*columns, *marks) for address in each.addresses()),
                self.timestamps_ms.ctypes.data,
                self.header_starts.ctypes.data,
                self.mark_count,
                len(self.timestamps_ms),
                int(self.mark_count > 0 or self.header_starts[-1] > 0),
            ],
            np.int64,
        )


def choose_partitions(
    columns: RowColumns,
    wanted: Numbers,
    rows: Numbers,
    partition_count: int,
    sticky: int,
    sticky_bytes: int,
    batch_bytes: int,
    chosen: Numbers,
) -> tuple[int, int]:
    """Fill `chosen` for `rows`: the partition that is wanted, that of the key as Kafka's clients
    hash it, or for rows without either the same for a batch long (KIP-480).

    Returns the partition and the bytes in it to go on with.
    """
    table = columns.table()
    return _choose_partitions(
        table.ctypes.data,
        wanted.ctypes.data,
        rows.ctypes.data,
        len(rows),
        partition_count,
        sticky,
        sticky_bytes,
        batch_bytes,
        chosen.ctypes.data,
    )


def encode_records(
    columns: RowColumns,
    rows: Numbers,
    first: int,
    batch_bytes: int,
    largest_bytes: int,
    out: Bytes,
) -> tuple[int, int, int, int]:
    """Encode rows[first:] into `out` until it has `batch_bytes`.

    The first record may be larger, up to `largest_bytes`, which `out` has room for. Returns the
    next row, the bytes written, the highest timestamp, and if the first record is too large its
    size, else 0.
    """
    assert batch_bytes <= len(out), "compiled code writes without looking"
    assert largest_bytes <= len(out), "compiled code writes without looking"
    table = columns.table()
    return _encode_records(
        table.ctypes.data,
        rows.ctypes.data,
        len(rows),
        first,
        batch_bytes,
        largest_bytes,
        out.ctypes.data,
    )


@native
def _choose_partitions(
    table: int,
    wanted: int,
    rows: int,
    row_count: int,
    partition_count: int,
    sticky: int,
    sticky_bytes: int,
    batch_bytes: int,
    chosen: int,
) -> tuple[int, int]:
    key, value = _column(table, _KEY), _column(table, _VALUE)
    for at in range(row_count):
        row = word_at(rows, at)
        if word_at(wanted, row) != NO_PARTITION:
            put_word(chosen, at, word_at(wanted, row))
        elif not _is_null(key, row):
            start, length = _content(key, row)
            put_word(chosen, at, (_murmur2(start, length) & 0x7FFF_FFFF) % partition_count)
        else:
            if sticky_bytes >= batch_bytes:
                sticky = (sticky + 1) % partition_count
                sticky_bytes = 0
            put_word(chosen, at, sticky)
            sticky_bytes += _content(value, row)[1]
    return sticky, sticky_bytes


@native
def _column(table: int, place: int) -> int:
    return table + place * WORD_BYTES


@native
def _is_null(column: int, row: int) -> bool:
    return load8(word_at(column, _IS_NULL) + row) != 0


@native
def _content(column: int, row: int) -> tuple[int, int]:
    """(address, length)"""
    offsets = word_at(column, _OFFSETS)
    start = word_at(offsets, row)
    return word_at(column, _DATA) + start, word_at(offsets, row + 1) - start


@native
def _murmur2(start: int, length: int) -> int:
    state = _MURMUR_SEED ^ (length & _LOW_32)
    position, end = start, start + length
    while end - position >= 4:
        word = ((load32(position) & _LOW_32) * _MURMUR_MULTIPLIER) & _LOW_32
        word ^= word >> 24
        word = (word * _MURMUR_MULTIPLIER) & _LOW_32
        state = ((state * _MURMUR_MULTIPLIER) & _LOW_32) ^ word
        position += 4
    if position < end:
        shift = 0
        tail = 0
        while position < end:
            tail |= load8(position) << shift
            shift += 8
            position += 1
        state = ((state ^ tail) * _MURMUR_MULTIPLIER) & _LOW_32
    state ^= state >> 13
    state = (state * _MURMUR_MULTIPLIER) & _LOW_32
    return state ^ (state >> 15)


def group_by_partition(
    rows: Numbers, chosen: Numbers, partition_count: int, order: Numbers, starts: Numbers
) -> None:
    """Rows of partition p, in their order: order[starts[p] : starts[p + 1]]."""
    starts[0] = 0
    np.cumsum(np.bincount(chosen, minlength=partition_count), out=starts[1:])
    filled = starts.copy()
    _fill_groups(
        rows.ctypes.data, chosen.ctypes.data, len(rows), order.ctypes.data, filled.ctypes.data
    )


@native
def _fill_groups(rows: int, chosen: int, row_count: int, order: int, filled: int) -> None:
    for at in range(row_count):
        partition = word_at(chosen, at)
        put_word(order, word_at(filled, partition), word_at(rows, at))
        add_to_word(filled, partition, 1)


@native
def _encode_records(
    table: int,
    rows: int,
    row_count: int,
    first: int,
    batch_bytes: int,
    largest_bytes: int,
    out: int,
) -> tuple[int, int, int, int]:
    key, value = _column(table, _KEY), _column(table, _VALUE)
    timestamps_ms = word_at(table, _TIMESTAMPS_MS)
    has_headers = word_at(table, _HAS_HEADERS)
    position = out
    at = first
    base_ms = word_at(timestamps_ms, word_at(rows, first))
    highest_ms = base_ms
    header_count, header_bytes = 0, 0
    while at < row_count:
        row = word_at(rows, at)
        time_ms = word_at(timestamps_ms, row)
        delta_ms = time_ms - base_ms
        if has_headers:
            header_count, header_bytes = _measure_headers(table, row)
        body_bytes = (
            1
            + _varint_bytes(delta_ms)
            + _varint_bytes(at - first)
            + _nullable_bytes(key, row)
            + _nullable_bytes(value, row)
            + _varint_bytes(header_count)
            + header_bytes
        )
        size_bytes = _varint_bytes(body_bytes) + body_bytes
        limit_bytes = largest_bytes if at == first else batch_bytes
        if position - out + size_bytes > limit_bytes:
            if at == first:
                return at, 0, highest_ms, size_bytes
            break
        position = _put_varint(position, body_bytes)
        store8(position, 0)  # attributes: none are defined
        position = _put_varint(position + 1, delta_ms)
        position = _put_varint(position, at - first)
        position = _put_nullable(position, key, row)
        position = _put_nullable(position, value, row)
        position = _put_varint(position, header_count)
        if header_count:
            position = _put_headers(position, table, row)
        highest_ms = max(highest_ms, time_ms)
        at += 1
    return at, position - out, highest_ms, 0


@native
def _measure_headers(table: int, row: int) -> tuple[int, int]:
    """How many headers a row has, and their bytes."""
    keys, values = _column(table, _HEADER_KEYS), _column(table, _HEADER_VALUES)
    starts = word_at(table, _HEADER_STARTS)
    first, end = word_at(starts, row), word_at(starts, row + 1)
    count, size = end - first, 0
    for entry in range(first, end):
        size += _nullable_bytes(keys, entry) + _nullable_bytes(values, entry)
    names, marks = _column(table, _MARK_NAMES), _column(table, _MARK_VALUES)
    for mark in range(word_at(table, _MARK_COUNT)):
        entry = mark * word_at(table, _ROW_COUNT) + row
        if not _is_null(marks, entry):
            count += 1
            size += _nullable_bytes(names, mark) + _nullable_bytes(marks, entry)
    return count, size


@native
def _put_headers(position: int, table: int, row: int) -> int:
    keys, values = _column(table, _HEADER_KEYS), _column(table, _HEADER_VALUES)
    starts = word_at(table, _HEADER_STARTS)
    for entry in range(word_at(starts, row), word_at(starts, row + 1)):
        position = _put_nullable(position, keys, entry)
        position = _put_nullable(position, values, entry)
    names, marks = _column(table, _MARK_NAMES), _column(table, _MARK_VALUES)
    for mark in range(word_at(table, _MARK_COUNT)):
        entry = mark * word_at(table, _ROW_COUNT) + row
        if not _is_null(marks, entry):
            position = _put_nullable(position, names, mark)
            position = _put_nullable(position, marks, entry)
    return position


@native
def _nullable_bytes(column: int, row: int) -> int:
    if _is_null(column, row):
        return 1
    length = _content(column, row)[1]
    return _varint_bytes(length) + length


@native
def _put_nullable(position: int, column: int, row: int) -> int:
    if _is_null(column, row):
        return _put_varint(position, -1)
    start, length = _content(column, row)
    position = _put_varint(position, length)
    copy_bytes(position, start, length)
    return position + length


@native
def _varint_bytes(value: int) -> int:
    rest = ((value << 1) ^ (value >> 63)) >> 7 & _WITHOUT_SIGN
    size = 1
    while rest:
        rest >>= 7
        size += 1
    return size


@native
def _put_varint(position: int, value: int) -> int:
    """Zigzag, as all numbers within a record are."""
    low = (value << 1) ^ (value >> 63)
    rest = low >> 7 & _WITHOUT_SIGN
    while rest:
        store8(position, low & 127 | 128)
        low = rest
        rest >>= 7
        position += 1
    store8(position, low & 127)
    return position + 1
