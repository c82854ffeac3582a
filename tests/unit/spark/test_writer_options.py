"""What a writer refuses before anything runs."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.spark.option_names import InvalidOption
from goqueue.spark.sink.options import parse_options, query_group, write_group
from goqueue.spark.sink.schema import check_schema
from goqueue.spark.sink.writer import stream_writer

NEEDED = {"bootstrap.servers": "localhost:9092", "topic": "t"}


TEXT, BYTES, WHOLE = StringType(), BinaryType(), IntegerType()


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_defaults() -> None:
    options = parse_options({"kafka.bootstrap.servers": "a:1,b"}, is_stream=True)
    assert options.is_exactly_once
    assert (options.topic, options.transaction_id, options.http_url) == (None, None, None)
    assert (options.compression, options.batch_bytes) == ("none", 512 * 1024)
    assert (options.transaction_timeout_ms, options.delivery_timeout_ms) == (120_000, 20_000)


def test_units() -> None:
    given = {"batch.size": "1MB", "transaction.timeout.ms": "10m", "delivery.timeout.ms": "5000"}
    options = parse_options({**NEEDED, **given}, is_stream=True)
    assert options.batch_bytes == 1_000_000
    assert (options.transaction_timeout_ms, options.delivery_timeout_ms) == (600_000, 5_000)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"bootstrap.servers": ""}, "bootstrap.servers: no broker address given"),
        ({"bootstrap.servers": "a:b"}, "'a:b' is not an address"),
        ({"topik": "t"}, "did you mean 'topic'"),
        ({"compression": "rar"}, "compression.type: 'rar' is not one of none, gzip"),
        ({"delivery.guarantee": "maybe"}, "delivery.guarantee: 'maybe'"),
        ({"batch.size": "large"}, "batch.size: 'large' is not a size; write"),
        ({"delivery.timeout.ms": "soon"}, "delivery.timeout.ms: 'soon' is not a duration; write"),
        ({"batch.size": "10"}, "batch.size: 10 is not between 1024"),
        ({"transaction.id": "a b"}, "transaction.id: 'a b' must be 1 to"),
        ({"transaction.id": "x" * 169}, "transaction.id: 'xxx"),
        (
            {"transaction.id": "a", "delivery.guarantee": "at-least-once"},
            "transaction.id goes with delivery.guarantee=exactly-once",
        ),
        ({"transaction.sequence": "3"}, "transaction.sequence counts the writes of a transaction"),
        ({"transaction.id": "a", "transaction.sequence": "-1"}, "-1 is not between 0 and"),
    ],
)
def test_bad_options(given: dict[str, str], expected: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        parse_options({**NEEDED, **given}, is_stream=False)
    assert expected in raised.value.message


def test_a_stream_has_its_own_name() -> None:
    with pytest.raises(InvalidOption, match="a stream is known by its checkpoint"):
        parse_options({**NEEDED, "transaction.id": "a"}, is_stream=True)
    assert query_group("1-2") == "spark-query.1-2"
    assert write_group("nightly") == "spark-write.nightly"
    assert write_group(None) != write_group(None)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (schema(value=WHOLE), "column 'value' is int; it must be binary or string"),
        (schema(key=TEXT), "there is no column 'value'"),
        (schema(value=TEXT, colour=WHOLE), "column 'colour' is not one that a record has"),
        (schema(value=TEXT, partition=TEXT), "column 'partition' is string; it must be int"),
        (schema(value=TEXT, headers=MapType(TEXT, BYTES)), "must be array<struct<key: string"),
        (schema(value=TEXT, headers=ArrayType(schema(key=TEXT))), "must be array<struct<key"),
        (schema(value=TEXT, delay=TEXT), "must be bigint in milliseconds, or interval"),
        (schema(value=TEXT, deliverAt=DateType()), "column 'deliverAt' is date; it must be time"),
        (schema(value=TEXT, topic=WHOLE), "column 'topic' is int; it must be string"),
    ],
)
def test_bad_columns(columns: StructType, expected: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        check_schema(columns, has_topic=True)
    assert expected in raised.value.message


def test_a_copy_of_what_was_read_can_be_written() -> None:
    read = schema(
        key=BYTES,
        value=BYTES,
        topic=TEXT,
        partition=WHOLE,
        offset=LongType(),
        timestamp=TimestampType(),
        timestampType=WHOLE,
        headers=ArrayType(schema(key=TEXT, value=BYTES)),
        priority=WHOLE,
    )
    check_schema(read, has_topic=False)
    with pytest.raises(InvalidOption, match="no topic: give the option topic"):
        check_schema(schema(value=BYTES), has_topic=False)


def test_a_topic_is_only_appended_to() -> None:
    with pytest.raises(InvalidOption, match="cannot be overwritten; use outputMode"):
        stream_writer(NEEDED, schema(value=TEXT), overwrite=True)
