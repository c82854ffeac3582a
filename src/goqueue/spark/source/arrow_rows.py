"""Records as Arrow record batches, column by column, without Python per record."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from goqueue.client.log_ranges import LogRange
from goqueue.client.log_reader import FetchedBatches
from goqueue.model.batch import NO_TIMESTAMP
from goqueue.model.errors import CorruptBatch
from goqueue.model.settings import INT64_MAX
from goqueue.spark.source import record_scan
from goqueue.spark.source.batch_sections import SectionGroup, section_groups
from goqueue.spark.source.record_scan import Bytes, Numbers

# Spark takes batches of this size at 0.85 of Parquet's rate; far smaller or larger is slower.
ROWS_PER_BATCH: Final = 10_000
_MICROSECONDS_PER_MS: Final = 1000
# The latest that 64 bits of microseconds hold; later ones would turn into others without a word.
_LAST_TIME_MS: Final = INT64_MAX // _MICROSECONDS_PER_MS
_STARTS: Final = {"key": record_scan.KEY_START, "value": record_scan.VALUE_START}

Column: TypeAlias = "pa.Array[Any]"
# A column of bytes -> the column that users see; the rows' offsets are for its messages.
FieldDecoder = Callable[[Column, Numbers], Column]


class RowMaker:
    """Makes rows of one partition in the columns of `schema`."""

    def __init__(
        self, schema: pa.Schema, wanted: LogRange, decoders: Mapping[str, FieldDecoder]
    ) -> None:
        self._schema = schema
        self._wanted = wanted
        self._decoders = decoders
        self._topic = pa.repeat(pa.scalar(wanted.topic, pa.string()), ROWS_PER_BATCH)
        self._partition = pa.repeat(pa.scalar(wanted.partition, pa.int32()), ROWS_PER_BATCH)

    def rows(self, fetched: FetchedBatches) -> Iterator[pa.RecordBatch]:
        for group in section_groups(fetched):
            found = self._scan(group)
            for first in range(0, len(found), ROWS_PER_BATCH):
                some = found[first : first + ROWS_PER_BATCH]
                columns = [self._column(field, group.data, some) for field in self._schema]
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _scan(self, group: SectionGroup) -> Numbers:
        expected = int(group.batches[:, record_scan.RECORD_COUNT].sum())
        found = np.empty((expected + 1, record_scan.RECORD_COLUMNS), np.int64)
        count, broken = record_scan.scan_records(
            group.data, group.batches, self._wanted.start, self._wanted.end, found
        )
        if broken >= 0:
            base_offset = group.batches[broken, record_scan.BASE_OFFSET]
            raise CorruptBatch(
                f"{self._wanted.topic}-{self._wanted.partition}: a record in the batch at offset "
                f"{base_offset} is malformed"
            )
        return found[:count]

    def _column(self, field: "pa.Field[Any]", data: Bytes, some: Numbers) -> Column:
        count = len(some)
        match field.name:
            case "topic":
                return self._topic[:count]
            case "partition":
                return self._partition[:count]
            case "offset":
                return pa.array(some[:, record_scan.OFFSET])
            case "timestamp":
                return _timestamps(some[:, record_scan.TIMESTAMP_MS], field.type)
            case "timestampType":
                return pa.array(some[:, record_scan.HAS_APPEND_TIME].astype(np.int32))
            case "priority":
                return pa.array(some[:, record_scan.PRIORITY].astype(np.int32))
            case "headers":
                return _headers(data, some, field.type)
        raw = _field_bytes(data, some, _STARTS[field.name], field.type)
        decode = self._decoders.get(field.name)
        return raw if decode is None else decode(raw, some[:, record_scan.OFFSET])


def _timestamps(times_ms: Numbers, kind: pa.DataType) -> Column:
    unknown = times_ms == NO_TIMESTAMP
    mask = unknown if unknown.any() else None
    held_ms = np.minimum(times_ms, _LAST_TIME_MS)
    return pa.array(held_ms * _MICROSECONDS_PER_MS, pa.int64(), mask=mask).cast(kind)


def _field_bytes(data: Bytes, some: Numbers, start: int, kind: pa.DataType) -> Column:
    """A binary or string column; a decoded one begins as binary."""
    size = int(np.maximum(some[:, start + 1], 0).sum())
    ends = np.empty(len(some) + 1, np.int32)
    content = np.empty(size, np.uint8)
    present = np.empty(len(some), np.uint8)
    nulls = record_scan.copy_fields(data, some, start, ends, content, present)
    stored = kind if pa.types.is_string(kind) else pa.binary()
    return _variable(stored, len(some), ends, content, present, nulls)


def _headers(data: Bytes, some: Numbers, kind: pa.DataType) -> Column:
    assert isinstance(kind, pa.ListType)
    count = int(some[:, record_scan.HEADER_COUNT].sum())
    bound = int((some[:, record_scan.HEADERS_END] - some[:, record_scan.HEADERS_START]).sum())
    list_ends = np.empty(len(some) + 1, np.int32)
    key_ends, value_ends = np.empty(count + 1, np.int32), np.empty(count + 1, np.int32)
    keys, values = np.empty(bound, np.uint8), np.empty(bound, np.uint8)
    present = np.empty(count, np.uint8)
    nulls = record_scan.copy_headers(
        data, some, list_ends, key_ends, keys, value_ends, values, present
    )
    pairs = pa.StructArray.from_arrays(
        [
            _variable(pa.string(), count, key_ends, keys, present, 0),
            _variable(pa.binary(), count, value_ends, values, present, nulls),
        ],
        fields=list(kind.value_type.fields),
    )
    return pa.Array.from_buffers(kind, len(some), [None, _buffer(list_ends)], 0, children=[pairs])


def _variable(
    kind: pa.DataType,
    count: int,
    ends: np.ndarray[tuple[int], np.dtype[np.int32]],
    content: Bytes,
    present: Bytes,
    nulls: int,
) -> Column:
    validity = _buffer(np.packbits(present, bitorder="little")) if nulls else None
    buffers = [validity, _buffer(ends), _buffer(content)]
    return pa.Array.from_buffers(kind, count, buffers, nulls)


def _buffer(numbers: np.ndarray[Any, Any]) -> pa.Buffer:
    return pa.py_buffer(numbers.data)
