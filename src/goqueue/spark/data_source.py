"""`format("goqueue")`: what Spark knows of GoQueue.

Spark imports this to list its sources, so all else is imported when it is needed.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from goqueue.spark.source_options import SourceOptions


class GoQueueSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "goqueue"

    def schema(self) -> StructType:
        from goqueue.spark.row_schema import field_type, row_schema
        from goqueue.spark.source_options import parse_source_options

        # Spark asks for the columns before it says whether they are streamed.
        options = parse_source_options(self.options, streaming=None)
        fields = {
            name: field_type(given.format)
            for name, given in (("key", options.key), ("value", options.value))
        }
        return row_schema(options.columns, fields)

    def reader(self, schema: StructType) -> DataSourceReader:
        from goqueue.spark.filter_bounds import filters_are_pushed
        from goqueue.spark.reader import BatchReader, FilteringBatchReader

        kind = FilteringBatchReader if filters_are_pushed() else BatchReader
        return kind(self._source_options(streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's)
        from goqueue.spark.stream_reader import StreamReader

        return StreamReader(self._source_options(streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from goqueue.spark.writer import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802 (Spark's)
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from goqueue.spark.writer import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)

    def _source_options(self, *, streaming: bool) -> "SourceOptions":
        from goqueue.spark.source_options import parse_source_options

        return parse_source_options(self.options, streaming=streaming)
