"""Rows to Kafka's record format, in machine code: no Python per row.

Layout: https://kafka.apache.org/documentation/#record. Columns come as one buffer of bytes and the
positions in it, as Arrow keeps them.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from goqueue.spark.native_code import native

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
# int or numpy.int64: the same in machine code, and different to a type checker.
Whole = Any

NO_PARTITION: Final = -1
# Kafka's own bound of a record is an int32.
_MURMUR_SEED: Final = np.uint32(0x9747B28C)
_MURMUR_MULTIPLIER: Final = np.uint32(0x5BD1E995)


class BytesColumn(NamedTuple):
    """Row r is data[offsets[r] : offsets[r + 1]], or null where is_null[r]."""

    data: Bytes
    offsets: Numbers
    is_null: Bytes


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


@native
def choose_partitions(
    key: BytesColumn,
    value: BytesColumn,
    wanted: Numbers,
    rows: Numbers,
    partition_count: Whole,
    sticky: Whole,
    sticky_bytes: Whole,
    batch_bytes: Whole,
    chosen: Numbers,
) -> tuple[Whole, Whole]:
    """Fill `chosen` for `rows`: the partition that is wanted, that of the key as Kafka's clients
    hash it, or for rows without either the same for a batch long (KIP-480).

    Returns the partition and the bytes in it to go on with.
    """
    for at in range(len(rows)):
        row = rows[at]
        if wanted[row] != NO_PARTITION:
            chosen[at] = wanted[row]
        elif not key.is_null[row]:
            start, end = key.offsets[row], key.offsets[row + 1]
            chosen[at] = (_murmur2(key.data, start, end) & np.uint32(0x7FFFFFFF)) % partition_count
        else:
            if sticky_bytes >= batch_bytes:
                sticky = (sticky + 1) % partition_count
                sticky_bytes = 0
            chosen[at] = sticky
            sticky_bytes += value.offsets[row + 1] - value.offsets[row]
    return sticky, sticky_bytes


@native
def _murmur2(data: Bytes, start: Whole, end: Whole) -> np.uint32:
    length = end - start
    state = _MURMUR_SEED ^ np.uint32(length)
    position = start
    while end - position >= 4:
        word = (
            np.uint32(data[position])
            | np.uint32(data[position + 1]) << np.uint32(8)
            | np.uint32(data[position + 2]) << np.uint32(16)
            | np.uint32(data[position + 3]) << np.uint32(24)
        )
        word = np.uint32(word * _MURMUR_MULTIPLIER)
        word ^= word >> np.uint32(24)
        word = np.uint32(word * _MURMUR_MULTIPLIER)
        state = np.uint32(state * _MURMUR_MULTIPLIER) ^ word
        position += 4
    if position < end:
        shift = np.uint32(0)
        tail = np.uint32(0)
        while position < end:
            tail |= np.uint32(data[position]) << shift
            shift += np.uint32(8)
            position += 1
        state = np.uint32((state ^ tail) * _MURMUR_MULTIPLIER)
    state ^= state >> np.uint32(13)
    state = np.uint32(state * _MURMUR_MULTIPLIER)
    return np.uint32(state ^ (state >> np.uint32(15)))


@native
def group_by_partition(
    rows: Numbers, chosen: Numbers, partition_count: Whole, order: Numbers, starts: Numbers
) -> None:
    """Rows of partition p, in their order: order[starts[p] : starts[p + 1]]."""
    starts[:] = 0
    for at in range(len(rows)):
        starts[chosen[at] + 1] += 1
    for partition in range(partition_count):
        starts[partition + 1] += starts[partition]
    filled = starts.copy()
    for at in range(len(rows)):
        partition = chosen[at]
        order[filled[partition]] = rows[at]
        filled[partition] += 1


@native
def encode_records(
    columns: RowColumns,
    rows: Numbers,
    first: Whole,
    batch_bytes: Whole,
    largest_bytes: Whole,
    out: Bytes,
) -> tuple[Whole, Whole, Whole, Whole]:
    """Encode rows[first:] into `out` until it has `batch_bytes`.

    The first record may be larger, up to `largest_bytes`. Returns the next row, the bytes written,
    the highest timestamp, and if the first record is too large its size, else 0.
    """
    # Taken out of their tuples once: each time costs the counting of references.
    key_data, key_offsets, key_is_null = columns.key
    value_data, value_offsets, value_is_null = columns.value
    timestamps_ms = columns.timestamps_ms
    has_headers = columns.mark_count > 0 or columns.header_starts[-1] > 0
    position = 0
    at = first
    base_ms = timestamps_ms[rows[first]]
    highest_ms = base_ms
    header_count, header_bytes = 0, 0
    while at < len(rows):
        row = rows[at]
        delta_ms = timestamps_ms[row] - base_ms
        if has_headers:
            header_count, header_bytes = _measure_headers(columns, row)
        body_bytes = (
            1
            + _varint_bytes(delta_ms)
            + _varint_bytes(at - first)
            + _nullable_bytes(key_offsets, key_is_null, row)
            + _nullable_bytes(value_offsets, value_is_null, row)
            + _varint_bytes(header_count)
            + header_bytes
        )
        size_bytes = _varint_bytes(body_bytes) + body_bytes
        limit_bytes = largest_bytes if at == first else batch_bytes
        if position + size_bytes > limit_bytes:
            if at == first:
                return at, 0, highest_ms, size_bytes
            break
        position = _put_varint(out, position, body_bytes)
        out[position] = 0  # attributes: none are defined
        position = _put_varint(out, position + 1, delta_ms)
        position = _put_varint(out, position, at - first)
        position = _put_nullable(out, position, key_data, key_offsets, key_is_null, row)
        position = _put_nullable(out, position, value_data, value_offsets, value_is_null, row)
        position = _put_varint(out, position, header_count)
        if header_count:
            position = _put_headers(out, position, columns, row)
        highest_ms = max(highest_ms, timestamps_ms[row])
        at += 1
    return at, position, highest_ms, 0


@native
def _measure_headers(columns: RowColumns, row: Whole) -> tuple[Whole, Whole]:
    """How many headers a row has, and their bytes."""
    keys, values = columns.header_keys, columns.header_values
    first, end = columns.header_starts[row], columns.header_starts[row + 1]
    count, size = end - first, 0
    for entry in range(first, end):
        size += _nullable_bytes(keys.offsets, keys.is_null, entry)
        size += _nullable_bytes(values.offsets, values.is_null, entry)
    names, marks = columns.mark_names, columns.mark_values
    for mark in range(columns.mark_count):
        entry = mark * len(columns.timestamps_ms) + row
        if not marks.is_null[entry]:
            count += 1
            size += _nullable_bytes(names.offsets, names.is_null, mark)
            size += _nullable_bytes(marks.offsets, marks.is_null, entry)
    return count, size


@native
def _put_headers(out: Bytes, position: Whole, columns: RowColumns, row: Whole) -> Whole:
    keys, values = columns.header_keys, columns.header_values
    for entry in range(columns.header_starts[row], columns.header_starts[row + 1]):
        position = _put_nullable(out, position, keys.data, keys.offsets, keys.is_null, entry)
        position = _put_nullable(out, position, values.data, values.offsets, values.is_null, entry)
    names, marks = columns.mark_names, columns.mark_values
    for mark in range(columns.mark_count):
        entry = mark * len(columns.timestamps_ms) + row
        if not marks.is_null[entry]:
            position = _put_nullable(out, position, names.data, names.offsets, names.is_null, mark)
            position = _put_nullable(out, position, marks.data, marks.offsets, marks.is_null, entry)
    return position


@native
def _nullable_bytes(offsets: Numbers, is_null: Bytes, row: Whole) -> Whole:
    if is_null[row]:
        return 1
    length = offsets[row + 1] - offsets[row]
    return _varint_bytes(length) + length


@native
def _put_nullable(
    out: Bytes, position: Whole, data: Bytes, offsets: Numbers, is_null: Bytes, row: Whole
) -> Whole:
    if is_null[row]:
        return _put_varint(out, position, -1)
    start, length = offsets[row], offsets[row + 1] - offsets[row]
    position = _put_varint(out, position, length)
    # Unsigned positions: for others the compiler allows for negative ones, byte by byte.
    source, target = np.uint64(start), np.uint64(position)
    for at in range(np.uint64(length)):
        out[target + at] = data[source + at]
    return position + length


@native
def _varint_bytes(value: Whole) -> Whole:
    rest = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while rest >= np.uint64(128):
        rest >>= np.uint64(7)
        size += 1
    return size


@native
def _put_varint(out: Bytes, position: Whole, value: Whole) -> Whole:
    """Zigzag, as all numbers within a record are."""
    rest = np.uint64((value << 1) ^ (value >> 63))
    while rest >= np.uint64(128):
        out[position] = np.uint8(rest & np.uint64(127)) | np.uint8(128)
        rest >>= np.uint64(7)
        position += 1
    out[position] = np.uint8(rest)
    return position + 1
