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

from goqueue.model.errors import GoQueueError
from goqueue.spark.plain_errors import plain_errors

if TYPE_CHECKING:
    from goqueue.spark.source.options import SourceOptions
    from goqueue.spark.source.range_reading import RowReading


@plain_errors
class GoQueueSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "goqueue"

    def schema(self) -> StructType:
        from goqueue.spark.source.field_decoding import field_types, plan_fields
        from goqueue.spark.source.row_schema import row_schema

        # Spark asks for the columns before it says whether they are streamed.
        options = self._source_options(streaming=None)
        return row_schema(options.columns, field_types(options, plan_fields(options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        from goqueue.spark.source.filter_bounds import PUSHES_FILTERS
        from goqueue.spark.source.reader import BatchReader, FilteringBatchReader

        kind = FilteringBatchReader if PUSHES_FILTERS in self.options else BatchReader
        return kind(*self._reading(schema, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's)
        from goqueue.spark.source.refused_stream import RefusedStream
        from goqueue.spark.source.stream_reader import StreamReader

        try:
            return StreamReader(*self._reading(schema, streaming=True))
        except GoQueueError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from goqueue.spark.sink.writer import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802 (Spark's)
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from goqueue.spark.sink.writer import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)

    def _reading(
        self, schema: StructType, *, streaming: bool
    ) -> "tuple[SourceOptions, RowReading]":
        from goqueue.spark.source.field_decoding import plan_columns
        from goqueue.spark.source.range_reading import RowReading

        options = self._source_options(streaming=streaming)
        plans = plan_columns(options, schema)
        return options, RowReading(options=options, schema=schema, plans=plans)

    def _source_options(self, *, streaming: bool | None) -> "SourceOptions":
        from goqueue.spark.source.filter_bounds import PUSHES_FILTERS
        from goqueue.spark.source.options import parse_source_options

        given = {name: text for name, text in self.options.items() if name != PUSHES_FILTERS}
        return parse_source_options(given, streaming=streaming)
