"""Trace ids that follow from what a message is, so that nothing has to be written into it.

Whoever sees the message later (a fetch, an acknowledgement, after a restart) comes to the same id.
"""

from hashlib import blake2b
from typing import Final
from uuid import UUID

from goqueue.model.tracing.spans import TraceContext
from goqueue.model.tracing.traceparent import TraceParent

_TRACE_ID_DIGITS: Final = 32
_CONTEXT_BYTES: Final = 24
_SPAN_ID_BYTES: Final = 8
# Ids for one purpose never meet those for another.
_FOR_MESSAGES: Final = b"goqueue.message"
_FOR_DELAYED: Final = b"goqueue.delayed"
_FOR_DELIVERIES: Final = b"goqueue.deliver"
_FOR_PARTITIONS: Final = b"goqueue.sampled"


def partition_key(topic_id: UUID, partition: int) -> int:
    """64 bits that stand for a partition, also when its topic is made anew under the same name."""
    text = b"%b/%d" % (topic_id.bytes, partition)
    return int.from_bytes(blake2b(text, digest_size=8, person=_FOR_PARTITIONS).digest(), "big")


def message_context(key: int, offset: int, parent: TraceParent | None = None) -> TraceContext:
    """Of the message at an offset of a partition; `parent` is what its header says."""
    return _context(b"%d/%d" % (key, offset), _FOR_MESSAGES, parent)


def delayed_context(
    key: int, delayed_id: str, parent: TraceParent | None = None
) -> tuple[TraceContext, int]:
    """Of a message that has no offset yet, with 64 bits that decide whether it is sampled."""
    text = f"{key}/{delayed_id}".encode()
    chance = blake2b(text, digest_size=8, person=_FOR_PARTITIONS).digest()
    return _context(text, _FOR_DELAYED, parent), int.from_bytes(chance, "big")


def delivery_span_id(key: int, offset: int, group: str, delivery_count: int) -> str:
    """Of one delivery to a group: what becomes of it hangs below."""
    text = f"{key}/{offset}/{delivery_count}/{group}".encode()
    return blake2b(text, digest_size=_SPAN_ID_BYTES, person=_FOR_DELIVERIES).hexdigest()


def _context(text: bytes, purpose: bytes, parent: TraceParent | None) -> TraceContext:
    digits = blake2b(text, digest_size=_CONTEXT_BYTES, person=purpose).hexdigest()
    trace_id, span_id = digits[:_TRACE_ID_DIGITS], digits[_TRACE_ID_DIGITS:]
    if parent is None:
        return TraceContext(trace_id, span_id)
    return TraceContext(parent.trace_id, span_id, parent.parent_id)
