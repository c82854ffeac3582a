"""The memory of typed columns, and the Arrow arrays over it."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from goqueue.spark.source.columnar import appending

# Arrow's ends are 32 bits wide.
_MAX_LENGTH: Final = 2**31 - 1
# Of decimals that 64 bits hold.
MAX_DIGITS: Final = 18
_WIDTHS: Final = {
    appending.TRUTH: 1,
    appending.NUMBER32: 4,
    appending.NUMBER64: 8,
    appending.NUMBER128: 16,
}


class NoColumn(Exception):
    """This type is not known here; records are decoded one by one."""


class ColumnMemory:
    """One column with its children, filled by compiled code through `address`.

    The address stays the same; `prepare` gives new memory, which the arrays of `array` keep.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._type = kind
        self._kind = _column_kind(kind)
        self._buffers: dict[int, pa.Buffer] = {}
        self._table = np.zeros(appending.COLUMN_PLACES, np.int64)
        self._table[appending.KIND] = self._kind
        self.children = [ColumnMemory(each) for each in _child_types(kind)]
        self.added_bytes = 0
        """Of content, the most that a value may have that does not stand in a payload."""

    @property
    def address(self) -> int:
        return int(self._table.ctypes.data)

    @property
    def as_long(self) -> "list[ColumnMemory]":
        """This column and those that have a value for each of its own."""
        if self._kind != appending.STRUCT:
            return [self]
        return [self, *(inner for each in self.children for inner in each.as_long)]

    def prepare(self, rows: int, payload_bytes: int) -> None:
        """Make room. Payloads bound the bytes of content and the items of lists."""
        table = self._table
        table[appending.COUNT] = table[appending.NULLS] = table[appending.LENGTH] = 0
        table[appending.ROOM] = rows
        room = min(payload_bytes + rows * self.added_bytes, _MAX_LENGTH)
        table[appending.LENGTH_ROOM] = room
        self._reserve(appending.PRESENCE, rows)
        if self._kind in _WIDTHS:
            self._reserve(appending.VALUES, rows * _WIDTHS[self._kind])
        if self._kind in (appending.CONTENT, appending.LIST):
            self._reserve(appending.ENDS, (rows + 1) * 4)
            np.frombuffer(memoryview(self._buffers[appending.ENDS]), np.int32)[0] = 0
        if self._kind == appending.CONTENT:
            self._reserve(appending.VALUES, room)
        for each in self.children:
            each.prepare(payload_bytes if self._kind == appending.LIST else rows, payload_bytes)

    def array(self) -> "pa.Array[Any]":
        """What was appended. Text that is no UTF-8 raises Arrow's error."""
        found = self._array()
        found.validate(full=True)
        return found

    def _array(self) -> "pa.Array[Any]":
        table = self._table
        count, nulls = int(table[appending.COUNT]), int(table[appending.NULLS])
        validity = bits_of(self._buffers[appending.PRESENCE], count) if nulls else None
        buffers: list[pa.Buffer | None] = [validity]
        match self._kind:
            case appending.TRUTH:
                buffers.append(bits_of(self._buffers[appending.VALUES], count))
            case appending.CONTENT:
                content = self._buffers[appending.VALUES].slice(0, int(table[appending.LENGTH]))
                buffers += [self._buffers[appending.ENDS], content]
            case appending.LIST:
                buffers.append(self._buffers[appending.ENDS])
            case appending.STRUCT:
                pass
            case _:
                buffers.append(self._buffers[appending.VALUES])
        children = [each._array() for each in self.children]
        return pa.Array.from_buffers(self._type, count, buffers, nulls, children=children)

    def _reserve(self, place: int, size: int) -> None:
        self._buffers[place] = buffer = pa.allocate_buffer(size)
        self._table[place] = buffer.address


def _column_kind(kind: pa.DataType) -> int:
    if pa.types.is_boolean(kind):
        return appending.TRUTH
    if pa.types.is_int32(kind) or pa.types.is_date32(kind) or pa.types.is_float32(kind):
        return appending.NUMBER32
    if pa.types.is_int64(kind) or pa.types.is_float64(kind) or pa.types.is_timestamp(kind):
        return appending.NUMBER64
    if isinstance(kind, pa.Decimal128Type) and kind.precision <= MAX_DIGITS:
        return appending.NUMBER128
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return appending.CONTENT
    if isinstance(kind, pa.StructType) and kind.num_fields:
        return appending.STRUCT
    if isinstance(kind, pa.ListType | pa.MapType):
        return appending.LIST
    raise NoColumn(f"{kind} is decoded record by record")


def _child_types(kind: pa.DataType) -> list[pa.DataType]:
    if isinstance(kind, pa.StructType):
        return [each.type for each in kind]
    if isinstance(kind, pa.MapType):
        return [pa.struct([kind.key_field, kind.item_field])]
    if isinstance(kind, pa.ListType):
        return [kind.value_type]
    return []


def bits_of(marks: pa.Buffer, count: int) -> pa.Buffer:
    """Arrow's bits, of a byte for each value."""
    one_each = np.frombuffer(memoryview(marks), np.uint8, count)
    return pa.py_buffer(np.packbits(one_each, bitorder="little").data)
