"""Arrow columns as the encoder wants them: bytes and the positions in them."""

import time
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.model.errors import InvalidRequest
from goqueue.model.header_names import DELAY_MS, DELIVER_AT, PREFIX, PRIORITY
from goqueue.spark.sink.encoding import NO_PARTITION, BytesColumn, Numbers, RowColumns

# Arrow's type stubs leave out much of what is used here.
Column: TypeAlias = Any

_PRIORITY_MAX: Final = 4
# What a record without the header has.
_PRIORITY_USUAL: Final = 2
# GoQueue's own headers, by the column that fills them.
_MARKS: Final[Mapping[str, str]] = {
    "priority": PRIORITY,
    "delay": DELAY_MS,
    "deliverat": DELIVER_AT,
}


class InvalidRow(InvalidRequest):
    """A row that cannot become a record."""


class Rows:
    """One Arrow batch, its columns by their names in lower case."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.count = batch.num_rows
        names = [name.lower() for name in batch.schema.names]
        self._columns: dict[str, Column] = dict(zip(names, batch.columns, strict=True))

    def topics(self, topic: str | None) -> dict[str, Numbers]:
        """Which rows go to which topic; `topic` wins over the column."""
        everything = np.arange(self.count, dtype=np.int64)
        if topic is not None:
            return {topic: everything}
        column = self._columns["topic"]
        if column.null_count:
            raise InvalidRow("topic: it is null in a row; give the option topic or fill the column")
        encoded = column.dictionary_encode()
        codes = encoded.indices.to_numpy()
        return {
            str(name): everything[codes == code]
            for code, name in enumerate(encoded.dictionary.to_pylist())
        }

    def has_own_headers(self) -> bool:
        """Whether a header among the rows' may ask GoQueue for something."""
        column = self._columns.get("headers")
        if column is None or pa.types.is_null(column.type):
            return False
        keys, _ = column.flatten().flatten()
        return bool(pc.any(pc.starts_with(keys, PREFIX)).as_py())

    def partitions(self) -> Numbers:
        column = self._columns.get("partition")
        if column is None:
            return np.full(self.count, NO_PARTITION, dtype=np.int64)
        if column.null_count < self.count and pc.min(column).as_py() < 0:
            raise InvalidRow("partition: it is negative in a row; leave it null to choose by key")
        filled = pc.fill_null(column.cast(pa.int64()), NO_PARTITION)
        return np.array(filled.to_numpy(zero_copy_only=False), dtype=np.int64)

    def encodable(self) -> RowColumns:
        nothing = pa.nulls(self.count, pa.binary())
        header_starts, header_keys, header_values = self._headers()
        filled = {name: self._mark(name) for name in _MARKS if name in self._columns}
        marks = [
            (_MARKS[name], values)
            for name, values in filled.items()
            if values.null_count < self.count
        ]
        return RowColumns(
            key=_bytes_column(self._columns.get("key", nothing)),
            value=_bytes_column(self._columns["value"]),
            timestamps_ms=self._timestamps_ms(),
            header_starts=header_starts,
            header_keys=header_keys,
            header_values=header_values,
            mark_count=len(marks),
            mark_names=_bytes_column(pa.array([name for name, _ in marks], pa.string())),
            mark_values=_bytes_column(
                pa.concat_arrays([values for _, values in marks])
                if marks
                else pa.nulls(0, pa.string())
            ),
        )

    def _timestamps_ms(self) -> Numbers:
        now_ms = time.time_ns() // 1_000_000
        column = self._columns.get("timestamp")
        if column is None:
            return np.full(self.count, now_ms, dtype=np.int64)
        filled = pc.fill_null(_milliseconds(column), now_ms)
        return np.array(filled.to_numpy(zero_copy_only=False), dtype=np.int64)

    def _mark(self, name: str) -> Column:
        column = self._columns[name]
        if name == "priority":
            return _told_priorities(column).cast(pa.string())
        milliseconds = _milliseconds(column)
        if milliseconds.null_count < self.count and pc.min(milliseconds).as_py() < 0:
            raise InvalidRow(f"{_proper(name)}: it is negative in a row")
        return milliseconds.cast(pa.string())

    def _headers(self) -> tuple[Numbers, BytesColumn, BytesColumn]:
        column = self._columns.get("headers")
        if column is None or pa.types.is_null(column.type):
            none = _bytes_column(pa.nulls(0, pa.binary()))
            return np.zeros(self.count + 1, dtype=np.int64), none, none
        lengths: Column = pc.list_value_length(column)
        counts = pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False)
        starts = np.zeros(self.count + 1, dtype=np.int64)
        np.cumsum(counts, out=starts[1:])
        entries = column.flatten()
        keys, values = entries.flatten()
        if keys.null_count:
            raise InvalidRow("headers: a header has no key")
        return starts, _bytes_column(keys), _bytes_column(values)


def _bytes_column(array: Column) -> BytesColumn:
    wide = array.cast(pa.large_binary())
    buffers: list[Any] = wide.buffers()
    _, offsets, data = buffers
    is_null = np.array(wide.is_null().to_numpy(zero_copy_only=False), dtype=np.uint8)
    if offsets is None or len(wide) == 0:
        positions = np.zeros(1, dtype=np.int64)
    else:
        positions = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    content = np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return BytesColumn(content, positions, is_null)


def _milliseconds(column: Column) -> Column:
    """Of a time, an interval, or a number that is in milliseconds already."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    elif pa.types.is_duration(column.type):
        column = column.cast(pa.duration("ms"), safe=False)
    return column.cast(pa.int64())


def _told_priorities(column: Column) -> Column:
    """Those that a record must tell: the source gives one to every row, mostly the usual one."""
    if not pa.types.is_integer(column.type) or column.null_count == len(column):
        return column
    lowest, highest = pc.min(column).as_py(), pc.max(column).as_py()
    if lowest < 0 or highest > _PRIORITY_MAX:
        wrong = lowest if lowest < 0 else highest
        raise InvalidRow(f"priority: it is {wrong} in a row; it must be 0 to {_PRIORITY_MAX}")
    is_usual: Column = pc.equal(column, pa.scalar(_PRIORITY_USUAL, column.type))
    return pc.if_else(is_usual, pa.scalar(None, column.type), column)


def _proper(name: str) -> str:
    return "deliverAt" if name == "deliverat" else name
