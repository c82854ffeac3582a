"""JSON Schemas as Spark types, and documents as rows of them.

What Spark has no type for, such as a choice of several types, is left as JSON text.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from goqueue.client.registry import RegisteredSchema
from goqueue.model.settings import INT64_MAX

# Deeper than any table has columns; a schema that refers to itself ends here, too.
_MAX_DEPTH: Final = 16
_PLAIN: Final[dict[str, type[DataType]]] = {
    "string": StringType,
    "integer": LongType,
    "number": DoubleType,
    "boolean": BooleanType,
}


def json_type(schema: RegisteredSchema) -> DataType:
    references = {name: json.loads(text) for name, text in schema.references.items()}
    root = json.loads(schema.text)
    return _type_of(root, root, references, 0)


def json_reader(chosen: DataType) -> Callable[[bytes], Any]:
    def read(payload: bytes) -> Any:
        return _shaped(msgspec.json.decode(payload), chosen, "value")

    return read


def _type_of(schema: Any, root: Any, references: dict[str, Any], depth: int) -> DataType:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return StringType()
    if "$ref" in schema:
        target, owner = _referred(str(schema["$ref"]), root, references)
        return _type_of(target, owner, references, depth + 1)
    kind = _single_type(schema)
    if kind in _PLAIN:
        return _PLAIN[kind]()
    if kind == "array" and isinstance(schema.get("items"), dict):
        return ArrayType(_type_of(schema["items"], root, references, depth + 1))
    if kind != "object":
        return StringType()
    properties = schema.get("properties")
    if properties:
        return StructType(
            [
                StructField(name, _type_of(each, root, references, depth + 1))
                for name, each in properties.items()
            ]
        )
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        return MapType(StringType(), _type_of(others, root, references, depth + 1))
    return StringType()


def _single_type(schema: dict[str, Any]) -> str:
    """The one type besides null; none for a choice."""
    if any(name in schema for name in ("oneOf", "anyOf", "allOf", "not")):
        return ""
    given = schema.get("type", "object" if "properties" in schema else "")
    kinds = [kind for kind in (given if isinstance(given, list) else [given]) if kind != "null"]
    if set(kinds) == {"integer", "number"}:
        return "number"
    return kinds[0] if len(kinds) == 1 else ""


def _referred(pointer: str, root: Any, references: dict[str, Any]) -> tuple[Any, Any]:
    """(what is meant, the document it stands in)"""
    name, _, path = pointer.partition("#")
    owner = references.get(name) if name else root
    target = owner
    for part in filter(None, path.split("/")):
        key = part.replace("~1", "/").replace("~0", "~")
        target = target.get(key) if isinstance(target, dict) else None
    return target, owner


def _shaped(value: Any, kind: DataType, path: str) -> Any:
    """The value as Arrow takes it; a value of another type is an error that names its place."""
    if value is None:
        return None
    match kind:
        case StructType() if isinstance(value, dict):
            return {
                field.name: _shaped(value.get(field.name), field.dataType, f"{path}.{field.name}")
                for field in kind.fields
            }
        case ArrayType() if isinstance(value, list):
            return [_shaped(each, kind.elementType, f"{path}[]") for each in value]
        case MapType() if isinstance(value, dict):
            return [(k, _shaped(v, kind.valueType, f"{path}.{k}")) for k, v in value.items()]
        case StringType():
            return value if isinstance(value, str) else json.dumps(value)
        case BooleanType() if isinstance(value, bool):
            return value
        case LongType() if _is_whole(value):
            return int(value)
        case DoubleType() if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    raise ValueError(f"{path} is {type(value).__name__}, not {kind.simpleString()}")


def _is_whole(value: Any) -> bool:
    # 1.0 is an integer in JSON Schema.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and value == int(value) and -INT64_MAX - 1 <= value <= INT64_MAX
