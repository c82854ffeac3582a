"""`format("goqueue")`: what Spark knows of GoQueue."""

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from goqueue.spark.reader import BatchReader
from goqueue.spark.row_schema import field_type, row_schema
from goqueue.spark.source_options import parse_source_options


class GoQueueSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "goqueue"

    def schema(self) -> StructType:
        options = parse_source_options(self.options, streaming=False)
        fields = {
            name: field_type(given.format)
            for name, given in (("key", options.key), ("value", options.value))
        }
        return row_schema(options.columns, fields)

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(parse_source_options(self.options, streaming=False), schema)
