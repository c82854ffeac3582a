"""Decides how far a stream goes next, and what to do when its log has changed behind it."""

import uuid
from collections.abc import Mapping
from functools import partial

from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, ReadMaxRows

from goqueue.client.group_facts import PartitionKey
from goqueue.client.layouts import splits_of
from goqueue.client.log_cluster import LogCluster, LogTopic
from goqueue.client.log_ranges import EARLIEST, LATEST, LogRange
from goqueue.client.log_sizes import mean_record_bytes
from goqueue.model.errors import GoQueueError, UnknownTopic
from goqueue.model.layouts import withheld
from goqueue.spark.source.options import SourceOptions
from goqueue.spark.source.range_planning import (
    chosen_topics,
    log_ends,
    make_ranges,
    places_of,
    resolve_start,
    split_ranges,
)
from goqueue.spark.source.stream_offsets import StreamOffsets

_WHAT_TO_DO = (
    "start the query with a new checkpoint to read what is there, or set failOnDataLoss=false to "
    "go on without what is lost"
)


class DataLoss(GoQueueError):
    """What the stream has still to read is no longer there."""

    code = "data_loss"


class StreamPlanner:
    def __init__(self, cluster: LogCluster, options: SourceOptions) -> None:
        self._cluster = cluster
        self._options = options

    def initial(self) -> StreamOffsets:
        topics = self._topics()
        earliest, latest = log_ends(self._cluster, places_of(topics), self._options.isolation)
        start = resolve_start(self._cluster, self._options, earliest, latest)
        return StreamOffsets(start, _ids(topics))

    def available(self) -> StreamOffsets:
        """Everything that can be read now."""
        topics = self._topics()
        wanted = dict.fromkeys(places_of(topics), LATEST)
        latest = self._cluster.offsets(wanted, isolation=self._options.isolation)
        return StreamOffsets(latest, _ids(topics))

    def next_end(
        self, reached: StreamOffsets, available: StreamOffsets, limit: ReadLimit
    ) -> StreamOffsets:
        """Where the next batch ends: at `available`, or before it by the limit."""
        self._check_topics(reached, available)
        start = self._starts(_already_read(reached, available), available)
        # A target chosen earlier may lie behind what a restarted query has read since.
        goal = {
            place: max(offset, start[place]) for place, offset in available.next_offsets.items()
        }
        goal |= {place: start[place] for place in self._withheld(start, available)}
        if isinstance(limit, ReadMaxRows):
            goal = limited(start, goal, limit.max_rows)
        elif isinstance(limit, ReadMaxBytes):
            goal = limited(start, goal, self._rows_of(limit.max_bytes, start, goal))
        return StreamOffsets(goal, available.topic_ids)

    def behind(self, reached: StreamOffsets, available: StreamOffsets) -> int:
        """How many offsets there are to read."""
        start = self._starts(_already_read(reached, available), available)
        return sum(
            max(0, offset - start[place]) for place, offset in available.next_offsets.items()
        )

    def ranges(self, start: StreamOffsets, end: StreamOffsets) -> list[LogRange]:
        topics = self._topics()
        there = {
            name: topic for name, topic in topics.items() if end.topic_ids.get(name) == topic.id
        }
        gone = end.topic_ids.keys() - there.keys()
        if gone:
            self._lost(f"topic {min(gone)!r} was deleted before the stream had read it")
        places = [place for place in end.next_offsets if place[0] in there]
        known = [place for place in places if place[1] in there[place[0]].leaders]
        earliest, latest = log_ends(self._cluster, known, self._options.isolation)
        reached = _already_read(start, end)
        begin, finish = {}, {}
        for place in known:
            # A partition that was found while the query ran is read from its first offset on.
            first = reached.get(place, earliest[place])
            begin[place], finish[place] = self._clipped(
                place, (first, end.next_offsets[place]), (earliest[place], latest[place])
            )
        return split_ranges(
            make_ranges(there, begin, finish),
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )

    def _clipped(
        self, place: PartitionKey, wanted: tuple[int, int], there: tuple[int, int]
    ) -> tuple[int, int]:
        """What is there of the wanted offsets; less than that is a loss of data."""
        (start, end), (earliest, latest) = wanted, there
        if start < earliest or end > latest:
            self._lost(
                f"{place[0]}-{place[1]} has offsets {earliest} to {latest}, and the stream has "
                f"still to read {start} to {end}"
            )
        return max(start, earliest), min(end, latest)

    def _topics(self) -> dict[str, LogTopic]:
        try:
            return chosen_topics(self._cluster, self._options.choice)
        except UnknownTopic:
            if self._options.fail_on_data_loss or not self._options.choice.names:
                raise
            there = self._cluster.topics()
            return {name: there[name] for name in self._options.choice.names if name in there}

    def _check_topics(self, reached: StreamOffsets, available: StreamOffsets) -> None:
        for topic, known_id in reached.topic_ids.items():
            current = available.topic_ids.get(topic)
            if current is None:
                self._lost(f"topic {topic!r} was deleted")
            elif current != known_id:
                self._lost(f"topic {topic!r} was deleted and made again")

    def _starts(
        self, reached: Mapping[PartitionKey, int], end: StreamOffsets
    ) -> dict[PartitionKey, int]:
        """Where the next batch begins: new partitions at the first offset that they have."""
        new = [place for place in end.next_offsets if place not in reached]
        try:
            first = self._cluster.offsets(
                dict.fromkeys(new, EARLIEST), isolation=self._options.isolation
            )
        except UnknownTopic:  # deleted just now; `ranges` will say so
            first = dict.fromkeys(new, 0)
        return {**reached, **first}

    def _withheld(
        self, start: Mapping[PartitionKey, int], available: StreamOffsets
    ) -> list[PartitionKey]:
        """Partitions that were split off others which the stream has still to read: a key's
        messages are in the batches in the order they were sent."""

        def is_through(topic: str, parent: int, end: int) -> bool:
            return start.get((topic, parent), 0) >= end

        splits = splits_of(self._cluster, available.topic_ids.keys())
        return [
            (topic, partition)
            for topic, made in splits.items()
            for partition in withheld(made, partial(is_through, topic))
            if (topic, partition) in start
        ]

    def _rows_of(
        self, max_bytes: int, start: Mapping[PartitionKey, int], goal: Mapping[PartitionKey, int]
    ) -> int:
        """The log is not read to plan it, so bytes are reckoned by the mean size of a record."""
        behind = [place for place in goal if goal[place] > start[place]]
        means = mean_record_bytes(self._cluster, behind)
        rows = _size(start, goal)
        size = sum((goal[place] - start[place]) * means[place] for place in behind)
        return rows if size <= max_bytes else max(1, int(rows * max_bytes / size))

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{what}; {_WHAT_TO_DO}")


def _already_read(reached: StreamOffsets, end: StreamOffsets) -> dict[PartitionKey, int]:
    """The offsets of partitions that are not new, and not of a topic made again."""
    return {
        place: reached.next_offsets[place]
        for place in end.next_offsets
        if place in reached.next_offsets
        and reached.topic_ids.get(place[0]) == end.topic_ids[place[0]]
    }


def limited(
    start: Mapping[PartitionKey, int], goal: Mapping[PartitionKey, int], max_rows: int
) -> dict[PartitionKey, int]:
    """At most `max_rows` in all, shared out by how far each partition is behind."""
    total = _size(start, goal)
    if total <= max_rows:
        return dict(goal)
    end = {place: start[place] + (goal[place] - start[place]) * max_rows // total for place in goal}
    # What rounding left over goes to the partitions that are furthest behind.
    rest = max_rows - _size(start, end)
    for place in sorted(goal, key=lambda each: goal[each] - end[each], reverse=True)[:rest]:
        end[place] += 1
    return end


def _size(start: Mapping[PartitionKey, int], end: Mapping[PartitionKey, int]) -> int:
    return sum(end[place] - start[place] for place in end)


def _ids(topics: Mapping[str, LogTopic]) -> dict[str, uuid.UUID]:
    return {name: topic.id for name, topic in topics.items()}
