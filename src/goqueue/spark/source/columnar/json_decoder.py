"""Columns of JSON objects, decoded whole by Arrow's own parser."""

from typing import IO, TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.json

from goqueue.spark.source.columnar import json_lines
from goqueue.spark.source.columnar.framed_payloads import payload_table
from goqueue.spark.source.columnar.memory import NoColumn

if TYPE_CHECKING:
    from goqueue.spark.source.arrow_rows import Column, FieldDecoder
    from goqueue.spark.source.batch_sections import Numbers

# Whoever has such values has more of them; from then on the attempt is spared.
_MAX_FAILURES: Final = 3


class JsonColumnDecoder:
    """`by_row` reads what Arrow's parser refuses, such as numbers for a column of text."""

    def __init__(self, kind: pa.DataType, by_row: "FieldDecoder") -> None:
        if not isinstance(kind, pa.StructType) or not _is_known(kind):
            raise NoColumn(f"{kind} is decoded record by record")
        self._type = kind
        self._schema = pa.schema(list(kind))
        self._by_row = by_row
        self._failures = 0

    def __call__(self, column: "Column", offsets: "Numbers") -> "Column":
        whole = None
        if self._failures < _MAX_FAILURES and column.type == pa.binary() and len(column):
            whole = self._whole(column)
            self._failures = self._failures + 1 if whole is None else 0
        return self._by_row(column, offsets) if whole is None else whole

    def _whole(self, column: "Column") -> "Column | None":
        table = payload_table(column)
        room = json_lines.room_for_lines(table.ctypes.data)
        lines, marks = pa.allocate_buffer(room), pa.allocate_buffer(len(column))
        found = np.zeros(json_lines.PLACES, np.int64)
        if not json_lines.write_lines(
            table.ctypes.data, lines.address, marks.address, found.ctypes.data
        ):
            return None
        size = int(found[json_lines.LENGTH])
        whole_text = [None, pa.py_buffer(np.array([0, size], np.int32).data), lines]
        try:
            # The parser does not look for UTF-8 where nobody reads.
            pa.Array.from_buffers(pa.string(), 1, whole_text).validate(full=True)
            parsed = pyarrow.json.read_json(
                cast(IO[bytes], pa.BufferReader(lines.slice(0, size))),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=size + 1),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=self._schema,
                    newlines_in_values=bool(found[json_lines.HAS_NEWLINES]),
                    unexpected_field_behavior="ignore",
                ),
            )
            if parsed.num_rows != len(column):
                return None
            columns = [each.combine_chunks() for each in parsed.columns]
        except pa.ArrowInvalid:
            return None
        if any(map(_has_infinity, columns)):
            return None
        is_null = np.frombuffer(memoryview(marks), np.uint8) == 0
        mask = pa.array(is_null) if found[json_lines.NULLS] else None
        return pa.StructArray.from_arrays(columns, fields=list(self._type), mask=mask)


def _is_known(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.StructType):
        return kind.num_fields > 0 and all(_is_known(each.type) for each in kind)
    if isinstance(kind, pa.ListType):
        return _is_known(kind.value_type)
    tests = (pa.types.is_boolean, pa.types.is_int64, pa.types.is_float64, pa.types.is_string)
    return any(test(kind) for test in tests)


def _has_infinity(column: "pa.Array[Any]") -> bool:
    """Of a number beyond doubles, which is an error to the decoder of single records."""
    if isinstance(column, pa.StructArray):
        return any(map(_has_infinity, column.flatten()))
    if isinstance(column, pa.ListArray):
        return _has_infinity(column.flatten())
    if not pa.types.is_float64(column.type):
        return False
    numbers = column.to_numpy(zero_copy_only=False)
    return bool(np.isinf(numbers).any())
