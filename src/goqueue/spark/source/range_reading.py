"""What a task does: fetch a range and make rows of it."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_ranges import EARLIEST, LogRange
from goqueue.client.log_reader import read_range
from goqueue.model.errors import OffsetOutOfRange, UnknownTopic, UnknownTopicId
from goqueue.spark.source.field_decoding import FieldPlan
from goqueue.spark.source.filter_bounds import NO_BOUNDS, FilterBounds
from goqueue.spark.source.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReading:
    """All that a task must know besides its range. Pickled."""

    options: SourceOptions
    schema: StructType
    plans: dict[str, FieldPlan]


def read_rows(
    reading: RowReading, wanted: LogRange, bounds: FilterBounds = NO_BOUNDS
) -> "Iterator[pa.RecordBatch]":
    options = reading.options
    with LogCluster(
        options.bootstrap_servers,
        patience_seconds=options.patience_seconds,
        was_reached=True,
        security=options.security,
    ) as cluster:
        rows = _counted_rows(cluster, reading, wanted, bounds)
        yield from _fetched_rows(cluster, reading, wanted, bounds) if rows is None else rows


def _counted_rows(
    cluster: LogCluster, reading: RowReading, wanted: LogRange, bounds: FilterBounds
) -> "Iterator[pa.RecordBatch] | None":
    """Rows that the broker need only count; None if it cannot, or if more is asked for."""
    from goqueue.spark.source.constant_rows import ConstantRows, are_constant

    if bounds.chooses_records or not are_constant(reading.schema.names):
        return None
    from goqueue.client.log_counts import count_range  # brings HTTP along

    count = count_range(cluster, wanted, isolation=reading.options.isolation)
    return None if count is None else ConstantRows(_arrow_schema(reading), wanted).rows(count)


def _fetched_rows(
    cluster: LogCluster, reading: RowReading, wanted: LogRange, bounds: FilterBounds
) -> "Iterator[pa.RecordBatch]":
    # Compiled code is loaded where rows are made, not on the driver.
    from goqueue.spark.native_code import load_compiled
    from goqueue.spark.source import record_scan
    from goqueue.spark.source.arrow_rows import RowMaker
    from goqueue.spark.worker_memory import spare_loaded_code

    load_compiled(record_scan.__file__, record_scan.load_scan)
    spare_loaded_code()
    options = reading.options
    subject = f"{wanted.topic}-{wanted.partition}"
    decoders = {name: plan.decoder(subject) for name, plan in reading.plans.items()}
    maker = RowMaker(_arrow_schema(reading), wanted, decoders, bounds)
    left: LogRange | None = wanted
    while left is not None:
        rest = left
        try:
            for fetched in read_range(
                cluster, rest, isolation=options.isolation, fetch_bytes=options.fetch_bytes
            ):
                yield from maker.rows(fetched)
                if fetched.batches:
                    next_offset = fetched.batches[-1].header.next_offset
                    rest = replace(rest, start=max(rest.start, next_offset))
            left = None
        except (OffsetOutOfRange, UnknownTopic, UnknownTopicId) as error:
            if options.fail_on_data_loss:
                raise
            log.warning("%s; going on without it, as failOnDataLoss=false says", error)
            is_there = isinstance(error, OffsetOutOfRange)
            left = _what_is_left(cluster, rest, options) if is_there else None


def _arrow_schema(reading: RowReading) -> "pa.Schema":
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(reading.schema, timezone="UTC")


def _what_is_left(cluster: LogCluster, wanted: LogRange, options: SourceOptions) -> LogRange | None:
    found = cluster.offsets({wanted.place: EARLIEST}, isolation=options.isolation)
    earliest = found[wanted.place]
    # An offset beyond the log's end is as gone as one before its start.
    if not wanted.start < earliest < wanted.end:
        return None
    return replace(wanted, start=earliest)
