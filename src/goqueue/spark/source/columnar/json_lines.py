"""Payloads with a schema's id before each, as lines without it, in machine code."""

from typing import Final

from goqueue.spark.native_code import native
from goqueue.spark.native_memory import copy_bytes, load8, load32, put_word, store8, word_at
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
_NAN: Final = tuple(b"NaN")
_INFINITY: Final = tuple(b"Inf")

# What a column of lines was found to be.
LENGTH: Final = 0
NULLS: Final = 1
HAS_NEWLINES: Final = 2
PLACES: Final = 3


@native
def room_for_lines(table: int) -> int:
    """Every payload loses its frame and gets a newline; a null becomes an empty object."""
    first = load32(word_at(table, ENDS))
    last = load32(word_at(table, ENDS) + word_at(table, ROWS) * 4)
    return last - first + 3 * word_at(table, ROWS)


@native
def _has_newline(start: int, end: int) -> bool:
    found = 0
    for position in range(start, end):
        found |= int(load8(position) == _NEWLINE)
    return found != 0


@native
def _has_nan_or_infinity(start: int, end: int) -> bool:
    """Arrow's parser takes the words for numbers, JSON does not. They may stand in a text, too."""
    found = 0
    for position in range(start, end - 2):
        first, second, third = load8(position), load8(position + 1), load8(position + 2)
        found |= int(first == _NAN[0]) & int(second == _NAN[1]) & int(third == _NAN[2])
        found |= (
            int(first == _INFINITY[0]) & int(second == _INFINITY[1]) & int(third == _INFINITY[2])
        )
    return found != 0


@native
def write_lines(table: int, lines: int, is_there: int, found: int) -> bool:
    """One object in each line, or False. Whether it is one is for the parser to say.

    As each payload begins with a brace and ends with one, and nothing but space stands between two,
    a parser that finds as many objects as there are rows has found each in its row.
    """
    content, ends = word_at(table, CONTENT), word_at(table, ENDS)
    target = lines
    for row in range(word_at(table, ROWS)):
        if is_null(table, row):
            store8(is_there + row, 0)
            store8(target, _OPEN)
            store8(target + 1, _CLOSE)
            target += 2
            put_word(found, NULLS, word_at(found, NULLS) + 1)
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
            if _has_nan_or_infinity(start, end):
                return False
            if _has_newline(start, end):
                put_word(found, HAS_NEWLINES, 1)
            copy_bytes(target, start, end - start)
            target += end - start
        store8(target, _NEWLINE)
        target += 1
    put_word(found, LENGTH, target - lines)
    return True
