"""Streaming: each trigger reads from where the last one ended to what is there now, or a limit.

Spark keeps one reader per query in a process of its own, which asks for offsets, and pickles
another for the tasks, which only reads.
"""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from goqueue.client.log_cluster import LogCluster
from goqueue.spark.plain_errors import plain_errors
from goqueue.spark.source.options import SourceOptions
from goqueue.spark.source.range_reading import RowReading, read_rows
from goqueue.spark.source.stream_offsets import StreamOffsets
from goqueue.spark.source.stream_planning import StreamPlanner

if TYPE_CHECKING:
    import pyarrow as pa


@plain_errors
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, reading: RowReading) -> None:
        self._options = options
        self._reading = reading
        self._cluster: LogCluster | None = None
        self._target: StreamOffsets | None = None
        """Where a query of what is available now ends."""
        self._seen: StreamOffsets | None = None
        self._last_batch_at: float | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name, as below)
        return self._planner.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._planner.available()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        planner = self._planner
        self._seen = planner.available()
        reached = StreamOffsets.from_json(start)
        if self._may_wait() and planner.behind(reached, self._seen) < self._least:
            return start
        end = planner.next_end(reached, self._target or self._seen, limit).to_json()
        if end != start:
            self._last_batch_at = time.monotonic()
        return end

    @property
    def _least(self) -> int:
        return self._options.min_offsets_per_trigger

    def _may_wait(self) -> bool:
        """For more records. The first batch does not, nor a query of what is available now."""
        if not self._least or self._target is not None or self._last_batch_at is None:
            return False
        waited_ms = (time.monotonic() - self._last_batch_at) * 1000
        return waited_ms < self._options.max_trigger_delay_ms

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Also tells the listener that publishes lag where to, and for which group."""
        if self._seen is None:
            return None
        return self._seen.to_json() | {
            "bootstrap.servers": self._options.bootstrap_servers,
            "group.id": self._options.group_id,
            "groupIdPrefix": self._options.group_prefix,
            "profile": self._options.profile,
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = self._planner.ranges(StreamOffsets.from_json(start), StreamOffsets.from_json(end))
        return [InputPartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        if partition.value is None:
            return iter(())
        return read_rows(self._reading, partition.value)

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()

    @property
    def _planner(self) -> StreamPlanner:
        if self._cluster is None:
            self._cluster = LogCluster(
                self._options.bootstrap_servers,
                patience_seconds=self._options.patience_seconds,
                security=self._options.security,
            )
        return StreamPlanner(self._cluster, self._options)
