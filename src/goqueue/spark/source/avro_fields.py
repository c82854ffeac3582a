"""Avro schemas as Spark types, and payloads as rows of them.

A union of several types is a struct with a field for each, as Spark's own `from_avro` makes it. A
type that contains itself is repeated up to a depth; values that go deeper are refused, not cut.
"""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import fastavro
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.client.registry import RegisteredSchema
from goqueue.spark.source.avro_unions import chosen_member, untagged
from goqueue.spark.source.nesting import Nesting, nothing_left, too_deep

_PLAIN: Final[dict[str, type[DataType]]] = {
    "boolean": BooleanType,
    "int": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "bytes": BinaryType,
    "fixed": BinaryType,
    "string": StringType,
    "enum": StringType,
}
_LOGICAL: Final[dict[str, type[DataType]]] = {
    "date": DateType,
    "timestamp-millis": TimestampType,
    "timestamp-micros": TimestampType,
}
# Unions that one Spark type can hold.
_WIDENED: Final = {
    frozenset({"int", "long"}): "long",
    frozenset({"float", "double"}): "double",
}
_DECIMAL_MAX_DIGITS: Final = 38

# A value as fastavro reads it -> as Arrow takes it.
Shape = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """`shape` is None where values are taken as fastavro reads them."""

    type: DataType
    shape: Shape | None


def parse_avro(schema: RegisteredSchema) -> Any:
    """What fastavro reads with. Logical types that Spark has no type for are read as they lie."""
    named: dict[str, Any] = {}
    for text in schema.references.values():
        fastavro.parse_schema(_without_unknown_logical(json.loads(text)), named_schemas=named)
    return fastavro.parse_schema(
        _without_unknown_logical(json.loads(schema.text)), named_schemas=named
    )


def avro_column(schema: Any, max_depth: int) -> AvroColumn:
    named = dict(schema.get("__named_schemas", {})) if isinstance(schema, dict) else {}
    walk = _Walk(named, Nesting(max_depth))
    found = walk.part(schema, ())
    if found is None:
        raise nothing_left("the Avro schema")
    return AvroColumn(found.type, found.shape if walk.needs_shape else None)


def avro_reader(
    chosen: Any, shape: Shape | None, writer_of: Callable[[int], RegisteredSchema]
) -> Callable[[bytes, int], Any]:
    """Reads (payload, id of the schema it was written with) as the chosen schema."""

    @cache
    def written_with(schema_id: int) -> Any:
        return parse_avro(writer_of(schema_id))

    # Only a value with the name of its type tells which member of a union it is.
    is_tagged = shape is not None

    def read(payload: bytes, schema_id: int) -> Any:
        stream = io.BytesIO(payload)
        value = fastavro.schemaless_reader(
            stream, written_with(schema_id), chosen, return_named_type=is_tagged
        )
        if stream.read(1):
            raise ValueError("bytes are left over after the value")
        return value if shape is None else shape(value)

    return read


class _Walk:
    """Goes through a schema once, for the type and for how values come to it."""

    def __init__(self, named: Mapping[str, Any], nesting: Nesting) -> None:
        self._named = named
        self._nesting = nesting
        self.needs_shape = False

    def part(self, schema: Any, path: tuple[str, ...]) -> AvroColumn | None:
        """None where a type contains itself once too often."""
        if isinstance(schema, list):
            return self._union(schema, path)
        if isinstance(schema, str):
            if schema in _PLAIN:
                return AvroColumn(_PLAIN[schema](), None)
            if schema == "null":
                return AvroColumn(StringType(), None)
            return self.part(self._named[schema], path)
        kind = schema["type"]
        logical = schema.get("logicalType")
        if logical in _LOGICAL:
            return AvroColumn(_LOGICAL[logical](), None)
        if logical == "decimal":
            return AvroColumn(DecimalType(schema["precision"], schema.get("scale", 0)), None)
        if kind == "array":
            return self._array(schema["items"], path)
        if kind == "map":
            return self._map(schema["values"], path)
        if kind in ("record", "error"):
            return self._record(schema, path)
        return self.part(kind, path)

    def _record(self, schema: Any, path: tuple[str, ...]) -> AvroColumn | None:
        name = schema["name"]
        if not self._nesting.allows(name, path):
            return None
        fields: list[StructField] = []
        shapes: dict[str, Shape | None] = {}
        left_out: list[str] = []
        for field in schema["fields"]:
            self._nesting.count_field()
            found = self.part(field["type"], (*path, name))
            if found is None:
                left_out.append(field["name"])
                continue
            fields.append(StructField(field["name"], found.type))
            shapes[field["name"]] = found.shape
        if left_out and not fields:
            return None
        self.needs_shape |= bool(left_out)
        max_depth = self._nesting.max_depth

        def shape(value: Any) -> Any:
            for absent in left_out:
                if untagged(value[absent]):
                    raise too_deep(f"{name}.{absent}", max_depth)
            return {
                each: value[each] if inner is None else inner(value[each])
                for each, inner in shapes.items()
            }

        is_plain = not left_out and not any(shapes.values())
        return AvroColumn(StructType(fields), None if is_plain else shape)

    def _array(self, items: Any, path: tuple[str, ...]) -> AvroColumn | None:
        found = self.part(items, path)
        if found is None:
            return None
        inner = found.shape
        shape = None if inner is None else lambda value: [inner(each) for each in value]
        return AvroColumn(ArrayType(found.type), shape)

    def _map(self, values: Any, path: tuple[str, ...]) -> AvroColumn | None:
        found = self.part(values, path)
        if found is None:
            return None
        inner = found.shape
        shape = (
            None
            if inner is None
            else lambda value: {key: inner(each) for key, each in value.items()}
        )
        return AvroColumn(MapType(StringType(), found.type), shape)

    def _union(self, members: list[Any], path: tuple[str, ...]) -> AvroColumn | None:
        present = [member for member in members if member != "null"]
        if len(present) == 1:
            return self._nullable(present[0], path)
        names = frozenset(member if isinstance(member, str) else "" for member in present)
        if names in _WIDENED:
            return AvroColumn(_PLAIN[_WIDENED[names]](), None)
        self.needs_shape = True
        found = [self.part(member, path) for member in present]
        columns = {f"member{number}": each for number, each in enumerate(found)}
        whole = [self._named.get(each, each) if isinstance(each, str) else each for each in present]
        choose = chosen_member(whole)
        max_depth = self._nesting.max_depth

        def shape(value: Any) -> Any:
            if value is None:
                return None
            number = choose(value)
            column = found[number]
            if column is None:
                raise too_deep(f"member{number} of a union", max_depth)
            plain = untagged(value)
            return {f"member{number}": plain if column.shape is None else column.shape(plain)}

        fields = [StructField(name, each.type) for name, each in columns.items() if each]
        return AvroColumn(StructType(fields), shape) if fields else None

    def _nullable(self, member: Any, path: tuple[str, ...]) -> AvroColumn | None:
        found = self.part(member, path)
        if found is None or (isinstance(member, str) and member in _PLAIN):
            return found
        inner = found.shape

        def shape(value: Any) -> Any:
            plain = untagged(value)
            return plain if inner is None or plain is None else inner(plain)

        return AvroColumn(found.type, shape)


def _without_unknown_logical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_unknown_logical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    copied = {name: _without_unknown_logical(value) for name, value in schema.items()}
    logical = copied.get("logicalType")
    fits = logical in _LOGICAL or (
        logical == "decimal" and 0 < copied.get("precision", 0) <= _DECIMAL_MAX_DIGITS
    )
    if logical is not None and not fits:
        del copied["logicalType"]
    return copied
