"""Programs for `protobuf_values`: which fields a message has, and the columns they go to."""

from typing import Any, Final

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from goqueue.spark.source.columnar import protobuf_values as wire
from goqueue.spark.source.columnar.memory import ColumnMemory, NoColumn

_TIMESTAMP: Final = "google.protobuf.Timestamp"
# Type -> how it lies, how it is read, what is appended.
_PLAIN: Final = {
    FieldDescriptor.TYPE_BOOL: (wire.VARINT, wire.BOOLEAN, wire.AS_TRUTH),
    FieldDescriptor.TYPE_INT32: (wire.VARINT, wire.INT32, wire.AS_NUMBER),
    FieldDescriptor.TYPE_INT64: (wire.VARINT, wire.INT64, wire.AS_NUMBER),
    FieldDescriptor.TYPE_UINT32: (wire.VARINT, wire.UINT32, wire.AS_NUMBER),
    FieldDescriptor.TYPE_SINT32: (wire.VARINT, wire.ZIGZAG32, wire.AS_NUMBER),
    FieldDescriptor.TYPE_SINT64: (wire.VARINT, wire.ZIGZAG, wire.AS_NUMBER),
    FieldDescriptor.TYPE_SFIXED32: (wire.FIXED32, wire.INT32, wire.AS_NUMBER),
    FieldDescriptor.TYPE_SFIXED64: (wire.FIXED64, wire.INT64, wire.AS_NUMBER),
    FieldDescriptor.TYPE_FIXED32: (wire.FIXED32, wire.UINT32, wire.AS_NUMBER),
    FieldDescriptor.TYPE_FLOAT: (wire.FIXED32, wire.RAW, wire.AS_RAW),
    FieldDescriptor.TYPE_DOUBLE: (wire.FIXED64, wire.RAW, wire.AS_RAW),
    FieldDescriptor.TYPE_STRING: (wire.DELIMITED, wire.BYTES, wire.AS_CONTENT),
    FieldDescriptor.TYPE_BYTES: (wire.DELIMITED, wire.BYTES, wire.AS_CONTENT),
    FieldDescriptor.TYPE_ENUM: (wire.VARINT, wire.INT32, wire.AS_NAME),
}
# A descriptor may hold some hundred fields; each has a slot, and those of messages within.
_MAX_SLOTS: Final = 4096


class ProtobufProgram:
    """NoColumn for what is not for here: lists, maps, choices, groups, numbers of 64 bits without
    a sign, and messages that contain themselves."""

    def __init__(self, message: Descriptor, column: ColumnMemory) -> None:
        self._steps: list[list[int]] = []
        self._kept: list[Any] = []
        self._slots = np.zeros((_MAX_SLOTS, wire.SLOT_PLACES), np.int64)
        self._slot_count = 0
        self._depth = 0
        self._zero = np.zeros(1, np.int64)
        fields = self._message(message, column, self._slot(), has_presence=False, path=())
        steps = np.array(self._steps, np.int64)
        stack = np.zeros((self._depth, wire.STACK_PLACES), np.int64)
        self._kept += [steps, stack]
        layout = np.zeros(wire.PROGRAM_PLACES, np.int64)
        layout[wire.SLOTS] = self._slots.ctypes.data
        layout[wire.SLOT_COUNT] = self._slot_count
        layout[wire.FIELDS] = fields.ctypes.data
        layout[wire.FIELD_COUNT] = len(fields)
        layout[wire.STACK] = stack.ctypes.data
        layout[wire.STEPS] = steps.ctypes.data
        layout[wire.STEP_COUNT] = len(steps)
        self._layout = layout

    @property
    def address(self) -> int:
        return int(self._layout.ctypes.data)

    @property
    def step_count(self) -> int:
        return len(self._steps)

    def _message(
        self,
        message: Descriptor,
        column: ColumnMemory,
        slot: int,
        *,
        has_presence: bool,
        path: tuple[str, ...],
    ) -> Any:
        """The table of its fields."""
        _check(message.full_name not in path and len(column.children) == len(message.fields))
        _check(not message.GetOptions().message_set_wire_format)
        inner = (*path, message.full_name)
        self._depth = max(self._depth, len(inner))
        head = self._step(wire.AS_STRUCT, column, slot, has_presence=has_presence)
        rows = [
            self._field(field, child, inner)
            for field, child in zip(message.fields, column.children, strict=True)
        ]
        self._steps[head][wire.JUMP] = len(self._steps)
        return self._table(rows)

    def _field(
        self, field: FieldDescriptor, column: ColumnMemory, path: tuple[str, ...]
    ) -> list[int]:
        _check(not field.is_repeated and not field.is_required)
        _check(field.containing_oneof is None or len(field.containing_oneof.fields) == 1)
        slot = self._slot()
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            assert field.message_type is not None, "it is of that type"
            if field.message_type.full_name == _TIMESTAMP:
                inner = self._timestamp(column, slot)
            else:
                inner = self._message(
                    field.message_type, column, slot, has_presence=True, path=path
                )
            return _row(field.number, wire.DELIMITED, wire.MESSAGE, slot, inner)
        _check(field.type in _PLAIN)
        lies, kind, operation = _PLAIN[field.type]
        names = self._names(field, column) if operation == wire.AS_NAME else None
        self._step(operation, column, slot, has_presence=field.has_presence, names=names)
        return _row(field.number, lies, kind, slot)

    def _timestamp(self, column: ColumnMemory, slot: int) -> Any:
        seconds, nanos = self._slot(), self._slot()
        self._step(wire.AS_MICROSECONDS, column, slot, has_presence=True)
        self._depth += 1
        return self._table(
            [
                _row(1, wire.VARINT, wire.INT64, seconds),
                _row(2, wire.VARINT, wire.INT32, nanos),
            ]
        )

    def _names(self, field: FieldDescriptor, column: ColumnMemory) -> Any:
        assert field.enum_type is not None, "it is of that type"
        rows = []
        for number, value in field.enum_type.values_by_number.items():
            text = np.frombuffer(value.name.encode(), np.uint8)
            self._kept.append(text)
            rows.append([number, text.ctypes.data, len(text)])
            column.added_bytes = max(column.added_bytes, len(text))
        return self._table(rows)

    def _slot(self) -> int:
        """Its address."""
        _check(self._slot_count < _MAX_SLOTS)
        self._slot_count += 1
        return int(self._slots[self._slot_count - 1].ctypes.data)

    def _table(self, rows: list[list[int]]) -> Any:
        table = np.array(rows, np.int64)
        self._kept.append(table)
        return table

    def _step(
        self,
        operation: int,
        column: ColumnMemory,
        slot: int,
        *,
        has_presence: bool,
        names: Any = None,
    ) -> int:
        """Its number."""
        nulls = np.array([each.address for each in column.as_long], np.int64)
        self._kept.append(nulls)
        step = [0] * wire.STEP_PLACES
        step[wire.OPERATION] = operation
        step[wire.COLUMN] = column.address
        step[wire.FROM_SLOT] = slot
        step[wire.HAS_PRESENCE] = int(has_presence)
        step[wire.JUMP] = len(self._steps) + 1
        step[wire.STEP_NULL_COLUMNS] = int(nulls.ctypes.data)
        step[wire.STEP_NULL_COUNT] = len(nulls)
        step[wire.DETAIL] = int((self._zero if names is None else names).ctypes.data)
        step[wire.SIZE] = 0 if names is None else len(names)
        self._steps.append(step)
        return len(self._steps) - 1


def _row(number: int, lies: int, kind: int, slot: int, inner: Any = None) -> list[int]:
    row = [0] * wire.FIELD_PLACES
    row[wire.NUMBER], row[wire.WIRE_TYPE], row[wire.KIND], row[wire.SLOT] = number, lies, kind, slot
    if inner is not None:
        row[wire.INNER], row[wire.INNER_COUNT] = int(inner.ctypes.data), len(inner)
    return row


def _check(is_known: bool) -> None:
    if not is_known:
        raise NoColumn("this message is for the decoder of single records")
