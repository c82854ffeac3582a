"""Avro's binary encoding, in machine code: payloads along a program, into columns.

https://avro.apache.org/docs/1.12.0/specification/#binary-encoding. Every length is checked against
the bytes that are there before it is followed. What is broken or does not fit its column ends with
a position of -1.
"""

from typing import Final

from goqueue.spark.native_code import native
from goqueue.spark.native_memory import WORD_BYTES, load8, put_word, word_at
from goqueue.spark.source.columnar.appending import (
    append_content,
    append_items,
    append_nulls,
    append_number,
    append_raw,
    append_struct,
    append_truth,
    has_distinct_values,
)
from goqueue.spark.source.record_scan import varint

# A step of a program: what to read, and the column that it goes to (0: it is passed over).
OPERATION: Final = 0
COLUMN: Final = 1
# Of fixed, its size, of bytes and text -1; of an enum, the count of its symbols.
SIZE: Final = 2
# NULLABLE: which branch is null. ENUM: the symbols, pairs of address and length. DECIMAL: the least
# number that has too many digits. ITEMS of a map: the column of its keys.
DETAIL: Final = 3
# The step to go on with after a null or after all items; of ITEMS_END, that of ITEMS.
JUMP: Final = 4
# The columns that a null goes to, if there is one.
NULL_COLUMNS: Final = 5
NULL_COUNT: Final = 6
# While items are read: how many of the block are left, and how many there were in all.
REMAINING: Final = 7
TOTAL: Final = 8
STEP_PLACES: Final = 9
_STEP_BYTES: Final = STEP_PLACES * WORD_BYTES

INTEGER: Final = 0
DATE: Final = 1
MILLISECONDS: Final = 2
MICROSECONDS: Final = 3
CONTENT: Final = 4
DECIMAL: Final = 5
FLOAT: Final = 6
DOUBLE: Final = 7
BOOLEAN: Final = 8
ENUM: Final = 9
NULLS: Final = 10
STRUCT: Final = 11
# Those from here on may go on elsewhere than at the next step.
NULLABLE: Final = 12
ITEMS: Final = 13
ITEMS_END: Final = 14

# Years 1 to 9999: others are no dates to Python, and so none to the decoder of single records.
FIRST_DAY: Final = -719_162
LAST_DAY: Final = 2_932_896
_US_PER_DAY: Final = 86_400_000_000
_US_PER_MS: Final = 1000
_FIRST_US: Final = FIRST_DAY * _US_PER_DAY
_LAST_US: Final = (LAST_DAY + 1) * _US_PER_DAY - 1
_FIRST_MS: Final = FIRST_DAY * (_US_PER_DAY // _US_PER_MS)
_LAST_MS: Final = (LAST_DAY + 1) * (_US_PER_DAY // _US_PER_MS) - 1
_MAX_WHOLE_BYTES: Final = 8
# Keys of a map are compared each with each; larger maps are for the decoder of single records.
_MAX_PAIRS: Final = 256


@native
def read_avro(program: int, step_count: int, position: int, end: int) -> int:
    """Append the values of one payload to their columns; the position after it, or -1."""
    number = 0
    while number < step_count and position >= 0:
        step = program + number * _STEP_BYTES
        operation = word_at(step, OPERATION)
        if operation <= MICROSECONDS:
            position = _read_whole(step, operation, position, end)
            number += 1
        elif operation < NULLABLE:
            position = _read_plain(step, operation, position, end)
            number += 1
        elif operation == NULLABLE:
            position, number = _read_branch(step, number, position, end)
        else:
            position, number = _read_items(program, step, number, position, end)
    return position


@native
def _read_whole(step: int, operation: int, position: int, end: int) -> int:
    value, position = varint(position, end)
    if position < 0:
        return -1
    if operation == DATE and (value < FIRST_DAY or value > LAST_DAY):
        return -1
    if operation == MILLISECONDS:
        if value < _FIRST_MS or value > _LAST_MS:
            return -1
        value *= _US_PER_MS
    elif operation == MICROSECONDS and (value < _FIRST_US or value > _LAST_US):
        return -1
    return position if append_number(word_at(step, COLUMN), value) else -1


@native
def _read_plain(step: int, operation: int, position: int, end: int) -> int:
    if CONTENT <= operation <= DECIMAL:
        return _read_content(step, operation, position, end)
    column = word_at(step, COLUMN)
    fits = False
    size = 0
    if operation == STRUCT:
        fits = append_struct(column)
    elif operation == NULLS:
        fits = append_nulls(word_at(step, NULL_COLUMNS), word_at(step, NULL_COUNT))
    elif operation == ENUM:
        symbol, position = varint(position, end)
        if position >= 0 and 0 <= symbol < word_at(step, SIZE):
            pair = word_at(step, DETAIL) + symbol * (2 * WORD_BYTES)
            fits = append_content(column, word_at(pair, 0), word_at(pair, 1))
    elif operation == BOOLEAN:
        size = 1
        fits = position < end and load8(position) <= 1 and append_truth(column, load8(position))
    else:
        size = 4 if operation == FLOAT else 8
        fits = end - position >= size and append_raw(column, position)
    return position + size if fits else -1


@native
def _read_content(step: int, operation: int, position: int, end: int) -> int:
    length = word_at(step, SIZE)
    if length < 0:
        length, position = varint(position, end)
    if position < 0 or length < 0 or length > end - position:
        return -1
    if operation == DECIMAL:
        fits = _append_decimal(step, position, length)
    else:
        fits = append_content(word_at(step, COLUMN), position, length)
    return position + length if fits else -1


@native
def _append_decimal(step: int, start: int, length: int) -> bool:
    """Big-endian, in two's complement."""
    if length > _MAX_WHOLE_BYTES or length == 0:
        return False
    value = -1 if load8(start) >= 0x80 else 0
    for index in range(length):
        value = (value << 8) | load8(start + index)
    limit = word_at(step, DETAIL)
    return -limit < value < limit and append_number(word_at(step, COLUMN), value)


@native
def _read_branch(step: int, number: int, position: int, end: int) -> tuple[int, int]:
    branch, position = varint(position, end)
    null_branch = word_at(step, DETAIL)
    if position < 0 or branch < 0 or branch > 1:
        return -1, number
    if branch != null_branch:
        return position, number + 1
    if not append_nulls(word_at(step, NULL_COLUMNS), word_at(step, NULL_COUNT)):
        return -1, number
    return position, word_at(step, JUMP)


@native
def _read_items(program: int, step: int, number: int, position: int, end: int) -> tuple[int, int]:
    """Blocks of items, until one of none; a negative count stands before the block's size."""
    head = step
    if word_at(step, OPERATION) == ITEMS_END:
        number = word_at(step, JUMP)
        head = program + number * _STEP_BYTES
        remaining = word_at(head, REMAINING) - 1
        put_word(head, REMAINING, remaining)
        if remaining:
            return position, number + 1
    else:
        put_word(head, TOTAL, 0)
    count, position = varint(position, end)
    if position >= 0 and count < 0:
        count = -count
        _, position = varint(position, end)
    total = word_at(head, TOTAL)
    if position < 0 or count < 0 or count > end - position:
        return -1, number
    if count:
        put_word(head, REMAINING, count)
        put_word(head, TOTAL, total + count)
        return position, number + 1
    keys = word_at(head, DETAIL)
    # Who repeats a key means the last one.
    if keys and (total > _MAX_PAIRS or not has_distinct_values(keys, total)):
        return -1, number
    if not append_items(word_at(head, COLUMN), total):
        return -1, number
    return position, word_at(head, JUMP)
