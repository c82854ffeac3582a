"""Whether a field's default is a value of the field's type (specification, "Complex Types")."""

from collections.abc import Iterable
from typing import TypeGuard

from goqueue.model.schemas.formats import InvalidSchema
from goqueue.schema_formats.avro.json_text import write_json
from goqueue.schema_formats.avro.schema_types import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Primitive,
    Record,
    Union,
)

# How far defaults may lead to the defaults of inner records; a person follows a few at most.
MAX_DEFAULT_LEVELS = 64
# How much of a wrong default is shown.
_SHOWN_CHARACTERS = 80

_INTEGER_LIMITS = {"int": 1 << 31, "long": 1 << 63}
_FLOATS = ("float", "double")


class _Misfit(Exception):
    """What is wrong with a default, to be told together with the field's place."""


def number_in_text(avro_type: AvroType, default: Json) -> Json:
    """Java's Avro takes a number in quotes for a float or a double, also NaN and Infinity."""
    if avro_type.kind in _FLOATS and isinstance(default, str):
        try:
            return float(default)
        except ValueError:
            return default
    return default


class DefaultCheck:
    """Checks each field once, inner records' before those that lead to them."""

    def __init__(self) -> None:
        self._sound: set[int] = set()
        self._under_way: set[int] = set()
        # Types and values by identity. Unions inside unions would otherwise be tried over and
        # over, as often as their branches multiply.
        self._tried: dict[tuple[int, int], bool] = {}

    def check(self, fields: Iterable[Field]) -> None:
        for field in fields:
            try:
                self._check_field(field, 0)
            except _Misfit as misfit:
                raise InvalidSchema(f"{field.place}/default: {misfit}") from None

    def _check_field(self, field: Field, levels: int) -> None:
        if not field.has_default or id(field) in self._sound:
            return
        if id(field) in self._under_way:
            raise _Misfit(f"the default of field {field.name!r} would contain itself")
        if levels > MAX_DEFAULT_LEVELS:
            raise _Misfit(f"defaults lead to other defaults over {MAX_DEFAULT_LEVELS} records")
        self._under_way.add(id(field))
        self._check_value(field.type, field.default, levels)
        self._under_way.discard(id(field))
        self._sound.add(id(field))

    def _check_value(self, avro_type: AvroType, value: Json, levels: int) -> None:
        match avro_type:
            case Primitive(kind=kind):
                fits = _fits_primitive(kind, value)
            case Enum(symbols=symbols):
                fits = value in symbols
            case Fixed(size_bytes=size):
                fits = _is_bytes(value) and len(value) == size
            case Union(branches=branches):
                fits = any(self._is_fit(branch, value, levels) for branch in branches)
            case Array(items=items):
                fits = isinstance(value, list)
                for element in value if isinstance(value, list) else ():
                    self._check_value(items, element, levels)
            case Map(values=values):
                fits = isinstance(value, dict)
                for element in value.values() if isinstance(value, dict) else ():
                    self._check_value(values, element, levels)
            case Record():
                fits = isinstance(value, dict)
                if isinstance(value, dict):
                    self._check_record(avro_type, value, levels)
        if not fits:
            raise _Misfit(f"{_shown(value)} is no value of type {_named(avro_type)}")

    def _check_record(self, record: Record, value: dict[str, Json], levels: int) -> None:
        for field in record.fields:
            if field.name in value:
                self._check_value(field.type, value[field.name], levels)
            elif not field.has_default:
                raise _Misfit(
                    f"{_shown(value)} lacks field {field.name!r} of record {record.name}, "
                    "which has no default of its own"
                )
            else:
                self._check_field(field, levels + 1)

    def _is_fit(self, avro_type: AvroType, value: Json, levels: int) -> bool:
        tried = (id(avro_type), id(value))
        if tried not in self._tried:
            before = set(self._under_way)
            try:
                self._check_value(avro_type, value, levels)
                self._tried[tried] = True
            except _Misfit:
                self._under_way = before
                self._tried[tried] = False
        return self._tried[tried]


def _fits_primitive(kind: str, value: Json) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if (limit := _INTEGER_LIMITS.get(kind)) is not None:
        return isinstance(value, int) and -limit <= value < limit
    if kind in _FLOATS:
        return isinstance(value, int | float)
    if kind == "bytes":
        return _is_bytes(value)
    return isinstance(value, str) if kind == "string" else value is None and kind == "null"


def _is_bytes(value: Json) -> TypeGuard[str]:
    """Bytes are written as text whose characters 0 to 255 are the bytes."""
    return isinstance(value, str) and all(character <= "\xff" for character in value)


def _shown(value: Json) -> str:
    text = write_json(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _named(avro_type: AvroType) -> str:
    if isinstance(avro_type, Union):
        return "union of " + ", ".join(_named(branch) for branch in avro_type.branches)
    if isinstance(avro_type, Enum | Fixed | Record):
        return f"{avro_type.kind} {avro_type.name}"
    return avro_type.kind
