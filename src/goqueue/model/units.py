"""Durations and sizes as people write them: `250ms`, `5s`, `1h30m`, `7d`; `64KB`, `1GB`, `1GiB`."""

import re
from collections.abc import Mapping
from typing import Final

_UNIT_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
    **dict.fromkeys(("sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("hour", "hours"), 3_600_000),
    **dict.fromkeys(("day", "days"), 86_400_000),
    **dict.fromkeys(("week", "weeks"), 604_800_000),
}
# As disks and network lines are sold; the binary ones have an i (IEC 80000-13).
_UNIT_BYTES: Final[Mapping[str, int]] = {
    "b": 1,
    **{f"{prefix}b": 1_000**power for power, prefix in enumerate("kmgt", start=1)},
    **{f"{prefix}ib": 1_024**power for power, prefix in enumerate("kmgt", start=1)},
}
# Longer numbers are not meant; of hundreds of digits, Python's floats make infinity.
_NUMBER: Final = r"(\d{1,18}(?:\.\d{1,18})?)"
_DURATION_PART: Final = re.compile(rf"\s*{_NUMBER}\s*([a-z]+)", re.ASCII)
_SIZE: Final = re.compile(rf"{_NUMBER}\s*([a-z]+)", re.ASCII)


def duration_ms(text: str) -> int | None:
    """Milliseconds of a duration; None if it is none, such as a number without a unit."""
    text = text.strip().lower()
    position = 0
    total_ms = 0.0
    while position < len(text):
        part = _DURATION_PART.match(text, position)
        if part is None or part[2] not in _UNIT_MS:
            return None
        total_ms += float(part[1]) * _UNIT_MS[part[2]]
        position = part.end()
    return round(total_ms) if text else None


def size_bytes(text: str) -> int | None:
    """Bytes of a size; None if it is none, such as a number without a unit."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNIT_BYTES:
        return None
    return round(float(found[1]) * _UNIT_BYTES[found[2]])


def in_plain_units(setting_name: str, text: str) -> str:
    """The number that a setting's name asks for: `7d` for `retention.ms` is 604800000."""
    number = None
    if setting_name.endswith(".ms"):
        number = duration_ms(text)
    elif setting_name.endswith(".bytes"):
        number = size_bytes(text)
    return text if number is None else str(number)
