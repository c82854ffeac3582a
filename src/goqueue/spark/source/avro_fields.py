"""Avro schemas as Spark types, and payloads as rows of them."""

import io
import json
from collections.abc import Callable
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
from goqueue.spark.option_names import InvalidOption

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


def parse_avro(schema: RegisteredSchema) -> Any:
    """What fastavro reads with. Logical types that Spark has no type for are read as they lie."""
    named: dict[str, Any] = {}
    for text in schema.references.values():
        fastavro.parse_schema(_without_unknown_logical(json.loads(text)), named_schemas=named)
    return fastavro.parse_schema(
        _without_unknown_logical(json.loads(schema.text)), named_schemas=named
    )


def avro_type(schema: Any) -> DataType:
    named: dict[str, Any] = dict(schema.get("__named_schemas", {})) if _is_dict(schema) else {}
    return _type_of(schema, named, ())


def avro_reader(
    chosen: Any, writer_of: Callable[[int], RegisteredSchema]
) -> Callable[[bytes, int], Any]:
    """Reads (payload, id of the schema it was written with) as the chosen schema."""

    @cache
    def written_with(schema_id: int) -> Any:
        return parse_avro(writer_of(schema_id))

    def read(payload: bytes, schema_id: int) -> Any:
        stream = io.BytesIO(payload)
        value = fastavro.schemaless_reader(stream, written_with(schema_id), chosen)
        if stream.read(1):
            raise ValueError("bytes are left over after the value")
        return value

    return read


def _type_of(schema: Any, named: dict[str, Any], path: tuple[str, ...]) -> DataType:
    if isinstance(schema, list):
        return _union_type(schema, named, path)
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]()
        if schema == "null":
            return StringType()
        if schema in path:
            raise InvalidOption(f"Avro type {schema} contains itself; Spark has no such type")
        return _type_of(named[schema], named, path)
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _type_of(kind, named, path)
    logical = schema.get("logicalType")
    if logical in _LOGICAL:
        return _LOGICAL[logical]()
    if logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if kind == "array":
        return ArrayType(_type_of(schema["items"], named, path))
    if kind == "map":
        return MapType(StringType(), _type_of(schema["values"], named, path))
    if kind in ("record", "error"):
        inner = (*path, schema["name"])
        return StructType(
            [
                StructField(field["name"], _type_of(field["type"], named, inner))
                for field in schema["fields"]
            ]
        )
    return _type_of(kind, named, path)


def _union_type(members: list[Any], named: dict[str, Any], path: tuple[str, ...]) -> DataType:
    present = [member for member in members if member != "null"]
    if len(present) == 1:
        return _type_of(present[0], named, path)
    names = frozenset(member if isinstance(member, str) else "" for member in present)
    if names in _WIDENED:
        return _PLAIN[_WIDENED[names]]()
    where = path[-1] if path else "the schema"
    raise InvalidOption(
        f"a union of {len(present)} types in {where} has no Spark type; read it with format=binary"
    )


def _without_unknown_logical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_unknown_logical(each) for each in schema]
    if not _is_dict(schema):
        return schema
    copied = {name: _without_unknown_logical(value) for name, value in schema.items()}
    logical = copied.get("logicalType")
    fits = logical in _LOGICAL or (
        logical == "decimal" and 0 < copied.get("precision", 0) <= _DECIMAL_MAX_DIGITS
    )
    if logical is not None and not fits:
        del copied["logicalType"]
    return copied


def _is_dict(schema: Any) -> bool:
    return isinstance(schema, dict)
