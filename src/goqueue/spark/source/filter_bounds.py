"""What filters of a query say about the ranges to read.

Spark applies every filter again to the rows, so a bound may let through too much, but never too
little. For that reason no filter ends a range by time: a producer's timestamps need not ascend, and
a record after the first late one may be early again. Tasks hold such a filter, and one of keys,
against each record before it becomes a row.
"""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from goqueue.model.settings import INT64_MAX

# An option that `goqueue.spark.plans` gives to a scan with filters: nobody else uses its plan.
PUSHES_FILTERS: Final = "goqueue.pushes.filters"
# Keys are compared one by one.
_MAX_KEYS: Final = 64
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterBounds:
    """Offsets from `first_offset` up to `end_offset`; None where nothing is said."""

    first_offset: int = 0
    end_offset: int = INT64_MAX
    since_ms: int | None = None
    # Not included.
    until_ms: int | None = None
    # As they are stored.
    keys: frozenset[bytes] | None = None
    partitions: frozenset[int] | None = None
    topics: frozenset[str] | None = None

    def allow(self, topic: str, partition: int) -> bool:
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    @property
    def chooses_records(self) -> bool:
        """By more than their offsets, which are in the ranges."""
        return not (self.since_ms is None and self.until_ms is None and self.keys is None)


NO_BOUNDS: Final = FilterBounds()


def bounds_of(filters: Iterable[Filter]) -> FilterBounds:
    bounds = NO_BOUNDS
    for each in filters:
        match each:
            case EqualTo((name,), value) | EqualNullSafe((name,), value):
                bounds = _narrow(bounds, name, (value,), value, value)
            case In((name,), values) if values and None not in values:
                bounds = _narrow(bounds, name, values, min(values), max(values))
            case GreaterThan((name,), value) | GreaterThanOrEqual((name,), value):
                bounds = _narrow(bounds, name, None, value, None)
            case LessThan((name,), value) | LessThanOrEqual((name,), value):
                bounds = _narrow(bounds, name, None, None, value)
    return bounds


def _narrow(
    bounds: FilterBounds, name: str, values: tuple[Any, ...] | None, least: Any, most: Any
) -> FilterBounds:
    """`values` are all that are possible, else None; `least` and `most` are inclusive."""
    match name:
        case "offset":
            first = bounds.first_offset if least is None else max(bounds.first_offset, int(least))
            end = bounds.end_offset if most is None else min(bounds.end_offset, int(most) + 1)
            return replace(bounds, first_offset=first, end_offset=end)
        case "timestamp":
            if isinstance(least, datetime.datetime):
                since_ms = max(_milliseconds(least), bounds.since_ms or 0)
                bounds = replace(bounds, since_ms=since_ms)
            if isinstance(most, datetime.datetime):
                # The whole millisecond that the bound lies in.
                until_ms = min(_milliseconds(most) + 1, bounds.until_ms or INT64_MAX)
                bounds = replace(bounds, until_ms=until_ms)
            return bounds
        case "key" if values is not None and len(values) <= _MAX_KEYS and _are_stored(values):
            keys = frozenset(_stored(value) for value in values)
            return replace(bounds, keys=_both(bounds.keys, keys))
        case "partition" if values is not None:
            given = frozenset(int(value) for value in values if value is not None)
            return replace(bounds, partitions=_both(bounds.partitions, given))
        case "topic" if values is not None:
            names = frozenset(str(value) for value in values if value is not None)
            return replace(bounds, topics=_both(bounds.topics, names))
    return bounds


def _milliseconds(moment: datetime.datetime) -> int:
    return ((moment if moment.tzinfo else moment.astimezone(datetime.UTC)) - _EPOCH) // _MILLISECOND


def _are_stored(keys: tuple[Any, ...]) -> bool:
    return all(isinstance(key, str | bytes | bytearray) for key in keys)


def _stored(key: Any) -> bytes:
    return key.encode() if isinstance(key, str) else bytes(key)


def _both(known: frozenset[Any] | None, given: frozenset[Any]) -> frozenset[Any]:
    return given if known is None else known & given
