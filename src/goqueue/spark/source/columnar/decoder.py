"""Decodes a column whole, and record by record where that cannot be."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from goqueue.spark.source.columnar import framed_payloads as frames
from goqueue.spark.source.columnar.memory import ColumnMemory

if TYPE_CHECKING:
    from goqueue.spark.source.arrow_rows import Column, FieldDecoder
    from goqueue.spark.source.batch_sections import Numbers

_NUMBERS_PER_PROGRAM: Final = 3


class Program(Protocol):
    @property
    def address(self) -> int: ...

    @property
    def step_count(self) -> int: ...


class ColumnDecoder:
    """Programs are made when a schema's id is first met; `by_row` reads what they cannot.

    `read_rows` is the compiled function that follows them, over a table of `framed_payloads`.
    """

    def __init__(
        self,
        column: ColumnMemory,
        read_rows: Callable[[int], int],
        program_of: Callable[[int], Program],
        by_row: "FieldDecoder",
    ) -> None:
        self._column = column
        self._read_rows = read_rows
        self._program_of = program_of
        self._by_row = by_row
        self._programs: dict[int, Program | None] = {}
        long = column.as_long
        self._null_columns = np.array([each.address for each in long], np.int64)

    def __call__(self, column: "Column", offsets: "Numbers") -> "Column":
        whole = self._whole(column) if column.type == pa.binary() else None
        return self._by_row(column, offsets) if whole is None else whole

    def _whole(self, column: "Column") -> "Column | None":
        """None if a record needs the other decoder."""
        if not len(column):
            return None
        table = frames.payload_table(column)
        self._column.prepare(len(column), _content_bytes(column))
        table[frames.NULL_COLUMNS] = self._null_columns.ctypes.data
        table[frames.NULL_COUNT] = len(self._null_columns)
        while True:
            programs = self._program_table()
            table[frames.PROGRAMS] = programs.ctypes.data
            table[frames.PROGRAM_COUNT] = len(programs)
            ended = self._read_rows(table.ctypes.data)
            if ended == frames.DONE:
                break
            if ended == frames.BROKEN or not self._learn(int(table[frames.SCHEMA_ID])):
                return None
        try:
            return self._column.array()
        except pa.ArrowInvalid:  # text that is no UTF-8
            return None

    def _learn(self, schema_id: int) -> bool:
        """Whether there is a program for the schema."""
        if schema_id not in self._programs:
            try:
                self._programs[schema_id] = self._program_of(schema_id)
            except Exception:  # the decoder of single records meets it again, and says what it is
                self._programs[schema_id] = None
        return self._programs[schema_id] is not None

    def _program_table(self) -> Any:
        rows = [
            (schema_id, program.address, program.step_count)
            for schema_id, program in self._programs.items()
            if program is not None
        ]
        return np.array(rows, np.int64).reshape(-1, _NUMBERS_PER_PROGRAM)


def _content_bytes(column: "Column") -> int:
    ends = column.buffers()[1]
    assert ends is not None, "a column with rows has ends"
    found = np.frombuffer(memoryview(ends), np.int32)
    return int(found[column.offset + len(column)] - found[column.offset])
