"""Which offsets a query reads, and how they are shared out among tasks."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from goqueue.client.group_facts import PartitionKey
from goqueue.client.log_cluster import LogCluster, LogTopic
from goqueue.client.log_ranges import EARLIEST, LATEST, LogRange
from goqueue.model.errors import OffsetOutOfRange, UnknownTopic
from goqueue.spark.option_names import InvalidOption
from goqueue.spark.source.log_position import LogPosition, PositionKind
from goqueue.spark.source.options import SourceOptions, TopicChoice

Offsets = Mapping[PartitionKey, int]


def chosen_topics(cluster: LogCluster, choice: TopicChoice) -> dict[str, LogTopic]:
    """The topics with the partitions that are to be read; a pattern may match none."""
    if choice.pattern:
        return {
            name: topic
            for name, topic in cluster.topics().items()
            if re.fullmatch(choice.pattern, name)
        }
    if choice.partitions is None:
        return cluster.topics(choice.names)
    found = cluster.topics(choice.partitions)
    for name, partitions in choice.partitions.items():
        missing = set(partitions) - found[name].leaders.keys()
        if missing:
            raise UnknownTopic(
                f"assign: topic {name!r} has {len(found[name].leaders)} partitions and no "
                f"partition {min(missing)}"
            )
    return {
        name: replace(topic, leaders={p: topic.leaders[p] for p in choice.partitions[name]})
        for name, topic in found.items()
    }


def places_of(topics: Mapping[str, LogTopic]) -> list[PartitionKey]:
    return [(name, partition) for name, topic in topics.items() for partition in topic.leaders]


def log_ends(
    cluster: LogCluster, places: Iterable[PartitionKey], isolation: int
) -> tuple[dict[PartitionKey, int], dict[PartitionKey, int]]:
    """The first and the next offset of each partition, as a reader of this isolation sees them."""
    wanted = list(places)
    return (
        cluster.offsets(dict.fromkeys(wanted, EARLIEST), isolation=isolation),
        cluster.offsets(dict.fromkeys(wanted, LATEST), isolation=isolation),
    )


def resolve_start(
    cluster: LogCluster, options: SourceOptions, earliest: Offsets, latest: Offsets
) -> dict[PartitionKey, int]:
    """The offset to begin at in each partition."""
    found = _resolve(cluster, "startingOffsets", options, options.start, earliest, latest)
    for place, offset in found.items():
        if offset < earliest[place]:
            _out_of_range("startingOffsets", place, offset, earliest, latest, options)
        if offset > latest[place]:
            _out_of_range("startingOffsets", place, offset, earliest, latest, options)
    return {
        place: min(max(offset, earliest[place]), latest[place]) for place, offset in found.items()
    }


def resolve_end(
    cluster: LogCluster, options: SourceOptions, earliest: Offsets, latest: Offsets
) -> dict[PartitionKey, int]:
    """The offset that is no longer read in each partition."""
    found = _resolve(cluster, "endingOffsets", options, options.end, earliest, latest)
    for place, offset in found.items():
        if offset > latest[place]:
            _out_of_range("endingOffsets", place, offset, earliest, latest, options)
    return {place: min(offset, latest[place]) for place, offset in found.items()}


def _resolve(
    cluster: LogCluster,
    name: str,
    options: SourceOptions,
    position: LogPosition,
    earliest: Offsets,
    latest: Offsets,
) -> dict[PartitionKey, int]:
    match position.kind:
        case PositionKind.EARLIEST:
            return dict(earliest)
        case PositionKind.LATEST:
            return dict(latest)
        case PositionKind.OFFSETS:
            _check_places(name, position.by_place, earliest)
            named = {LATEST: latest, EARLIEST: earliest}
            return {
                place: named[offset][place] if offset in named else offset
                for place, offset in position.by_place.items()
            }
    if position.kind is PositionKind.TIME:
        times = dict.fromkeys(earliest, position.time_ms)
    else:
        _check_places(name, position.by_place, earliest)
        times = dict(position.by_place)
    found = cluster.offsets(times, isolation=options.isolation)
    late = sorted(place for place, offset in found.items() if offset < 0)
    if late and name.startswith("starting") and options.late_times_fail:
        place = late[0]
        raise InvalidOption(
            f"{place[0]}-{place[1]} has no record at {times[place]} ms or later; choose an earlier "
            "time, or startingOffsetsByTimestampStrategy=latest"
        )
    return {
        place: latest[place] if offset < 0 else min(offset, latest[place])
        for place, offset in found.items()
    }


def _check_places(name: str, given: Iterable[PartitionKey], there: Iterable[PartitionKey]) -> None:
    unknown = sorted(set(given) - set(there))
    if unknown:
        raise InvalidOption(
            f"{name}: {unknown[0][0]}-{unknown[0][1]} is not a partition that is read"
        )
    missing = sorted(set(there) - set(given))
    if missing:
        names = ", ".join(f"{topic}-{partition}" for topic, partition in missing[:5])
        raise InvalidOption(
            f"{name}: {names} is not mentioned; give every partition (-2 earliest, -1 latest)"
        )


def _out_of_range(
    name: str,
    place: PartitionKey,
    offset: int,
    earliest: Offsets,
    latest: Offsets,
    options: SourceOptions,
) -> None:
    if options.fail_on_data_loss:
        raise OffsetOutOfRange(
            f"{name}: {place[0]}-{place[1]} has offsets {earliest[place]} to {latest[place]}, "
            f"not {offset}; choose one of them, or set failOnDataLoss=false to read what is there"
        )


def make_ranges(topics: Mapping[str, LogTopic], start: Offsets, end: Offsets) -> list[LogRange]:
    """The ranges that are not empty."""
    return [
        LogRange(
            topic=place[0],
            topic_id=topics[place[0]].id,
            partition=place[1],
            start=start[place],
            end=end[place],
        )
        for place in sorted(start)
        if place in end and start[place] < end[place]
    ]


def split_ranges(
    ranges: list[LogRange], *, min_partitions: int, max_records: int
) -> list[LogRange]:
    """Cut ranges into near-equal parts: none above `max_records`, together `min_partitions`."""
    total = sum(each.end - each.start for each in ranges)
    parts = []
    for each in ranges:
        size = each.end - each.start
        count = 1
        if len(ranges) < min_partitions:
            count = -(-size * min_partitions // total)
        if max_records:
            count = max(count, -(-size // max_records))
        count = min(count, size)
        cuts = [each.start + size * number // count for number in range(count + 1)]
        parts += [replace(each, start=first, end=last) for first, last in pairwise(cuts)]
    return parts
