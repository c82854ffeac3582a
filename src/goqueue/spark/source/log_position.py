"""Where reading begins or ends, as users write it: a word, offsets, or times."""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from goqueue.client.group_facts import PartitionKey
from goqueue.client.log_ranges import EARLIEST
from goqueue.model.settings import INT64_MAX
from goqueue.spark.option_names import InvalidOption

_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class PositionKind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    """Per partition; EARLIEST and LATEST stand for themselves."""
    TIME = "time"
    """One time for all partitions."""
    TIMES = "times"
    """A time per partition."""


@dataclass(frozen=True, slots=True)
class LogPosition:
    kind: PositionKind
    by_place: Mapping[PartitionKey, int] = field(default_factory=dict)
    time_ms: int = 0


FROM_EARLIEST: Final = LogPosition(PositionKind.EARLIEST)
FROM_LATEST: Final = LogPosition(PositionKind.LATEST)


def parse_offsets(name: str, text: str) -> LogPosition:
    """`earliest`, `latest`, or `{"topic": {"0": 23, "1": -2}}`."""
    word = text.lower()
    if word == "earliest":
        return FROM_EARLIEST
    if word == "latest":
        return FROM_LATEST
    example = '{"orders": {"0": 23, "1": -2}}'
    by_place = _by_place(name, text, f"earliest, latest, or JSON such as {example}")
    for (topic, partition), offset in by_place.items():
        if not EARLIEST <= offset <= INT64_MAX:
            raise InvalidOption(
                f"{name}: offset {offset} of {topic}-{partition} is not possible; "
                "-2 is the earliest, -1 the latest"
            )
    return LogPosition(PositionKind.OFFSETS, by_place)


def parse_times(name: str, text: str) -> LogPosition:
    """`{"topic": {"0": 1700000000000}}`, in ms."""
    by_place = _by_place(name, text, 'JSON such as {"orders": {"0": 1700000000000}}')
    for (topic, partition), time_ms in by_place.items():
        if not 0 <= time_ms <= INT64_MAX:
            raise InvalidOption(f"{name}: {time_ms} ms of {topic}-{partition} is not a time")
    return LogPosition(PositionKind.TIMES, by_place)


def parse_time(name: str, text: str) -> LogPosition:
    """Milliseconds since 1970, or a time as ISO 8601 writes it (UTC unless it says otherwise)."""
    if text.isdigit():
        time_ms = int(text)
    else:
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            raise InvalidOption(
                f"{name}: {text!r} is neither milliseconds since 1970 nor a time such as "
                "2026-01-31T12:00:00Z"
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        time_ms = (moment - _EPOCH) // _MILLISECOND
    if not 0 <= time_ms <= INT64_MAX:
        raise InvalidOption(f"{name}: {text!r} is before 1970 or beyond any time")
    return LogPosition(PositionKind.TIME, time_ms=time_ms)


def parse_partitions(name: str, text: str) -> dict[str, list[int]]:
    """`{"topic": [0, 1]}`."""
    parsed = _json_object(name, text, 'JSON such as {"orders": [0, 1]}')
    for topic, partitions in parsed.items():
        if not isinstance(partitions, list) or not all(
            isinstance(each, int) and each >= 0 for each in partitions
        ):
            raise InvalidOption(f"{name}: topic {topic!r} needs a list of partition numbers")
    return parsed


def _by_place(name: str, text: str, expected: str) -> dict[PartitionKey, int]:
    found: dict[PartitionKey, int] = {}
    for topic, partitions in _json_object(name, text, expected).items():
        if not isinstance(partitions, dict):
            raise InvalidOption(f"{name}: topic {topic!r} needs an object; write {expected}")
        for partition, number in partitions.items():
            if not partition.isdigit() or not isinstance(number, int):
                raise InvalidOption(
                    f"{name}: {partition!r}: {number!r} of topic {topic!r} is not a partition and "
                    f"a whole number; write {expected}"
                )
            found[topic, int(partition)] = number
    return found


def _json_object(name: str, text: str, expected: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict) or not parsed:
        raise InvalidOption(f"{name}: {text!r} is not understood; write {expected}")
    return parsed


def place_text(place: PartitionKey) -> str:
    return f"{place[0]}-{place[1]}"
