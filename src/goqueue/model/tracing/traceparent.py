"""The `traceparent` header of W3C Trace Context (https://www.w3.org/TR/trace-context/)."""

import re
from typing import Final, NamedTuple

HEADER: Final = "traceparent"

_LAYOUT: Final = re.compile(
    rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL
)
_NO_TRACE: Final = b"0" * 32
_NO_SPAN: Final = b"0" * 16
# Section 3.2.2.1: version ff is invalid, and version 00 has nothing after the flags.
_INVALID_VERSION: Final = b"ff"
_FIRST_VERSION: Final = b"00"
_SAMPLED: Final = 0x01
# A later version may be longer; nobody needs more than this.
_LENGTH_MAX: Final = 512


class TraceParent(NamedTuple):
    trace_id: str
    parent_id: str
    is_sampled: bool

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.parent_id}-{'01' if self.is_sampled else '00'}"


def parse_traceparent(value: bytes | None) -> TraceParent | None:
    """What the header says, or None where the specification asks to ignore it."""
    if value is None or len(value) > _LENGTH_MAX:
        return None
    found = _LAYOUT.fullmatch(value.strip())
    if found is None:
        return None
    version, trace_id, parent_id, flags, rest = found.groups()
    if version == _INVALID_VERSION or (version == _FIRST_VERSION and rest is not None):
        return None
    if trace_id == _NO_TRACE or parent_id == _NO_SPAN:
        return None
    return TraceParent(trace_id.decode(), parent_id.decode(), bool(int(flags, 16) & _SAMPLED))
