"""Which columns a writer takes, checked before anything runs."""

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DayTimeIntervalType,
    IntegralType,
    NullType,
    StringType,
    StructType,
    TimestampType,
)

from goqueue.spark.option_names import InvalidOption

_Check = Callable[[DataType], bool]


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, BinaryType | StringType)


def _is_whole(kind: DataType) -> bool:
    return isinstance(kind, IntegralType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return (
        [field.name.lower() for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and _is_bytes(fields[1].dataType)
    )


_COLUMNS: Final[Mapping[str, tuple[str, _Check]]] = {
    "key": ("binary or string", _is_bytes),
    "value": ("binary or string", _is_bytes),
    "headers": ("array<struct<key: string, value: binary>>", _is_headers),
    "topic": ("string", lambda kind: isinstance(kind, StringType)),
    "partition": ("int", _is_whole),
    "timestamp": (
        "timestamp, or bigint in milliseconds",
        lambda kind: isinstance(kind, TimestampType) or _is_whole(kind),
    ),
    "priority": ("int or string", lambda kind: _is_whole(kind) or isinstance(kind, StringType)),
    "delay": (
        "bigint in milliseconds, or interval day to second",
        lambda kind: _is_whole(kind) or isinstance(kind, DayTimeIntervalType),
    ),
    "deliverAt": (
        "timestamp, or bigint in milliseconds",
        lambda kind: isinstance(kind, TimestampType) or _is_whole(kind),
    ),
}
_BY_LOWER: Final = {name.lower(): name for name in _COLUMNS}
# The source has them, and a topic gives its own.
_IGNORED: Final = frozenset({"offset", "timestamptype"})


def check_schema(schema: StructType, *, has_topic: bool) -> None:
    """Refuse a schema by the first column that is wrong."""
    given = set()
    for field in schema.fields:
        plain = field.name.lower()
        if plain in _IGNORED:
            continue
        name = _BY_LOWER.get(plain)
        if name is None:
            raise InvalidOption(
                f"column {field.name!r} is not one that a record has; put it into value, such as "
                "with to_json(struct(*)), or drop it. Known columns: " + ", ".join(_COLUMNS)
            )
        wanted, check = _COLUMNS[name]
        if not check(field.dataType) and not (
            isinstance(field.dataType, NullType) and name != "value"
        ):
            raise InvalidOption(
                f"column {field.name!r} is {field.dataType.simpleString()}; it must be {wanted}"
            )
        given.add(name)
    if "value" not in given:
        raise InvalidOption(
            "there is no column 'value'; make one, such as with to_json(struct(*)) AS value"
        )
    if not has_topic and "topic" not in given:
        raise InvalidOption("no topic: give the option topic, or a column topic of type string")
