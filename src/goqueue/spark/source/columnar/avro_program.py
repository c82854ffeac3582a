"""Programs for `avro_values`: how payloads of a writer's schema become the reader's columns.

By the rules of https://avro.apache.org/docs/1.12.0/specification/#schema-resolution, as far as they
need no choice at run time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from goqueue.spark.source.columnar import avro_values as steps
from goqueue.spark.source.columnar.memory import MAX_DIGITS, ColumnMemory, NoColumn

_LOGICAL: Final = {
    "date": steps.DATE,
    "timestamp-millis": steps.MILLISECONDS,
    "timestamp-micros": steps.MICROSECONDS,
}
_PLAIN: Final = {
    "boolean": steps.BOOLEAN,
    "int": steps.INTEGER,
    "long": steps.INTEGER,
    "float": steps.FLOAT,
    "double": steps.DOUBLE,
    "bytes": steps.CONTENT,
    "string": steps.CONTENT,
}
_NO_SIZE: Final = -1


class AvroProgram:
    """`writer` and `reader` are as fastavro parses them; NoColumn if they are not for here."""

    def __init__(self, writer: Any, reader: Any, column: ColumnMemory) -> None:
        self._steps: list[list[int]] = []
        self._kept: list[Any] = []
        self._written_names = _names(writer)
        self._read_names = _names(reader)
        self._value(writer, reader, column, ())
        self._table = np.array(self._steps, np.int64)

    @property
    def address(self) -> int:
        return int(self._table.ctypes.data)

    @property
    def step_count(self) -> int:
        return len(self._steps)

    def _value(
        self, writer: Any, reader: Any, column: ColumnMemory | None, path: tuple[str, ...]
    ) -> None:
        """Without a column the value is passed over, and `reader` is the writer's own schema."""
        writer = _resolved(writer, self._written_names)
        reader = _resolved(reader, self._written_names if column is None else self._read_names)
        if isinstance(writer, list):
            self._nullable(writer, reader, column, path)
            return
        if isinstance(reader, list):
            reader = _resolved(_other_than_null(reader), self._read_names)
        kind = _kind(writer)
        match kind:
            case "record" | "error":
                self._record(writer, reader, column, path)
            case "array":
                self._items(writer, reader, column, path)
            case "map":
                self._items(writer, reader, column, path)
            case "enum":
                self._enum(writer, reader, column)
            case "null":
                _check(_kind(reader) == "null")
                self._nulls(column)
            case _:
                self._plain(kind, writer, reader, column)

    def _nullable(
        self, writer: list[Any], reader: Any, column: ColumnMemory | None, path: tuple[str, ...]
    ) -> None:
        present = _other_than_null(writer)
        # A reader that knows no null refuses one.
        _check(isinstance(reader, list))
        head = self._step(steps.NULLABLE, column, detail=writer.index("null"), nulls=_long(column))
        self._value(present, _other_than_null(reader), column, path)
        self._steps[head][steps.JUMP] = len(self._steps)

    def _record(
        self, writer: Any, reader: Any, column: ColumnMemory | None, path: tuple[str, ...]
    ) -> None:
        name = writer["name"]
        _check(_kind(reader) in ("record", "error") and reader["name"] == name)
        _check(name not in path and not reader.get("aliases"))
        inner = (*path, name)
        self._step(steps.STRUCT, column)
        wanted: dict[str, tuple[Any, ColumnMemory]] = {}
        if column is not None:
            _check(len(column.children) == len(reader["fields"]))
            for field, child in zip(reader["fields"], column.children, strict=True):
                _check(not field.get("aliases"))
                wanted[field["name"]] = field, child
        for field in writer["fields"]:
            found = wanted.pop(field["name"], None)
            if found is None:
                self._value(field["type"], field["type"], None, inner)
            else:
                self._value(field["type"], found[0]["type"], found[1], inner)
        for field, child in wanted.values():
            # Other defaults are for the decoder of single records.
            _check("default" in field and field["default"] is None)
            self._nulls(child)

    def _items(
        self, writer: Any, reader: Any, column: ColumnMemory | None, path: tuple[str, ...]
    ) -> None:
        kind = _kind(writer)
        _check(_kind(reader) == kind)
        items = None if column is None else column.children[0]
        if kind == "array":
            head = self._step(steps.ITEMS, column)
            self._value(writer["items"], reader["items"], items, path)
        else:
            key, value = (None, None) if items is None else items.children
            head = self._step(steps.ITEMS, column, detail=_address(key))
            self._step(steps.STRUCT, items)
            self._step(steps.CONTENT, key, size=_NO_SIZE)
            self._value(writer["values"], reader["values"], value, path)
        end = self._step(steps.ITEMS_END, column)
        self._steps[end][steps.JUMP] = head
        self._steps[head][steps.JUMP] = len(self._steps)

    def _enum(self, writer: Any, reader: Any, column: ColumnMemory | None) -> None:
        symbols = writer["symbols"]
        _check(_kind(reader) == "enum" and reader["name"] == writer["name"])
        _check(set(symbols) <= set(reader["symbols"]) and not reader.get("aliases"))
        texts = [np.frombuffer(each.encode() or b"\0", np.uint8) for each in symbols]
        sizes = [len(each.encode()) for each in symbols]
        pairs = zip([text.ctypes.data for text in texts], sizes, strict=True)
        table = np.array(list(pairs), np.int64)
        self._kept += [table, *texts]
        if column is not None:
            column.added_bytes = max(column.added_bytes, *sizes)
        self._step(steps.ENUM, column, size=len(symbols), detail=int(table.ctypes.data))

    def _plain(self, kind: str, writer: Any, reader: Any, column: ColumnMemory | None) -> None:
        read_kind, logical = _kind(reader), _logical(writer)
        _check(logical == _logical(reader))
        size = writer["size"] if kind == "fixed" else _NO_SIZE
        if kind == "fixed":
            _check(read_kind == kind and reader["size"] == size)
            _check(reader["name"] == writer["name"] and not reader.get("aliases"))
        else:
            # A long holds every int; other promotions are for the decoder of single records.
            _check(read_kind == kind or (kind, read_kind, logical) == ("int", "long", None))
        if logical == "decimal":
            places = ("precision", "scale")
            _check(all(writer.get(each, 0) == reader.get(each, 0) for each in places))
            _check(writer["precision"] <= MAX_DIGITS)
            limit = 10 ** writer["precision"]
            operation = steps.CONTENT if column is None else steps.DECIMAL
            self._step(operation, column, size=size, detail=limit)
        elif logical is not None:
            # Nobody minds a strange date that is passed over.
            operation = steps.INTEGER if column is None else _LOGICAL[logical]
            self._step(operation, column)
        else:
            self._step(steps.CONTENT if kind == "fixed" else _PLAIN[kind], column, size=size)

    def _nulls(self, column: ColumnMemory | None) -> None:
        self._step(steps.NULLS, column, nulls=_long(column))

    def _step(
        self,
        operation: int,
        column: ColumnMemory | None,
        *,
        size: int = 0,
        detail: int = 0,
        nulls: Sequence[ColumnMemory] = (),
    ) -> int:
        """Its number."""
        addresses = np.array([each.address for each in nulls], np.int64)
        self._kept.append(addresses)
        step = [0] * steps.STEP_PLACES
        step[steps.OPERATION] = operation
        step[steps.COLUMN] = _address(column)
        step[steps.SIZE] = size
        step[steps.DETAIL] = detail
        step[steps.NULL_COLUMNS] = int(addresses.ctypes.data)
        step[steps.NULL_COUNT] = len(nulls)
        self._steps.append(step)
        return len(self._steps) - 1


def _check(is_known: bool) -> None:
    if not is_known:
        raise NoColumn("these schemas are for the decoder of single records")


def _names(schema: Any) -> Mapping[str, Any]:
    return dict(schema.get("__named_schemas", {})) if isinstance(schema, dict) else {}


def _resolved(schema: Any, named: Mapping[str, Any]) -> Any:
    """What a name stands for."""
    if isinstance(schema, str):
        return named.get(schema, schema)
    if isinstance(schema, dict) and isinstance(schema["type"], dict | list):
        return _resolved(schema["type"], named)
    return schema


def _kind(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    return str(schema if isinstance(schema, str) else schema["type"])


def _logical(schema: Any) -> str | None:
    return schema.get("logicalType") if isinstance(schema, dict) else None


def _other_than_null(members: list[Any]) -> Any:
    present = [each for each in members if each != "null"]
    _check(len(present) == 1 and len(members) == 2)
    return present[0]


def _long(column: ColumnMemory | None) -> Sequence[ColumnMemory]:
    return () if column is None else column.as_long


def _address(column: ColumnMemory | None) -> int:
    return 0 if column is None else column.address
