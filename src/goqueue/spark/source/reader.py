"""Batch reading: plan ranges on the driver, read one in each task."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_ranges import LogRange
from goqueue.spark.plain_errors import plain_errors
from goqueue.spark.source.filter_bounds import NO_BOUNDS, FilterBounds, bounds_of
from goqueue.spark.source.options import SourceOptions
from goqueue.spark.source.range_planning import (
    chosen_topics,
    log_ends,
    make_ranges,
    places_of,
    resolve_end,
    resolve_start,
    split_ranges,
)
from goqueue.spark.source.range_reading import RowReading, read_rows

if TYPE_CHECKING:
    import pyarrow as pa


@plain_errors
class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, reading: RowReading) -> None:
        self._options = options
        self._reading = reading
        self._bounds = NO_BOUNDS

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with LogCluster(
            options.bootstrap_servers,
            patience_seconds=options.patience_seconds,
            security=options.security,
        ) as cluster:
            ranges = plan_ranges(cluster, options, self._bounds)
        return [InputPartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        # Spark makes one partition of None where `partitions` returned none.
        if partition.value is None:
            return iter(())
        return read_rows(self._reading, partition.value, self._bounds)


@plain_errors
class FilteringBatchReader(BatchReader):
    """For a scan that shares its plan with no other; see `goqueue.spark.plans`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        bounds = bounds_of(filters)
        # A typed key is another value than what is stored.
        has_stored_keys = not self._options.key.needs_registry
        self._bounds = bounds if has_stored_keys else replace(bounds, keys=None)
        return filters


def plan_ranges(
    cluster: LogCluster, options: SourceOptions, bounds: FilterBounds
) -> list[LogRange]:
    """The ranges of the tasks, in the order of topics and partitions."""
    topics = chosen_topics(cluster, options.choice)
    earliest, latest = log_ends(cluster, places_of(topics), options.isolation)
    start = resolve_start(cluster, options, earliest, latest)
    end = resolve_end(cluster, options, earliest, latest)
    start = {
        place: max(offset, bounds.first_offset)
        for place, offset in start.items()
        if bounds.allow(*place)
    }
    end = {place: min(offset, bounds.end_offset) for place, offset in end.items()}
    if bounds.since_ms is not None:
        since = cluster.offsets(dict.fromkeys(start, bounds.since_ms), isolation=options.isolation)
        # No record is that young: nothing is left of the range.
        start = {
            place: end[place] if since[place] < 0 else max(offset, since[place])
            for place, offset in start.items()
        }
    return split_ranges(
        make_ranges(topics, start, end),
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
    )
