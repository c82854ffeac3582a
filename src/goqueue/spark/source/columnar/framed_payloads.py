"""Columns of payloads with a schema's id before each, in machine code.

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/#wire-format
"""

from typing import Any, Final

import numpy as np

from goqueue.spark.native_code import native
from goqueue.spark.native_memory import WORD_BYTES, load8, load32, put_word, word_at
from goqueue.spark.source.columnar.appending import append_nulls
from goqueue.spark.source.columnar.avro_values import read_avro

FRAME_BYTES: Final = 5

# The column that is read: addresses of its content, of its ends and of its bits of validity (0 if
# no value is null); the bit of the first value.
CONTENT: Final = 0
ENDS: Final = 1
VALIDITY: Final = 2
FIRST_BIT: Final = 3
ROWS: Final = 4
# The columns that get a null where the payload is null.
NULL_COLUMNS: Final = 5
NULL_COUNT: Final = 6
# Programs: schema ids, addresses and lengths, three numbers each.
PROGRAMS: Final = 7
PROGRAM_COUNT: Final = 8
# Where the reading stands: the next row, and the id of its schema.
ROW: Final = 9
SCHEMA_ID: Final = 10
PLACES: Final = 11

# How reading ended.
DONE: Final = 0
# There is no program for the schema of the next row.
NO_PROGRAM: Final = 1
# The next row is broken, or too much for its columns.
BROKEN: Final = 2

_PROGRAM_BYTES: Final = 3 * WORD_BYTES


@native
def is_null(table: int, row: int) -> bool:
    validity = word_at(table, VALIDITY)
    if validity == 0:
        return False
    bit = word_at(table, FIRST_BIT) + row
    return (load8(validity + (bit >> 3)) >> (bit & 7)) & 1 == 0


@native
def program_for(table: int, schema_id: int) -> int:
    """Its address in the table of programs, or 0."""
    programs = word_at(table, PROGRAMS)
    for index in range(word_at(table, PROGRAM_COUNT)):
        program = programs + index * _PROGRAM_BYTES
        if word_at(program, 0) == schema_id:
            return program
    return 0


@native
def schema_id_at(start: int) -> int:
    return (
        (load8(start + 1) << 24)
        | (load8(start + 2) << 16)
        | (load8(start + 3) << 8)
        | load8(start + 4)
    )


@native
def read_avro_rows(table: int) -> int:
    """Append rows to their columns until the end, or until one that needs help."""
    ends = word_at(table, ENDS)
    content = word_at(table, CONTENT)
    while word_at(table, ROW) < word_at(table, ROWS):
        row = word_at(table, ROW)
        if is_null(table, row):
            if not append_nulls(word_at(table, NULL_COLUMNS), word_at(table, NULL_COUNT)):
                return BROKEN
        else:
            position = content + load32(ends + row * 4)
            end = content + load32(ends + row * 4 + 4)
            if end - position < FRAME_BYTES or load8(position) != 0:
                return BROKEN
            schema_id = schema_id_at(position)
            program = program_for(table, schema_id)
            if program == 0:
                put_word(table, SCHEMA_ID, schema_id)
                return NO_PROGRAM
            steps, step_count = word_at(program, 1), word_at(program, 2)
            reached = read_avro(steps, step_count, position + FRAME_BYTES, end)
            if reached != end:
                return BROKEN
        put_word(table, ROW, row + 1)
    return DONE


def payload_table(column: Any) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """What an Arrow column of bytes is to compiled code; keep the column while it is used."""
    validity, ends, content = column.buffers()
    table = np.zeros(PLACES, np.int64)
    table[CONTENT] = 0 if content is None else content.address
    table[ENDS] = ends.address + column.offset * 4
    table[VALIDITY] = 0 if validity is None else validity.address
    table[FIRST_BIT] = column.offset
    table[ROWS] = len(column)
    return table


def load_avro() -> None:
    """Compile what reads Avro, or load it, without a row."""
    table = np.zeros(PLACES, np.int64)
    read_avro_rows(table.ctypes.data)
