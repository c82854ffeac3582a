"""Points in time as people type them."""

import re
from datetime import datetime
from typing import Final

_UNIT_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_LONG_UNITS: Final = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("week", "weeks"), "w"),
}
_DURATION_PART: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)", re.ASCII)
ACCEPTED: Final = "2h ago, 1d12h ago, now, 2030-01-31T08:15:00Z or milliseconds since 1970"


def parse_moment_ms(text: str, *, now_ms: int) -> int:
    """Milliseconds since 1970 of `text`; `ValueError` says what is accepted."""
    cleaned = text.strip().lower()
    if cleaned == "now":
        return now_ms
    if re.fullmatch(r"\d+", cleaned, re.ASCII):
        return int(cleaned)
    duration_ms = _parse_duration_ms(cleaned.removesuffix("ago").strip())
    if duration_ms is not None:
        return max(0, now_ms - duration_ms)
    try:
        # Without a zone it is local time: what the user's clock and `ls -l` show.
        return max(0, round(datetime.fromisoformat(text.strip()).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time; write {ACCEPTED}") from None


def parse_duration_ms(text: str) -> int:
    """Milliseconds of `5s`, `1h30m` and the like; `ValueError` says what is accepted."""
    duration_ms = _parse_duration_ms(text.strip().lower())
    if duration_ms is None:
        raise ValueError(f"{text!r} is not a duration; write 250ms, 5s, 1h30m or 2 days")
    return duration_ms


def format_moment(timestamp_ms: int) -> str:
    """ISO 8601 in local time with its offset, to the millisecond."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000).astimezone()
    return moment.isoformat(timespec="milliseconds")


def _parse_duration_ms(text: str) -> int | None:
    position = 0
    total_ms = 0.0
    while position < len(text):
        part = _DURATION_PART.match(text, position)
        if part is None:
            return None
        unit = _LONG_UNITS.get(part[2], part[2])
        if unit not in _UNIT_MS:
            return None
        total_ms += float(part[1]) * _UNIT_MS[unit]
        position = part.end()
    return round(total_ms) if text else None
