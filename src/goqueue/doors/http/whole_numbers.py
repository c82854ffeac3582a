"""Integers in request bodies, as JSON Schema has them: `3.0` is one, `"3"` and `3.5` are not.

msgspec's `int` refuses `3.0`, which the API document allows and some clients' encoders write.
All limits are below 2**53, so a float holds them exactly. The API document calls them integers.
"""

from typing import Annotated, Final, overload

from msgspec import Meta

from goqueue.model.settings import INT32_MAX

# 9999-12-31, the last day that ISO 8601 writes with four digits.
TIMESTAMP_MAX_MS: Final = 253_402_300_799_999
# Kafka's protocol has 16 bits for a replication factor.
_INT16_MAX: Final = 2**15 - 1

PartitionCount = Annotated[float, Meta(ge=1, le=INT32_MAX, multiple_of=1)]
PartitionNumber = Annotated[float, Meta(ge=0, le=INT32_MAX, multiple_of=1)]
ReplicationFactor = Annotated[float, Meta(ge=1, le=_INT16_MAX, multiple_of=1)]
Priority = Annotated[float, Meta(ge=0, le=4, multiple_of=1)]
DurationMs = Annotated[float, Meta(ge=0, le=TIMESTAMP_MAX_MS, multiple_of=1)]
TimestampMs = Annotated[float, Meta(ge=0, le=TIMESTAMP_MAX_MS, multiple_of=1)]


@overload
def whole(value: float) -> int: ...
@overload
def whole(value: None) -> None: ...
def whole(value: float | None) -> int | None:
    return None if value is None else int(value)
