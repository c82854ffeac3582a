"""What a producer of any language asks for by record headers: delay, priority, time to live.

To keep batches opaque, a batch is searched for the common prefix of these headers (some 40 µs per
MB) and decoded only when it is there. A compressed batch hides them: it is decoded where the
topic's `queue.headers.in.compressed` says so.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from goqueue.model.batch import BatchHeader, Buffer
from goqueue.model.byte_pattern import BytePattern
from goqueue.model.digits import number_in
from goqueue.model.errors import InvalidRecord
from goqueue.model.header_names import DELAY_MS, DELIVER_AT, PREFIX, PRIORITY, TTL_MS
from goqueue.model.queues.lanes import Lane
from goqueue.model.records import Header
from goqueue.model.topic_config import TopicConfig

_ANY_FEATURE: Final = BytePattern(PREFIX.encode())
_LANES: Final = {str(lane.value): lane for lane in Lane} | {
    lane.name.lower(): lane for lane in Lane
}


class Features(NamedTuple):
    deliver_at_ms: int | None = None
    lane: Lane = Lane.NORMAL
    ttl_ms: int | None = None


NONE: Final = Features()


def may_have_features(data: Buffer, header: BatchHeader, config: TopicConfig) -> bool:
    """Whether the batch must be decoded to know."""
    if header.compression:
        return config.queue_headers_in_compressed
    return _ANY_FEATURE.is_in(data)


def features_of(headers: Iterable[Header], *, now_ms: int, record_index: int = 0) -> Features:
    """Read the headers of one record; a value that makes no sense is refused by name."""
    deliver_at_ms: int | None = None
    lane = Lane.NORMAL
    ttl_ms: int | None = None
    for name, value in headers:
        if not name.startswith(PREFIX):
            continue
        if name == DELAY_MS:
            deliver_at_ms = now_ms + _number(name, value, record_index)
        elif name == DELIVER_AT:
            deliver_at_ms = _number(name, value, record_index)
        elif name == PRIORITY:
            lane = _lane(value, record_index)
        elif name == TTL_MS:
            ttl_ms = _number(name, value, record_index)
    return Features(deliver_at_ms, lane, ttl_ms)


def _number(name: str, value: bytes | None, record_index: int) -> int:
    text = (value or b"").decode("ascii", "replace").strip()
    number = number_in(text)
    if number is None:
        raise InvalidRecord(
            f"header {name}: {text!r} is not a whole number of milliseconds from 0 to 10^18",
            record_index,
        )
    return number


def _lane(value: bytes | None, record_index: int) -> Lane:
    text = (value or b"").decode("ascii", "replace").strip().lower()
    lane = _LANES.get(text)
    if lane is None:
        raise InvalidRecord(
            f"header {PRIORITY}: {text!r} is not 0 to 4 nor one of "
            f"{', '.join(lane.name.lower() for lane in Lane)}",
            record_index,
        )
    return lane
