"""Points in time as people type them."""

import re
from datetime import datetime
from typing import Final

from goqueue.model.units import duration_ms

ACCEPTED: Final = "2h ago, 1d12h ago, now, 2030-01-31T08:15:00Z or milliseconds since 1970"


def parse_moment_ms(text: str, *, now_ms: int) -> int:
    """Milliseconds since 1970 of `text`; `ValueError` says what is accepted."""
    cleaned = text.strip().lower()
    if cleaned == "now":
        return now_ms
    if re.fullmatch(r"\d+", cleaned, re.ASCII):
        return int(cleaned)
    before_ms = duration_ms(cleaned.removesuffix("ago").strip())
    if before_ms is not None:
        return max(0, now_ms - before_ms)
    try:
        # Without a zone it is local time: what the user's clock and `ls -l` show.
        return max(0, round(datetime.fromisoformat(text.strip()).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time; write {ACCEPTED}") from None


def parse_duration_ms(text: str) -> int:
    """Milliseconds of `5s`, `1h30m` and the like; `ValueError` says what is accepted."""
    found_ms = duration_ms(text)
    if found_ms is None:
        raise ValueError(f"{text!r} is not a duration; write 250ms, 5s, 1h30m or 2 days")
    return found_ms


def format_moment(timestamp_ms: int) -> str:
    """ISO 8601 in local time with its offset, to the millisecond."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000).astimezone()
    return moment.isoformat(timespec="milliseconds")
