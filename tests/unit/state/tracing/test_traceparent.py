"""W3C Trace Context, as the specification has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.tracing.traceparent import TraceParent, parse_traceparent

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def test_the_example_of_the_specification() -> None:
    assert parse_traceparent(f"00-{TRACE}-{SPAN}-01".encode()) == (TRACE, SPAN, True)
    assert parse_traceparent(f"00-{TRACE}-{SPAN}-00".encode()) == (TRACE, SPAN, False)


@pytest.mark.parametrize(
    ("value", "is_sampled"),
    [
        # Other flags are for later; only the lowest bit says sampled (3.2.2.5).
        (f"00-{TRACE}-{SPAN}-ff", True),
        (f"00-{TRACE}-{SPAN}-02", False),
        # A later version may have more behind the flags (4.3).
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
    ],
)
def test_what_later_versions_may_send(value: str, is_sampled: bool) -> None:
    found = parse_traceparent(value.encode())
    assert found is not None
    assert found.is_sampled is is_sampled


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"00",
        f"00-{TRACE}-{SPAN}".encode(),
        f"00-{TRACE}-{SPAN}-01-more".encode(),
        f"cc-{TRACE}-{SPAN}-01.more".encode(),
        f"ff-{TRACE}-{SPAN}-01".encode(),
        f"00-{TRACE.upper()}-{SPAN}-01".encode(),
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"00-{TRACE[1:]}-{SPAN}-01".encode(),
        f"cc-{TRACE}-{SPAN}-01-{'x' * 1000}".encode(),
        b"\xff\x00 not text",
    ],
)
def test_what_is_to_be_ignored(value: bytes | None) -> None:
    assert parse_traceparent(value) is None


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_round_trip(trace_id: int, span_id: int, is_sampled: bool) -> None:
    parent = TraceParent(f"{trace_id:032x}", f"{span_id:016x}", is_sampled)
    assert parse_traceparent(str(parent).encode()) == parent


@given(st.binary(max_size=80))
def test_no_bytes_are_too_strange(value: bytes) -> None:
    parse_traceparent(value)
