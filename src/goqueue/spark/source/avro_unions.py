"""Which member of a union a value belongs to, by what fastavro tells of it.

Named types (records, enums, fixed) come with their name. Of the others a union has at most one of
each, so their Python types tell them apart; an int beside a long counts as a long, and a float
beside a double as a double.
"""

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

# Tried in this order: a bool is an int to Python, a datetime a date.
_BY_TYPE: Final[tuple[tuple[type, tuple[str, ...]], ...]] = (
    (bool, ("boolean",)),
    (int, ("long", "int")),
    (float, ("double", "float")),
    (str, ("string", "enum")),
    (Decimal, ("decimal",)),
    (datetime.datetime, ("timestamp-millis", "timestamp-micros")),
    (datetime.date, ("date",)),
    (bytes, ("bytes", "fixed")),
    (list, ("array",)),
)


def untagged(value: Any) -> Any:
    """Without the name of its type."""
    return value[1] if isinstance(value, tuple) else value


def chosen_member(members: Sequence[Any]) -> Callable[[Any], int]:
    """The number of the member that a value has; `members` are without null."""
    by_name = {each["name"]: n for n, each in enumerate(members) if _is_named(each)}
    by_kind = {_kind(each): n for n, each in enumerate(members)}
    records = [(n, _field_names(each)) for n, each in enumerate(members) if _is_record(each)]

    def choose(value: Any) -> int:
        # The writer's name; an alias of the reader's type is known by its kind.
        if isinstance(value, tuple) and value[0] in by_name:
            return by_name[value[0]]
        plain = untagged(value)
        if isinstance(plain, dict):
            fitting = [number for number, names in records if names == plain.keys()]
            return fitting[0] if fitting else by_kind["map"]
        for kind, names in _BY_TYPE:
            if isinstance(plain, kind):
                return next(by_kind[name] for name in names if name in by_kind)
        raise ValueError(f"no member of the union holds a {type(plain).__name__}")

    return choose


def _kind(member: Any) -> str:
    if isinstance(member, str):
        return member
    return str(member.get("logicalType") or member["type"])


def _is_named(member: Any) -> bool:
    return isinstance(member, dict) and "name" in member


def _is_record(member: Any) -> bool:
    return isinstance(member, dict) and member["type"] in ("record", "error")


def _field_names(record: Any) -> set[str]:
    return {field["name"] for field in record["fields"]}
