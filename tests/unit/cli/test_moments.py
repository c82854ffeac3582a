"""Times as people type them."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.moments import format_moment, parse_moment_ms

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("now", NOW_MS),
        ("2h ago", NOW_MS - 2 * HOUR_MS),
        ("2h", NOW_MS - 2 * HOUR_MS),
        ("2 hours ago", NOW_MS - 2 * HOUR_MS),
        ("1d12h ago", NOW_MS - 36 * HOUR_MS),
        ("1.5 h ago", NOW_MS - HOUR_MS * 3 // 2),
        ("90s ago", NOW_MS - 90_000),
        ("250ms ago", NOW_MS - 250),
        ("9999w ago", 0),
        ("1700000000000", NOW_MS),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-14T23:13:20.000+01:00", NOW_MS),
        ("2023-11-14", int(datetime(2023, 11, 14).timestamp() * 1000)),
    ],
)
def test_accepted(text: str, expected_ms: int) -> None:
    assert parse_moment_ms(text, now_ms=NOW_MS) == expected_ms


@pytest.mark.parametrize("text", ["", "ago", "yesterdayish", "5 parsecs ago", "2h 3", "-5"])
def test_anything_else_says_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; write 2h ago"):
        parse_moment_ms(text, now_ms=NOW_MS)


@given(moment_ms=st.integers(0, 4_000_000_000_000))
def test_what_is_printed_is_accepted(moment_ms: int) -> None:
    assert parse_moment_ms(format_moment(moment_ms), now_ms=NOW_MS) == moment_ms
