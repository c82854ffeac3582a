"""What a task does: fetch a range and make rows of it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_reader import LogRange, read_range
from goqueue.spark.source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa


def read_rows(
    options: SourceOptions, schema: StructType, wanted: LogRange
) -> "Iterator[pa.RecordBatch]":
    # Compiled code is loaded where rows are made, not on the driver.
    from pyspark.sql.pandas.types import to_arrow_schema

    from goqueue.spark.arrow_rows import RowMaker

    maker = RowMaker(to_arrow_schema(schema, timezone="UTC"), wanted, {})
    with LogCluster(options.bootstrap_servers) as cluster:
        fetches = read_range(
            cluster, wanted, isolation=options.isolation, fetch_bytes=options.fetch_bytes
        )
        for fetched in fetches:
            yield from maker.rows(fetched)
