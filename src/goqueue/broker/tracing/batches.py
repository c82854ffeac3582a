"""`traceparent` headers in record batches, found without decoding what has none."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from goqueue.model.batch import RECORD_BYTES_MIN, Buffer
from goqueue.model.byte_pattern import BytePattern
from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.records import Header, open_records
from goqueue.model.tracing.traceparent import HEADER, TraceParent, parse_traceparent

# As a record has it: the name with its length and the length of a value of version 00 (55 bytes),
# both as zigzag varints. What producers write into values does not look like this.
_VALUE_BYTES: Final = 55
_HEADER_IN_RECORD: Final = BytePattern(
    bytes([len(HEADER) << 1]) + HEADER.encode() + bytes([_VALUE_BYTES << 1])
)
_FLAGS_AT: Final = _HEADER_IN_RECORD.size_bytes + _VALUE_BYTES - 1
# The last digit of the flags is odd where the sampled bit is set.
_SAMPLED_DIGITS: Final = frozenset(b"13579bdf")
# Headers looked at in one batch for one that is sampled: the first few tell what a producer does.
_LOOKS_MAX: Final = 16
# Unpacked on the event loop for the headers of one batch, in a millisecond. A few KB can unpack to
# gigabytes.
UNPACKED_MAX_BYTES: Final = 1024 * 1024
# As many records as fit: those decoded in a second have a budget of their own.
_BOUNDS: Final = DecodingBounds(UNPACKED_MAX_BYTES, UNPACKED_MAX_BYTES // RECORD_BYTES_MIN)


def carries_traceparent(data: Buffer) -> bool:
    """Whether there is one in sight; compression hides them."""
    return _HEADER_IN_RECORD.is_in(data)


def asks_to_be_traced(batch: Buffer) -> bool:
    """Whether one of the first few headers has the sampled flag."""
    for place in islice(_HEADER_IN_RECORD.places_in(batch), _LOOKS_MAX):
        if place + _FLAGS_AT >= len(batch):
            return False
        if batch[place + _FLAGS_AT] in _SAMPLED_DIGITS:
            return True
    return False


def parents_in(batch: Buffer) -> Iterator[tuple[int, TraceParent | None]]:
    """Offset of every record, with what its header says; decodes the batch.

    Raises `UnpackedTooLarge` for more than is decoded on the event loop.
    """
    for record in open_records(batch, _BOUNDS):
        yield record.offset, parent_of(record.headers)


def parent_of(headers: "list[Header] | tuple[Header, ...]") -> TraceParent | None:
    for name, value in headers:
        if name == HEADER:
            return parse_traceparent(value)
    return None
