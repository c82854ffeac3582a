"""Durations and sizes as people write them."""

import pytest

from goqueue.model.units import duration_ms, in_plain_units, size_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("250ms", 250),
        ("5s", 5_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        (" 2 Days ", 172_800_000),
        ("0.5s", 500),
        ("5", None),
        ("", None),
        ("-5s", None),
        ("5 parsecs", None),
        ("5s later", None),
        ("9" * 400 + "d", None),
        ("1." + "9" * 400 + "d", None),
    ],
)
def test_durations(text: str, expected: int | None) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("64KB", 64_000),
        ("1GB", 1_000_000_000),
        ("1GiB", 1_073_741_824),
        ("1.5 mib", 1_572_864),
        ("2tb", 2_000_000_000_000),
        ("7b", 7),
        ("7", None),
        ("GB", None),
        ("1GB1MB", None),
        ("-1GB", None),
        ("9" * 400 + "GB", None),
    ],
)
def test_sizes(text: str, expected: int | None) -> None:
    assert size_bytes(text) == expected


def test_settings_get_the_unit_of_their_name() -> None:
    assert in_plain_units("retention.ms", "7d") == "604800000"
    assert in_plain_units("topic.segment.bytes", "1GB") == "1000000000"
    for name, text in (
        ("retention.ms", "604800000"),
        ("retention.ms", "-1"),
        ("retention.ms", "1GB"),
        ("segment.bytes", "7d"),
        ("cleanup.policy", "7d"),
    ):
        assert in_plain_units(name, text) == text
