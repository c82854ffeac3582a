"""The columns of a source as Spark's types."""

from collections.abc import Mapping, Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def row_schema(columns: Sequence[str], fields: Mapping[str, DataType]) -> StructType:
    """`fields` has the types of key and value."""
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    types: dict[str, DataType] = {
        "topic": StringType(),
        "partition": IntegerType(),
        "offset": LongType(),
        "timestamp": TimestampType(),
        "timestampType": IntegerType(),
        "headers": ArrayType(header),
        "priority": IntegerType(),
        **fields,
    }
    return StructType([StructField(name, types[name]) for name in columns])
