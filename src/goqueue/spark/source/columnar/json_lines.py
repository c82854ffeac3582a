"""Payloads with a schema's id before each, as lines without it, in machine code."""

from typing import Final

from goqueue.spark.native_code import native
from goqueue.spark.native_memory import copy_bytes, load8, load32, store8
from goqueue.spark.source.columnar.appending import place, put
from goqueue.spark.source.columnar.framed_payloads import (
    CONTENT,
    ENDS,
    FRAME_BYTES,
    ROWS,
    is_null,
)

_NEWLINE: Final = 10
_SPACE: Final = 32
_OPEN: Final = 123
_CLOSE: Final = 125

# What a column of lines was found to be.
LENGTH: Final = 0
NULLS: Final = 1
HAS_NEWLINES: Final = 2
PLACES: Final = 3


@native
def room_for_lines(table: int) -> int:
    """Every payload loses its frame and gets a newline; a null becomes an empty object."""
    first = load32(place(table, ENDS))
    last = load32(place(table, ENDS) + place(table, ROWS) * 4)
    return last - first + 3 * place(table, ROWS)


@native
def _has_newline(start: int, end: int) -> bool:
    found = 0
    for position in range(start, end):
        found |= int(load8(position) == _NEWLINE)
    return found != 0


@native
def _has_no_number(start: int, end: int) -> bool:
    """Whether NaN or Inf stands somewhere: Arrow's parser takes them for numbers, JSON does not."""
    found = 0
    for position in range(start, end - 2):
        first, second, third = load8(position), load8(position + 1), load8(position + 2)
        found |= int(first == 78) & int(second == 97) & int(third == 78)
        found |= int(first == 73) & int(second == 110) & int(third == 102)
    return found != 0


@native
def write_lines(table: int, lines: int, is_there: int, found: int) -> bool:
    """One object in each line, or False. Whether it is one is for the parser to say.

    As each payload begins with a brace and ends with one, and nothing but space stands between two,
    a parser that finds as many objects as there are rows has found each in its row.
    """
    content, ends = place(table, CONTENT), place(table, ENDS)
    target = lines
    for row in range(place(table, ROWS)):
        if is_null(table, row):
            store8(is_there + row, 0)
            store8(target, _OPEN)
            store8(target + 1, _CLOSE)
            target += 2
            put(found, NULLS, place(found, NULLS) + 1)
        else:
            store8(is_there + row, 1)
            start = content + load32(ends + row * 4)
            end = content + load32(ends + row * 4 + 4)
            if end - start < FRAME_BYTES + 2 or load8(start) != 0:
                return False
            start += FRAME_BYTES
            while end > start and load8(end - 1) <= _SPACE:
                end -= 1
            if end - start < 2 or load8(start) != _OPEN or load8(end - 1) != _CLOSE:
                return False
            if _has_no_number(start, end):
                return False
            if _has_newline(start, end):
                put(found, HAS_NEWLINES, 1)
            copy_bytes(target, start, end - start)
            target += end - start
        store8(target, _NEWLINE)
        target += 1
    put(found, LENGTH, target - lines)
    return True
