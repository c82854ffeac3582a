"""Records as Arrow record batches, column by column, without Python per record."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from goqueue.client.log_ranges import LogRange
from goqueue.client.log_reader import FetchedBatches
from goqueue.model.batch import BatchHeader
from goqueue.model.errors import CorruptBatch
from goqueue.model.settings import INT64_MAX
from goqueue.spark.source import record_scan
from goqueue.spark.source.batch_sections import Numbers, SectionGroup, section_groups
from goqueue.spark.source.columnar.memory import bits_of
from goqueue.spark.source.constant_rows import ROWS_PER_BATCH, ConstantRows, are_constant
from goqueue.spark.source.filter_bounds import NO_BOUNDS, FilterBounds

Column: TypeAlias = "pa.Array[Any]"
# A column of bytes -> the column that users see; the rows' offsets are for its messages.
FieldDecoder = Callable[[Column, Numbers], Column]


class RowMaker:
    """Makes rows of one partition in the columns of `schema`."""

    def __init__(
        self,
        schema: pa.Schema,
        wanted: LogRange,
        decoders: Mapping[str, FieldDecoder],
        bounds: FilterBounds = NO_BOUNDS,
    ) -> None:
        self._schema = schema
        self._wanted = wanted
        self._decoders = decoders
        self._filter = _RecordFilter(wanted, bounds)
        # Rows are counted by the headers of the batches.
        self._needs_no_record = are_constant(schema.names) and not bounds.chooses_records
        self._constant = ConstantRows(schema, wanted)

    def rows(self, fetched: FetchedBatches) -> Iterator[pa.RecordBatch]:
        if self._needs_no_record:
            whole = [batch for batch in fetched.batches if self._is_whole(batch.header)]
            yield from self._constant.rows(sum(batch.header.record_count for batch in whole))
            rest = [batch for batch in fetched.batches if not self._is_whole(batch.header)]
            fetched = replace(fetched, batches=rest)
        for group in section_groups(fetched):
            cursor = np.zeros(record_scan.CURSOR_PLACES, np.int64)
            while cursor[record_scan.CURSOR_BATCH] < len(group.batches):
                scanned = _ScannedRows(self._schema, group, needs_offsets=bool(self._decoders))
                broken = scanned.scan(cursor, self._filter.table)
                if broken is not None:
                    raise CorruptBatch(
                        f"{self._wanted.topic}-{self._wanted.partition}: a record in the batch at "
                        f"offset {broken} is malformed"
                    )
                if scanned.count:
                    columns = [self._column(field, scanned) for field in self._schema]
                    yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _is_whole(self, header: BatchHeader) -> bool:
        """All of its records are wanted."""
        return (
            self._wanted.start <= header.base_offset
            and header.last_offset < self._wanted.end
            and header.record_count >= 0
        )

    def _column(self, field: "pa.Field[Any]", scanned: "_ScannedRows") -> Column:
        match field.name:
            case "topic" | "partition":
                return self._constant.column(field.name, scanned.count)
            case "offset":
                return scanned.numbers(record_scan.OFFSETS, field.type)
            case "timestamp":
                return scanned.times(field.type)
            case "timestampType":
                return scanned.numbers(record_scan.TIME_TYPES, field.type)
            case "priority":
                return scanned.numbers(record_scan.PRIORITIES, field.type)
            case "headers":
                return scanned.headers(field.type)
        stored = field.type if pa.types.is_string(field.type) else pa.binary()
        raw = scanned.contents(field.name, stored)
        decode = self._decoders.get(field.name)
        return raw if decode is None else decode(raw, scanned.offsets())


class _RecordFilter:
    """Which records become rows, as `record_scan` wants to know it."""

    def __init__(self, wanted: LogRange, bounds: FilterBounds) -> None:
        keys = sorted(bounds.keys or ())
        # Kept here: the table holds their addresses.
        self._keys = np.frombuffer(b"".join(keys) or b"\0", np.uint8)
        self._key_ends = np.cumsum([len(key) for key in keys] or [0], dtype=np.int64)
        self.table = np.zeros(record_scan.WANTED_PLACES, np.int64)
        self.table[record_scan.FIRST_OFFSET] = wanted.start
        self.table[record_scan.END_OFFSET] = wanted.end
        self.table[record_scan.ANY_TIME] = bounds.since_ms is None and bounds.until_ms is None
        self.table[record_scan.FIRST_TIME_MS] = _or(bounds.since_ms, -INT64_MAX)
        self.table[record_scan.END_TIME_MS] = _or(bounds.until_ms, INT64_MAX)
        self.table[record_scan.KEY_COUNT] = len(keys)
        self.table[record_scan.KEYS] = self._keys.ctypes.data
        self.table[record_scan.KEYS_ENDS] = self._key_ends.ctypes.data


class _ScannedRows:
    """Memory for the rows of one record batch, and the columns over it once they are scanned."""

    def __init__(self, schema: pa.Schema, group: SectionGroup, *, needs_offsets: bool) -> None:
        self.count = 0
        self._group = group
        self._capacity = min(int(group.batches[:, record_scan.RECORD_COUNT].sum()), ROWS_PER_BATCH)
        sections = group.batches[:, record_scan.SECTION_END]
        self._content_bytes = int((sections - group.batches[:, record_scan.SECTION_START]).sum())
        self._memory: dict[int, pa.Buffer] = {}
        self._counts = np.zeros(record_scan.COUNT_PLACES, np.int64)
        names = set(schema.names)
        if "offset" in names or needs_offsets:
            self._reserve(record_scan.OFFSETS, 8)
        if "timestamp" in names:
            self._reserve(record_scan.TIMES_US, 8)
            self._reserve(record_scan.TIME_PRESENCE, 1)
        if "timestampType" in names:
            self._reserve(record_scan.TIME_TYPES, 4)
        if "priority" in names:
            self._reserve(record_scan.PRIORITIES, 4)
        if "headers" in names:
            self._reserve(record_scan.HEADER_STARTS, 8)
            self._reserve(record_scan.HEADER_COUNTS, 8)
        for name in names & _FIELDS.keys():
            ends, presence, content, _, _ = _FIELDS[name]
            self._reserve(ends, 4, places=self._capacity + 1)
            self._reserve(presence, 1)
            self._reserve(content, 1, places=self._content_bytes)

    def scan(self, cursor: Numbers, bounds: Numbers) -> int | None:
        """Fill the memory; the base offset of a batch that is broken."""
        columns = np.zeros(record_scan.COLUMN_PLACES, np.int64)
        for place, buffer in self._memory.items():
            columns[place] = buffer.address
        found = record_scan.scan_records(
            self._group.data.ctypes.data,
            self._group.batches.ctypes.data,
            len(self._group.batches),
            cursor.ctypes.data,
            bounds.ctypes.data,
            columns.ctypes.data,
            self._counts.ctypes.data,
            self._capacity,
        )
        if found < 0:
            return int(self._group.batches[-1 - found, record_scan.BASE_OFFSET])
        self.count = found
        return None

    def numbers(self, place: int, kind: pa.DataType) -> Column:
        return pa.Array.from_buffers(kind, self.count, [None, self._memory[place]])

    def offsets(self) -> Numbers:
        return np.frombuffer(memoryview(self._memory[record_scan.OFFSETS]), np.int64, self.count)

    def times(self, kind: pa.DataType) -> Column:
        nulls = int(self._counts[record_scan.TIME_NULLS])
        validity = self._validity(record_scan.TIME_PRESENCE, nulls)
        return pa.Array.from_buffers(
            kind, self.count, [validity, self._memory[record_scan.TIMES_US]], nulls
        )

    def contents(self, name: str, kind: pa.DataType) -> Column:
        """Keys or values, as bytes or text."""
        ends, presence, content, byte_count, null_count = _FIELDS[name]
        nulls = int(self._counts[null_count])
        buffers = [
            self._validity(presence, nulls),
            self._memory[ends],
            self._memory[content].slice(0, int(self._counts[byte_count])),
        ]
        return pa.Array.from_buffers(kind, self.count, buffers, nulls)

    def headers(self, kind: pa.DataType) -> Column:
        assert isinstance(kind, pa.ListType)
        count = int(self._counts[record_scan.HEADERS])
        size = int(self._counts[record_scan.HEADERS_BYTES])
        list_ends = pa.allocate_buffer((self.count + 1) * 4)
        key_ends, value_ends = (
            pa.allocate_buffer((count + 1) * 4),
            pa.allocate_buffer((count + 1) * 4),
        )
        keys, values = pa.allocate_buffer(size), pa.allocate_buffer(size)
        presence = pa.allocate_buffer(count)
        data = self._group.data
        nulls = record_scan.copy_headers(
            data.ctypes.data,
            data.ctypes.data + len(data),
            self._memory[record_scan.HEADER_STARTS].address,
            self._memory[record_scan.HEADER_COUNTS].address,
            self.count,
            list_ends.address,
            key_ends.address,
            keys.address,
            value_ends.address,
            values.address,
            presence.address,
        )
        validity = bits_of(presence, count) if nulls else None
        pairs = pa.StructArray.from_arrays(
            [
                pa.Array.from_buffers(pa.string(), count, [None, key_ends, keys], 0),
                pa.Array.from_buffers(pa.binary(), count, [validity, value_ends, values], nulls),
            ],
            fields=list(kind.value_type.fields),
        )
        return pa.Array.from_buffers(kind, self.count, [None, list_ends], 0, children=[pairs])

    def _reserve(self, place: int, width: int, *, places: int | None = None) -> None:
        count = self._capacity if places is None else places
        self._memory[place] = pa.allocate_buffer(width * count)

    def _validity(self, place: int, nulls: int) -> pa.Buffer | None:
        return bits_of(self._memory[place], self.count) if nulls else None


# Of keys and values: ends, presence, content; where their bytes and nulls are counted.
_FIELDS: Final = {
    "key": (
        record_scan.KEY_ENDS,
        record_scan.KEY_PRESENCE,
        record_scan.KEY_CONTENT,
        record_scan.KEY_BYTES,
        record_scan.KEY_NULLS,
    ),
    "value": (
        record_scan.VALUE_ENDS,
        record_scan.VALUE_PRESENCE,
        record_scan.VALUE_CONTENT,
        record_scan.VALUE_BYTES,
        record_scan.VALUE_NULLS,
    ),
}


def _or(number: int | None, otherwise: int) -> int:
    return otherwise if number is None else number
