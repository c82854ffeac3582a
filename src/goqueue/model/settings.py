"""Settings: name, type, default, limits, doc. Bad values are refused by name.

A setting is written once, as a field of the dataclass that holds it parsed:

    class BrokerConfig:
        kafka_port: int = setting(9092, minimum=0, maximum=65535, doc="Port for Kafka clients.")

`settings_of` makes the table from it, in which it is called `kafka.port`.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from goqueue.model.errors import InvalidConfig

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class SettingType(Enum):
    """The types DescribeConfigs knows, by Kafka's numbers (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


Value = bool | int | float | str | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    name: str
    type: SettingType
    default: Value
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    # What it is set to is told to nobody: not by descriptions, errors or logs.
    is_secret: bool = False
    # Of lists: what stands between their items.
    separator: str = ","

    def parse(self, text: str) -> Value:
        """Turn `text` into a value, or raise `InvalidConfig` naming the setting and its limits."""
        try:
            value = self._read(text.strip())
        except ValueError as error:
            said = "what is given" if self.is_secret else repr(text)
            raise InvalidConfig(
                f"{self.name}: {said} is not a valid {self.type.name.lower()}"
            ) from (None if self.is_secret else error)
        self._check(value)
        return value

    def _read(self, text: str) -> Value:
        if self.type is SettingType.LIST:
            return tuple(item.strip() for item in text.split(self.separator) if item.strip())
        return _PARSERS[self.type](text)

    def clamped(self, text: str) -> str:
        """The text of a stored value; earlier releases took numbers of any size."""
        limits = _TYPE_LIMITS.get(self.type)
        if limits is None:
            return text
        try:
            return str(max(limits[0], min(limits[1], int(text))))
        except ValueError:
            return text

    def format(self, value: Value) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return self.separator.join(value)
        return str(value)

    def _check(self, value: Value) -> None:
        if self.choices:
            for item in value if isinstance(value, tuple) else (value,):
                if item not in self.choices:
                    raise InvalidConfig(
                        f"{self.name}: {item!r} is not one of {', '.join(self.choices)}"
                    )
        if isinstance(value, int | float) and not isinstance(value, bool):
            if self.minimum is not None and value < self.minimum:
                raise InvalidConfig(f"{self.name}: {value} is below the minimum {self.minimum}")
            if self.maximum is not None and value > self.maximum:
                raise InvalidConfig(f"{self.name}: {value} is above the maximum {self.maximum}")
            low, high = _TYPE_LIMITS.get(self.type, (-math.inf, math.inf))
            if not low <= value <= high or value in (-math.inf, math.inf):
                kind = self.type.name.lower()
                raise InvalidConfig(f"{self.name}: {value} is not a valid {kind}: {low} to {high}")


# Clients speak of numbers with 32 and 64 bits, and so do the files.
_TYPE_LIMITS: Final[dict[SettingType, tuple[int, int]]] = {
    SettingType.INT: (-INT32_MAX - 1, INT32_MAX),
    SettingType.LONG: (-INT64_MAX - 1, INT64_MAX),
}


def _parse_bool(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


_PARSERS: Final[dict[SettingType, Callable[[str], Value]]] = {
    SettingType.BOOLEAN: _parse_bool,
    SettingType.STRING: str,
    SettingType.INT: int,
    SettingType.LONG: int,
    SettingType.DOUBLE: float,
}


class SettingTable(Mapping[str, Setting]):
    """Settings by name."""

    def __init__(self, settings: Iterable[Setting]) -> None:
        self._by_name = {setting.name: setting for setting in settings}

    def __getitem__(self, name: str) -> Setting:
        return self._by_name[name]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def parse(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """Parse every given text; an unknown name is refused like a bad value."""
        values: dict[str, Value] = {}
        for name, text in texts.items():
            if name not in self._by_name:
                raise InvalidConfig(f"{name}: no such setting")
            values[name] = self._by_name[name].parse(text)
        return values

    def clamped(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Stored texts with their numbers in the range of their types."""
        return {
            name: self._by_name[name].clamped(text) if name in self._by_name else text
            for name, text in texts.items()
        }


T = TypeVar("T")

_DECLARED: Final = "setting"


def setting(
    default: T,
    *,
    doc: str,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    is_secret: bool = False,
    separator: str = ",",
) -> T:
    """A field of a dataclass that is a setting. Whole numbers without a maximum are LONG."""
    declared = Setting(
        name="",
        type=_type_of(default, maximum),
        default=str(default) if isinstance(default, Path) else cast(Value, default),
        doc=doc,
        minimum=minimum,
        maximum=maximum,
        choices=choices,
        is_secret=is_secret,
        separator=separator,
    )
    return field(default=default, repr=not is_secret, metadata={_DECLARED: declared})


def _type_of(default: object, maximum: float | None) -> SettingType:
    if isinstance(default, bool):
        return SettingType.BOOLEAN
    if isinstance(default, int):
        return SettingType.LONG if maximum is None else SettingType.INT
    if isinstance(default, float):
        return SettingType.DOUBLE
    return SettingType.LIST if isinstance(default, tuple) else SettingType.STRING


def settings_of(config: type[Any]) -> SettingTable:
    """The settings among the fields of a dataclass: its own first, then those of its bases."""
    own = inspect.get_annotations(config)
    in_order = sorted(fields(config), key=lambda each: each.name not in own)
    return SettingTable(
        replace(each.metadata[_DECLARED], name=setting_name(each.name))
        for each in in_order
        if _DECLARED in each.metadata
    )


def setting_name(field_name: str) -> str:
    return field_name.replace("_", ".")


def field_name(setting_name: str) -> str:
    return setting_name.replace(".", "_")


def field_values(values: Mapping[str, Value]) -> dict[str, Any]:
    """Values by the names of fields instead of settings."""
    return {field_name(name): value for name, value in values.items()}
