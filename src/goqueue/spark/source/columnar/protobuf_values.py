"""Protobuf's wire format in machine code: a message's fields into slots, the slots into columns.

https://protobuf.dev/programming-guides/encoding/. Fields come in any order, some not, some twice,
where the last one counts; so a row is appended when its whole message has been read. Every length
is checked against the bytes that are there. Tables are of 64-bit words, whose places are named
below.
"""

from typing import Final

import numpy as np

from goqueue.model.settings import INT64_MAX
from goqueue.spark.native_code import native
from goqueue.spark.native_memory import WORD_BYTES, load8, load32, load64, put_word, word_at
from goqueue.spark.source.columnar.appending import (
    append_content,
    append_nulls,
    append_number,
    append_raw,
    append_struct,
    append_truth,
)
from goqueue.spark.source.columnar.framed_payloads import (
    BROKEN,
    CONTENT,
    DONE,
    ENDS,
    FRAME_BYTES,
    NO_PROGRAM,
    NULL_COLUMNS,
    NULL_COUNT,
    PLACES,
    ROW,
    ROWS,
    SCHEMA_ID,
    is_null,
    program_for,
    schema_id_at,
)

# A program: its slots, the fields of the message, room for a stack of messages, the steps that
# append a row.
SLOTS: Final = 0
SLOT_COUNT: Final = 1
FIELDS: Final = 2
FIELD_COUNT: Final = 3
STACK: Final = 4
STEPS: Final = 5
STEP_COUNT: Final = 6
PROGRAM_PLACES: Final = 7

# What was found of a field: a number, or an address; the length of content.
IS_THERE: Final = 0
VALUE: Final = 1
LENGTH: Final = 2
SLOT_PLACES: Final = 3

# A field of a message; `INNER` are the fields of its own message.
NUMBER: Final = 0
WIRE_TYPE: Final = 1
KIND: Final = 2
SLOT: Final = 3
INNER: Final = 4
INNER_COUNT: Final = 5
FIELD_PLACES: Final = 6

# A step: what to append, where to, and from which slot. An absent field is null if it can be told
# to be absent: then the columns of its message get nulls, and their steps are jumped over.
OPERATION: Final = 0
COLUMN: Final = 1
FROM_SLOT: Final = 2
HAS_PRESENCE: Final = 3
JUMP: Final = 4
STEP_NULL_COLUMNS: Final = 5
STEP_NULL_COUNT: Final = 6
# Of enums the address and the count of their names; of raw numbers the address of a zero.
DETAIL: Final = 7
SIZE: Final = 8
STEP_PLACES: Final = 9

# Of an outer message on the stack: its fields, their count, its end.
STACK_PLACES: Final = 3

VARINT: Final = 0
FIXED64: Final = 1
DELIMITED: Final = 2
FIXED32: Final = 5

# Kinds of fields.
INT64: Final = 1
INT32: Final = 2
UINT32: Final = 3
ZIGZAG: Final = 4
ZIGZAG32: Final = 5
BOOLEAN: Final = 6
RAW: Final = 7
BYTES: Final = 8
MESSAGE: Final = 9

# Operations of steps.
AS_NUMBER: Final = 1
AS_TRUTH: Final = 2
AS_RAW: Final = 3
AS_CONTENT: Final = 4
AS_STRUCT: Final = 5
AS_NAME: Final = 6
# Of a message whose next two slots are seconds and nanoseconds.
AS_MICROSECONDS: Final = 7

_MICROS: Final = 1_000_000
_NANOS_PER_MICRO: Final = 1_000
_LAST_SECOND: Final = INT64_MAX // _MICROS - 1
_LOW_32: Final = 0xFFFF_FFFF
_SIGN_32: Final = 0x8000_0000
_MAX_NUMBER: Final = 2**29 - 1
_LAST_SHIFT: Final = 63
# The first message of the schema, which nearly all payloads are. Others are read one by one.
_FIRST_MESSAGE: Final = 0


@native
def _varint(position: int, end: int) -> tuple[int, int]:
    """(value, next position or -1)"""
    raw = 0
    shift = 0
    while position < end and shift <= _LAST_SHIFT:
        byte = load8(position)
        position += 1
        if shift == _LAST_SHIFT and byte > 1:
            return 0, -1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, position
        shift += 7
    return 0, -1


@native
def _skipped(position: int, end: int, wire_type: int) -> int:
    """After a field that nobody wants; -1 if it is broken, or a group."""
    if wire_type == VARINT:
        _, position = _varint(position, end)
        return position
    length = 0
    if wire_type == FIXED64:
        length = 8
    elif wire_type == FIXED32:
        length = 4
    elif wire_type == DELIMITED:
        length, position = _varint(position, end)
    else:
        return -1
    if position < 0 or length < 0 or length > end - position:
        return -1
    return position + length


@native
def _found(fields: int, count: int, hint: int, number: int) -> int:
    """The index of a field; most come in their order."""
    for index in range(hint, count):
        if word_at(fields + index * (FIELD_PLACES * WORD_BYTES), NUMBER) == number:
            return index
    for index in range(min(hint, count)):
        if word_at(fields + index * (FIELD_PLACES * WORD_BYTES), NUMBER) == number:
            return index
    return -1


@native
def _number(kind: int, raw: int) -> int:
    if kind == INT64:
        return raw
    if kind == BOOLEAN:
        return int(raw != 0)
    if kind == ZIGZAG:
        return ((raw >> 1) & INT64_MAX) ^ -(raw & 1)
    low = raw & _LOW_32
    if kind == UINT32:
        return low
    if kind == ZIGZAG32:
        return (low >> 1) ^ -(low & 1)
    return (low ^ _SIGN_32) - _SIGN_32


@native
def _put(slot: int, value: int, length: int) -> None:
    put_word(slot, IS_THERE, 1)
    put_word(slot, VALUE, value)
    put_word(slot, LENGTH, length)


@native
def _read_field(field: int, wire_type: int, position: int, end: int) -> int:
    """Into its slot, all but a message; the next position or -1."""
    kind, slot = word_at(field, KIND), word_at(field, SLOT)
    if wire_type == VARINT:
        raw, position = _varint(position, end)
        if position >= 0:
            _put(slot, _number(kind, raw), 0)
        return position
    start = position
    position = _skipped(position, end, wire_type)
    if position < 0:
        return -1
    if wire_type == DELIMITED:
        length, start = _varint(start, end)
        _put(slot, start, length)
    elif kind == RAW:
        _put(slot, start, 0)
    elif wire_type == FIXED64:
        _put(slot, load64(start), 0)
    else:
        _put(slot, _number(kind, load32(start)), 0)
    return position


@native
def _read_message(program: int, position: int, end: int) -> bool:
    slots = word_at(program, SLOTS)
    for index in range(word_at(program, SLOT_COUNT) * SLOT_PLACES):
        put_word(slots, index, 0)
    stack = word_at(program, STACK)
    fields, count = word_at(program, FIELDS), word_at(program, FIELD_COUNT)
    depth = hint = 0
    while True:
        if position == end:
            if depth == 0:
                return True
            depth -= 1
            outer = stack + depth * (STACK_PLACES * WORD_BYTES)
            fields, count, end = word_at(outer, 0), word_at(outer, 1), word_at(outer, 2)
            hint = 0
            continue
        key, position = _varint(position, end)
        if position < 0 or key < 8 or (key >> 3) > _MAX_NUMBER:
            return False
        wire_type = key & 7
        index = _found(fields, count, hint, key >> 3)
        if index < 0:
            position = _skipped(position, end, wire_type)
            if position < 0:
                return False
            continue
        hint = index + 1
        field = fields + index * (FIELD_PLACES * WORD_BYTES)
        if word_at(field, WIRE_TYPE) != wire_type:
            return False
        if word_at(field, KIND) == MESSAGE:
            length, position = _varint(position, end)
            if position < 0 or length < 0 or length > end - position:
                return False
            outer = stack + depth * (STACK_PLACES * WORD_BYTES)
            put_word(outer, 0, fields)
            put_word(outer, 1, count)
            put_word(outer, 2, end)
            depth += 1
            put_word(word_at(field, SLOT), IS_THERE, 1)
            fields, count = word_at(field, INNER), word_at(field, INNER_COUNT)
            end = position + length
            hint = 0
            continue
        position = _read_field(field, wire_type, position, end)
        if position < 0:
            return False


@native
def _append_name(step: int, number: int) -> bool:
    """Of an enum's value; a number without a name is for the decoder of single records."""
    names = word_at(step, DETAIL)
    for index in range(word_at(step, SIZE)):
        name = names + index * (3 * WORD_BYTES)
        if word_at(name, 0) == number:
            return append_content(word_at(step, COLUMN), word_at(name, 1), word_at(name, 2))
    return False


@native
def _append_microseconds(column: int, slot: int) -> bool:
    seconds = word_at(slot + SLOT_PLACES * WORD_BYTES, VALUE)
    nanos = word_at(slot + 2 * SLOT_PLACES * WORD_BYTES, VALUE)
    if seconds > _LAST_SECOND or seconds < -_LAST_SECOND:
        return False
    return append_number(column, seconds * _MICROS + nanos // _NANOS_PER_MICRO)


@native
def _append(step: int) -> bool:
    operation, column = word_at(step, OPERATION), word_at(step, COLUMN)
    slot = word_at(step, FROM_SLOT)
    value = word_at(slot, VALUE)
    if operation == AS_NUMBER:
        return append_number(column, value)
    if operation == AS_CONTENT:
        return append_content(column, value, word_at(slot, LENGTH))
    if operation == AS_TRUTH:
        return append_truth(column, value)
    if operation == AS_RAW:
        return append_raw(column, value if word_at(slot, IS_THERE) else word_at(step, DETAIL))
    if operation == AS_STRUCT:
        return append_struct(column)
    if operation == AS_NAME:
        return _append_name(step, value)
    return _append_microseconds(column, slot)


@native
def _append_row(program: int) -> bool:
    steps, count = word_at(program, STEPS), word_at(program, STEP_COUNT)
    index = 0
    while index < count:
        step = steps + index * (STEP_PLACES * WORD_BYTES)
        if word_at(step, HAS_PRESENCE) and not word_at(word_at(step, FROM_SLOT), IS_THERE):
            if not append_nulls(word_at(step, STEP_NULL_COLUMNS), word_at(step, STEP_NULL_COUNT)):
                return False
            index = word_at(step, JUMP)
        else:
            if not _append(step):
                return False
            index += 1
    return True


@native
def read_protobuf_rows(table: int) -> int:
    """Append rows to their columns until the end, or until one that needs help."""
    ends, content = word_at(table, ENDS), word_at(table, CONTENT)
    while word_at(table, ROW) < word_at(table, ROWS):
        row = word_at(table, ROW)
        if is_null(table, row):
            if not append_nulls(word_at(table, NULL_COLUMNS), word_at(table, NULL_COUNT)):
                return BROKEN
        else:
            position = content + load32(ends + row * 4)
            end = content + load32(ends + row * 4 + 4)
            if end - position < FRAME_BYTES + 1 or load8(position) != 0:
                return BROKEN
            if load8(position + FRAME_BYTES) != _FIRST_MESSAGE:
                return BROKEN
            schema_id = schema_id_at(position)
            program = program_for(table, schema_id)
            if program == 0:
                put_word(table, SCHEMA_ID, schema_id)
                return NO_PROGRAM
            layout = word_at(program, 1)
            if not _read_message(layout, position + FRAME_BYTES + 1, end):
                return BROKEN
            if not _append_row(layout):
                return BROKEN
        put_word(table, ROW, row + 1)
    return DONE


def load_protobuf() -> None:
    """Compile what reads Protobuf, or load it, without a row."""
    table = np.zeros(PLACES, np.int64)
    read_protobuf_rows(table.ctypes.data)
