"""Appends to columns, in machine code. Each answers whether there was room and the value fits.

A column is a table of 64-bit numbers, whose places are named below; 0 is a column that nobody
wants, and takes everything.
"""

from typing import Final

from goqueue.model.settings import INT32_MAX
from goqueue.spark.native_code import native
from goqueue.spark.native_memory import copy_bytes, load8, load32, load64, store8, store32, store64

WORD_BYTES: Final = 8

KIND: Final = 0
# Addresses. Presence and truth have a byte per value; ends begin with a 0.
VALUES: Final = 1
ENDS: Final = 2
PRESENCE: Final = 3
CHILDREN: Final = 4
CHILD_COUNT: Final = 5
COUNT: Final = 6
NULLS: Final = 7
# Of content: bytes that are there, or for lists and maps, items.
LENGTH: Final = 8
# How many values, and how many bytes of content, there is room for.
ROOM: Final = 9
LENGTH_ROOM: Final = 10
COLUMN_PLACES: Final = 11

# Kinds of columns.
TRUTH: Final = 1
NUMBER32: Final = 2
NUMBER64: Final = 3
NUMBER128: Final = 4
CONTENT: Final = 5
STRUCT: Final = 6
LIST: Final = 7


@native
def place(table: int, number: int) -> int:
    return load64(table + number * WORD_BYTES)


@native
def put(table: int, number: int, value: int) -> None:
    store64(table + number * WORD_BYTES, value)


@native
def same_bytes(first: int, second: int, length: int) -> bool:
    differing = 0
    for index in range(length):
        differing |= load8(first + index) ^ load8(second + index)
    return differing == 0


@native
def _begin(column: int, is_there: int) -> int:
    """The index of the value that begins, counted and marked as there or not; -1 without room."""
    index = place(column, COUNT)
    if index >= place(column, ROOM):
        return -1
    put(column, COUNT, index + 1)
    store8(place(column, PRESENCE) + index, is_there)
    if not is_there:
        put(column, NULLS, place(column, NULLS) + 1)
    return index


@native
def append_null(column: int) -> bool:
    """To this column alone: `append_nulls` knows the children of a struct."""
    if column == 0:
        return True
    index = _begin(column, 0)
    if index < 0:
        return False
    kind = place(column, KIND)
    values = place(column, VALUES)
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
        store32(place(column, ENDS) + index * 4 + 4, place(column, LENGTH))
    return True


@native
def append_nulls(columns: int, count: int) -> bool:
    """To a struct and all that is as long as it is, for example."""
    has_room = True
    for index in range(count):
        has_room &= append_null(place(columns, index))
    return has_room


@native
def append_truth(column: int, value: int) -> bool:
    if column == 0:
        return True
    index = _begin(column, 1)
    if index < 0:
        return False
    store8(place(column, VALUES) + index, value)
    return True


@native
def append_number(column: int, value: int) -> bool:
    """A whole number, into a column of 32, 64 or 128 bits."""
    if column == 0:
        return True
    kind = place(column, KIND)
    if kind == NUMBER32 and (value > INT32_MAX or value < -INT32_MAX - 1):
        return False
    index = _begin(column, 1)
    if index < 0:
        return False
    values = place(column, VALUES)
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
    if place(column, KIND) == NUMBER32:
        store32(place(column, VALUES) + index * 4, load32(address))
    else:
        store64(place(column, VALUES) + index * 8, load64(address))
    return True


@native
def append_content(column: int, start: int, length: int) -> bool:
    if column == 0:
        return True
    used = place(column, LENGTH)
    if length > place(column, LENGTH_ROOM) - used:
        return False
    index = _begin(column, 1)
    if index < 0:
        return False
    copy_bytes(place(column, VALUES) + used, start, length)
    put(column, LENGTH, used + length)
    store32(place(column, ENDS) + index * 4 + 4, used + length)
    return True


@native
def append_struct(column: int) -> bool:
    """The caller appends to every child."""
    return column == 0 or _begin(column, 1) >= 0


@native
def has_distinct_values(column: int, count: int) -> bool:
    """Whether the last values of a column of content differ from each other."""
    last = place(column, COUNT)
    ends, values = place(column, ENDS), place(column, VALUES)
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
    length = place(column, LENGTH) + count
    put(column, LENGTH, length)
    store32(place(column, ENDS) + index * 4 + 4, length)
    return True
