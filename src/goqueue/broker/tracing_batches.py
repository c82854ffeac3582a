"""`traceparent` headers in record batches, found without decoding what has none."""

from collections.abc import Iterator
from typing import Final

import stringzilla
from aiokafka.record.default_records import DefaultRecordBatch

from goqueue.model.batch import Buffer
from goqueue.model.errors import CorruptBatch
from goqueue.model.records import Header
from goqueue.state.traces.traceparent import HEADER, TraceParent, parse_traceparent

# As a record has it: the name with its length and the length of a value of version 00 (55 bytes),
# both as zigzag varints. What producers write into values does not look like this.
_VALUE_BYTES: Final = 55
_NEEDLE: Final = bytes([len(HEADER) << 1]) + HEADER.encode() + bytes([_VALUE_BYTES << 1])
_FLAGS_AT: Final = len(_NEEDLE) + _VALUE_BYTES - 1
# The last digit of the flags is odd where the sampled bit is set.
_SAMPLED_DIGITS: Final = frozenset(b"13579bdf")
# Headers looked at in one batch for one that is sampled: the first few tell what a producer does.
_LOOKS_MAX: Final = 16


def carries_traceparent(data: Buffer) -> bool:
    """Whether there is one in sight; compression hides them."""
    return bool(stringzilla.find(data, _NEEDLE) >= 0)


def asks_to_be_traced(batch: Buffer) -> bool:
    """Whether one of the first few headers has the sampled flag."""
    position = 0
    for _ in range(_LOOKS_MAX):
        position = stringzilla.find(batch, _NEEDLE, position)
        if position < 0 or position + _FLAGS_AT >= len(batch):
            return False
        if batch[position + _FLAGS_AT] in _SAMPLED_DIGITS:
            return True
        position += len(_NEEDLE)
    return False


def parents_in(batch: Buffer) -> Iterator[tuple[int, TraceParent | None]]:
    """Offset of every record, with what its header says; decodes the batch."""
    try:
        for record in DefaultRecordBatch(bytes(batch)):
            yield record.offset, parent_of(record.headers)
    except Exception as error:  # the decoder raises whatever its codecs raise
        raise CorruptBatch(f"batch cannot be decoded: {error}") from error


def parent_of(headers: "list[Header] | tuple[Header, ...]") -> TraceParent | None:
    for name, value in headers:
        if name == HEADER:
            return parse_traceparent(value)
    return None
