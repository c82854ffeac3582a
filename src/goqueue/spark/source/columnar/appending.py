"""Appends to columns, in machine code. Each answers whether there was room and the value fits.

A column is the address of a table of 64-bit words, whose places are named below. The address 0 is a
column that nobody wants, and takes everything.
"""

from typing import Final

from goqueue.model.settings import INT32_MAX
from goqueue.spark.native_code import native
from goqueue.spark.native_memory import (
    copy_bytes,
    load32,
    load64,
    put_word,
    same_bytes,
    store8,
    store32,
    store64,
    word_at,
)

KIND: Final = 0
# Addresses. Presence and truth have a byte per value; ends begin with a 0.
VALUES: Final = 1
ENDS: Final = 2
PRESENCE: Final = 3
COUNT: Final = 4
NULLS: Final = 5
# Of content: bytes that are there, or for lists and maps, items.
LENGTH: Final = 6
# How many values, and how many bytes of content, there is room for.
ROOM: Final = 7
LENGTH_ROOM: Final = 8
COLUMN_PLACES: Final = 9

# Kinds of columns.
TRUTH: Final = 1
NUMBER32: Final = 2
NUMBER64: Final = 3
NUMBER128: Final = 4
CONTENT: Final = 5
STRUCT: Final = 6
LIST: Final = 7


@native
def _begin(column: int, is_there: int) -> int:
    """The index of the value that begins, counted and marked as there or not; -1 without room."""
    index = word_at(column, COUNT)
    if index >= word_at(column, ROOM):
        return -1
    put_word(column, COUNT, index + 1)
    store8(word_at(column, PRESENCE) + index, is_there)
    if not is_there:
        put_word(column, NULLS, word_at(column, NULLS) + 1)
    return index


@native
def append_null(column: int) -> bool:
    """To this column alone: `append_nulls` knows the children of a struct."""
    if column == 0:
        return True
    index = _begin(column, 0)
    if index < 0:
        return False
    kind = word_at(column, KIND)
    values = word_at(column, VALUES)
    if kind == TRUTH:
        store8(values + index, 0)
    elif kind == NUMBER32:
        store32(values + index * 4, 0)
    elif kind == NUMBER64:
        store64(values + index * 8, 0)
    elif kind == NUMBER128:
        store64(values + index * 16, 0)
        store64(values + index * 16 + 8, 0)
    elif kind != STRUCT:
        store32(word_at(column, ENDS) + index * 4 + 4, word_at(column, LENGTH))
    return True


@native
def append_nulls(columns: int, count: int) -> bool:
    """To a struct and all that is as long as it is, for example."""
    has_room = True
    for index in range(count):
        has_room &= append_null(word_at(columns, index))
    return has_room


@native
def append_truth(column: int, value: int) -> bool:
    if column == 0:
        return True
    index = _begin(column, 1)
    if index < 0:
        return False
    store8(word_at(column, VALUES) + index, value)
    return True


@native
def append_number(column: int, value: int) -> bool:
    """A whole number, into a column of 32, 64 or 128 bits."""
    if column == 0:
        return True
    kind = word_at(column, KIND)
    if kind == NUMBER32 and (value > INT32_MAX or value < -INT32_MAX - 1):
        return False
    index = _begin(column, 1)
    if index < 0:
        return False
    values = word_at(column, VALUES)
    if kind == NUMBER32:
        store32(values + index * 4, value)
    elif kind == NUMBER64:
        store64(values + index * 8, value)
    else:
        store64(values + index * 16, value)
        store64(values + index * 16 + 8, value >> 63)
    return True


@native
def append_raw(column: int, address: int) -> bool:
    """A float or a double, as it lies."""
    if column == 0:
        return True
    index = _begin(column, 1)
    if index < 0:
        return False
    if word_at(column, KIND) == NUMBER32:
        store32(word_at(column, VALUES) + index * 4, load32(address))
    else:
        store64(word_at(column, VALUES) + index * 8, load64(address))
    return True


@native
def append_content(column: int, start: int, length: int) -> bool:
    if column == 0:
        return True
    used = word_at(column, LENGTH)
    if length > word_at(column, LENGTH_ROOM) - used:
        return False
    index = _begin(column, 1)
    if index < 0:
        return False
    copy_bytes(word_at(column, VALUES) + used, start, length)
    put_word(column, LENGTH, used + length)
    store32(word_at(column, ENDS) + index * 4 + 4, used + length)
    return True


@native
def append_struct(column: int) -> bool:
    """The caller appends to every child."""
    return column == 0 or _begin(column, 1) >= 0


@native
def has_distinct_values(column: int, count: int) -> bool:
    """Whether the last values of a column of content differ from each other."""
    last = word_at(column, COUNT)
    ends, values = word_at(column, ENDS), word_at(column, VALUES)
    for first in range(last - count, last):
        start = load32(ends + first * 4)
        length = load32(ends + first * 4 + 4) - start
        for second in range(first + 1, last):
            other = load32(ends + second * 4)
            if load32(ends + second * 4 + 4) - other == length and same_bytes(
                values + start, values + other, length
            ):
                return False
    return True


@native
def append_items(column: int, count: int) -> bool:
    """A list or a map of as many items; the caller has appended them."""
    if column == 0:
        return True
    index = _begin(column, 1)
    if index < 0:
        return False
    length = word_at(column, LENGTH) + count
    put_word(column, LENGTH, length)
    store32(word_at(column, ENDS) + index * 4 + 4, length)
    return True
