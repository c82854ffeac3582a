"""Batch reading: plan ranges on the driver, read one in each task."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_reader import LogRange
from goqueue.spark.range_planning import (
    chosen_topics,
    log_ends,
    make_ranges,
    places_of,
    resolve_end,
    resolve_start,
    split_ranges,
)
from goqueue.spark.range_reading import read_rows
from goqueue.spark.source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):
    """One task's share."""

    def __init__(self, value: LogRange) -> None:
        super().__init__(value)


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        return [RangePartition(each) for each in self._ranges()]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        # Spark makes one partition of None where `partitions` returned none.
        if partition.value is None:
            return iter(())
        return read_rows(self._options, self._schema, partition.value)

    def _ranges(self) -> list[LogRange]:
        options = self._options
        with LogCluster(options.bootstrap_servers) as cluster:
            topics = chosen_topics(cluster, options.choice)
            earliest, latest = log_ends(cluster, places_of(topics), options.isolation)
            start = resolve_start(cluster, options, earliest, latest)
            end = resolve_end(cluster, options, earliest, latest)
        return split_ranges(
            make_ranges(topics, start, end),
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
        )
