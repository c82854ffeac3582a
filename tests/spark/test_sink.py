"""Batch writes from Spark, read back by another client."""

import datetime
import json
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.request import urlopen
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException

from goqueue.model.partitioner import partition_for_key
from goqueue.testing import ServerProcess
from tests.spark.committed_reading import read_committed, values_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def save(frame: "DataFrame", bootstrap: str, topic: str | None = None, **options: str) -> None:
    writer = frame.write.format("goqueue").option("bootstrap.servers", bootstrap)
    if topic is not None:
        writer = writer.option("topic", topic)
    for name, value in options.items():
        writer = writer.option(name.replace("_", "."), value)
    writer.mode("append").save()


def refusal(frame: "DataFrame", bootstrap: str, topic: str | None = None, **options: str) -> str:
    with pytest.raises(PySparkException) as raised:
        save(frame, bootstrap, topic, **options)
    return str(raised.value)


def test_every_column_arrives(
    spark: "SparkSession", bootstrap: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=3)
    frame = spark.sql(
        """SELECT * FROM VALUES
        ('k1', X'00FF', array(named_struct('key', 'h', 'value', X'01'),
                              named_struct('key', 'n', 'value', CAST(NULL AS BINARY))),
         2, TIMESTAMP'2026-01-02 03:04:05Z', 4),
        (NULL, X'', NULL, 1, NULL, NULL),
        ('k2', NULL, array(), NULL, NULL, 0)
        AS rows(key, value, headers, partition, timestamp, priority)"""
    )
    save(frame, bootstrap, topic)

    first, second, third = (
        sorted(read_committed(bootstrap, topic), key=lambda message: message.key() or b"")[1:]
        + sorted(read_committed(bootstrap, topic), key=lambda m: m.key() or b"")[:1]
    )
    assert (first.key(), first.value(), first.partition()) == (b"k1", b"\x00\xff", 2)
    assert first.headers() == [("h", b"\x01"), ("n", None), ("goqueue-priority", b"4")]
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert first.timestamp()[1] == int(moment.timestamp() * 1000)
    assert (second.key(), second.value()) == (b"k2", None)
    assert second.partition() == partition_for_key(b"k2", 3)
    assert second.headers() == [("goqueue-priority", b"0")]
    assert (third.key(), third.value(), third.partition(), third.headers()) == (None, b"", 1, None)


def test_a_write_with_an_id_is_done_once(
    spark: "SparkSession", broker: ServerProcess, bootstrap: str, make_topic: Callable[..., str]
) -> None:
    topic, name = make_topic(), f"nightly-{uuid4()}"
    for _ in range(2):
        save(spark.sql("SELECT 'a' AS value"), bootstrap, topic, transaction_id=name)
    assert values_of(bootstrap, topic) == [b"a"]
    with urlopen(f"{broker.http_url}/transactions/groups/spark-write.{name}") as answer:
        assert json.load(answer)["lastCommitted"] == 0


def test_a_failed_write_leaves_nothing(
    spark: "SparkSession", bootstrap: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=2)
    frame = spark.range(0, 40_000, numPartitions=2).selectExpr(
        "IF(id = 39999, raise_error('this row is broken'), CAST(id AS STRING)) AS value"
    )
    assert "this row is broken" in refusal(frame, bootstrap, topic)
    assert values_of(bootstrap, topic) == []
    save(spark.sql("SELECT 'next' AS value"), bootstrap, topic)
    assert values_of(bootstrap, topic) == [b"next"]


def test_rows_that_are_delayed(
    spark: "SparkSession", broker: ServerProcess, bootstrap: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    frame = spark.sql(
        """SELECT * FROM VALUES
        ('now', NULL, NULL),
        ('delayed', 3600000L, NULL),
        ('planned', NULL, TIMESTAMP'2100-01-01 00:00:00Z')
        AS rows(value, delay, deliverAt)"""
    )
    interval = spark.sql("SELECT 'by interval' AS value, INTERVAL '1' HOUR AS delay")
    save(frame, bootstrap, topic)
    save(interval, bootstrap, topic, delivery_guarantee="at-least-once")

    assert values_of(bootstrap, topic) == [b"now"]
    with urlopen(f"{broker.http_url}/topics/{topic}/delayed") as answer:
        waiting = json.load(answer)["messages"]
    due = {each["value"]: each["deliverAt"] for each in waiting}
    assert due.keys() == {"delayed", "planned", "by interval"}


def test_a_bad_row_is_named(
    spark: "SparkSession", bootstrap: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(max_message_bytes="20000")
    refused = refusal(spark.sql("SELECT repeat('x', 20000) AS value"), bootstrap, topic)
    assert f"topic '{topic}'" in refused
    assert "max.message.bytes allows (20000" in refused
    assert values_of(bootstrap, topic) == []


def test_where_nothing_can_be_written(spark: "SparkSession", bootstrap: str) -> None:
    frame = spark.sql("SELECT 'a' AS value")
    assert "no broker answers at 127.0.0.1:1" in refusal(frame, "127.0.0.1:1", "t")
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        frame.write.format("goqueue").options(**{"bootstrap.servers": bootstrap}).mode(
            "overwrite"
        ).save()
