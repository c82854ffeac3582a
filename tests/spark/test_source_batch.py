"""Batch reading with Spark from a real broker."""

import json
import re
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MakeTopic = Callable[..., str]
Send = Callable[..., None]
Read = Callable[..., "DataFrame"]

# Bad input must not hang: an error comes within seconds, even on a loaded machine.
ERROR_WITHIN_SECONDS = 20
SPARKS_OWN_PUSHING = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def read(spark: "SparkSession", bootstrap: str) -> Read:
    def load(**options: object) -> "DataFrame":
        given = {name.replace("_", "."): str(value) for name, value in options.items()}
        return (
            spark.read.format("goqueue").options(**{"bootstrap.servers": bootstrap, **given}).load()
        )

    return load


def values(rows: "DataFrame") -> list[int]:
    return sorted(int(bytes(row["value"])) for row in rows.select("value").collect())


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_every_column(make_topic: MakeTopic, send: Send, read: Read) -> None:
    topic = make_topic(1, retention_ms="-1")
    headers = [("trace", b"abc"), ("empty", None), ("goqueue-priority", b"high")]
    send(
        topic,
        [
            {"key": b"k", "value": b"v", "headers": headers, "timestamp": 1_700_000_000_123},
            {"key": None, "value": None, "timestamp": 1_700_000_000_124},
        ],
    )
    rows = read(topic=topic, includeHeaders="true").orderBy("offset")
    full, bare = [row.asDict(recursive=True) for row in rows.collect()]
    moment = full.pop("timestamp")
    assert round(moment.timestamp() * 1000) == 1_700_000_000_123
    assert full == {
        "key": b"k",
        "value": b"v",
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestampType": 0,
        "headers": [
            {"key": "trace", "value": b"abc"},
            {"key": "empty", "value": None},
            {"key": "goqueue-priority", "value": b"high"},
        ],
        "priority": 1,
    }
    assert (bare["key"], bare["value"], bare["headers"], bare["priority"]) == (None, None, [], 2)


def test_columns_and_text(make_topic: MakeTopic, send: Send, read: Read) -> None:
    topic = make_topic(2)
    send(topic, [{"value": b"text", "key": b"a"}])
    rows = read(topic=topic, columns="offset,value", value_format="string")
    assert rows.dtypes == [("offset", "bigint"), ("value", "string")]
    assert [tuple(row) for row in rows.collect()] == [(0, "text")]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed(codec: str, make_topic: MakeTopic, send: Send, read: Read) -> None:
    topic = make_topic(1)
    send(topic, numbers(500), **{"compression.type": codec})
    assert values(read(topic=topic)) == list(range(500))


def test_offsets_and_splits(make_topic: MakeTopic, send: Send, read: Read) -> None:
    topic = make_topic(1)
    send(topic, numbers(100))
    some = read(
        topic=topic,
        startingOffsets=json.dumps({topic: {"0": 10}}),
        endingOffsets=json.dumps({topic: {"0": 60}}),
        minPartitions=4,
    )
    assert values(some) == list(range(10, 60))
    assert some.rdd.getNumPartitions() == 4
    assert read(topic=topic, maxRecordsPerPartition=30).rdd.getNumPartitions() == 4
    ends = read(
        topic=topic,
        startingOffsets=json.dumps({topic: {"0": -2}}),
        endingOffsets=json.dumps({topic: {"0": -1}}),
    )
    assert ends.count() == 100


def test_times(make_topic: MakeTopic, send: Send, read: Read) -> None:
    topic = make_topic(1, retention_ms="-1")
    base_ms = 1_700_000_000_000
    send(topic, [{"value": b"%d" % n, "timestamp": base_ms + n * 1000} for n in range(20)])
    middle = read(topic=topic, startingTimestamp=base_ms + 5_000, endingTimestamp=base_ms + 8_000)
    assert values(middle) == [5, 6, 7]
    iso = read(topic=topic, startingTimestamp="2023-11-14T22:13:38Z")
    assert values(iso) == [18, 19]
    each = read(
        topic=topic, startingOffsetsByTimestamp=json.dumps({topic: {"0": base_ms + 15_001}})
    )
    assert values(each) == [16, 17, 18, 19]
    assert read(topic=topic, startingTimestamp=base_ms + 99_000).count() == 0


def test_many_topics(make_topic: MakeTopic, send: Send, read: Read) -> None:
    first, second = make_topic(2, name="many-a"), make_topic(1, name="many-b")
    send(first, [{"value": b"1", "partition": 0}, {"value": b"2", "partition": 1}])
    send(second, [b"3"])
    assert values(read(subscribe=f"{first}, {second}")) == [1, 2, 3]
    assert values(read(subscribePattern="many-.*")) == [1, 2, 3]
    assert values(read(assign=json.dumps({first: [1], second: [0]}))) == [2, 3]
    assert read(topicPattern="nothing-.*").count() == 0


def test_transactions(make_topic: MakeTopic, bootstrap: str, read: Read) -> None:
    topic = make_topic(1)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"txn-{topic}"})
    producer.init_transactions(20)
    for number, commit in enumerate([True, False, True]):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.flush(20)
        (producer.commit_transaction if commit else producer.abort_transaction)(20)
    producer.begin_transaction()
    producer.produce(topic, b"3")
    producer.flush(20)
    assert values(read(topic=topic)) == [0, 2]
    assert read(topic=topic).count() == 2
    uncommitted = read(topic=topic, isolation_level="read_uncommitted")
    assert values(uncommitted) == [0, 1, 2, 3]
    assert uncommitted.count() == 4
    producer.abort_transaction(20)


def test_filters_narrow_what_is_read(make_topic: MakeTopic, send: Send, read: Read) -> None:
    topic = make_topic(2, retention_ms="-1")
    base_ms = 1_700_000_000_000
    send(
        topic,
        [
            {"value": b"%d" % n, "partition": n % 2, "timestamp": base_ms + n * 1000}
            for n in range(40)
        ],
    )
    rows = read(topic=topic)
    assert values(rows.where("offset >= 5 and offset < 7")) == [10, 11, 12, 13]
    one = rows.where("partition = 1 and offset in (2, 4)")
    assert values(one) == [5, 9]
    assert one.rdd.getNumPartitions() == 1
    late = rows.where("timestamp >= timestamp '2023-11-14 22:13:55 UTC'")
    assert values(late) == [35, 36, 37, 38, 39]
    # A record that comes late has its place in time all the same.
    send(topic, [{"value": b"40", "key": b"late", "partition": 0, "timestamp": base_ms}])
    rows = read(topic=topic)
    assert values(rows.where("timestamp < timestamp '2023-11-14 22:13:22 UTC'")) == [0, 1, 40]
    assert values(rows.where("key = X'6C617465'")) == [40]
    assert values(read(topic=topic, key_format="string").where("key in ('late', 'x')")) == [40]
    assert rows.where(f"topic = 'other-than-{topic}'").count() == 0


@pytest.mark.parametrize("spark_pushes_too", ["false", "true"])
def test_conditions_of_one_query_are_not_those_of_another(
    make_topic: MakeTopic, send: Send, read: Read, spark: "SparkSession", spark_pushes_too: str
) -> None:
    topic = make_topic(1)
    send(topic, numbers(40))
    spark.conf.set(SPARKS_OWN_PUSHING, spark_pushes_too)
    try:
        rows = read(topic=topic)
        assert values(rows.where("offset < 2")) == [0, 1]
        assert values(rows) == list(range(40))
        assert rows.count() == 40
        ends = rows.where("offset < 2").union(rows.where("offset >= 38"))
        assert values(ends) == [0, 1, 38, 39]
        both = rows.where("offset < 9").join(rows.where("offset > 7"), "offset")
        assert [row["offset"] for row in both.select("offset").collect()] == [8]
    finally:
        spark.conf.unset(SPARKS_OWN_PUSHING)


def test_a_query_reads_the_columns_that_it_uses(
    make_topic: MakeTopic, send: Send, read: Read, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = make_topic(2)
    send(topic, [{"key": b"%d" % n, "value": b"%d" % n, "partition": n % 2} for n in range(10)])
    rows = read(topic=topic, includeHeaders="true")
    assert sorted(bytes(row["key"]) for row in rows.select("key").collect()) == numbers(10)
    assert [row["offset"] for row in rows.where("key = X'33'").select("offset").collect()] == [1]
    assert rows.selectExpr("sum(offset)", "count(DISTINCT topic)").first() == (20, 1)
    assert [
        tuple(row) for row in rows.groupBy("partition").count().orderBy("partition").collect()
    ] == [(0, 5), (1, 5)]
    assert columns_read(rows.select("value"), capsys) == ["value"]
    assert columns_read(rows.where("offset < 3").select("key"), capsys) == ["key", "offset"]
    assert columns_read(rows.groupBy().count(), capsys) == ["partition"]
    assert columns_read(rows, capsys) == rows.columns


def columns_read(rows: "DataFrame", capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    rows.explain()
    scan = re.search(r"BatchScan goqueue\[([^]]*)\]", capsys.readouterr().out)
    assert scan is not None
    return re.findall(r"(\w+)#", scan[1])


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_rows_are_counted_where_a_range_ends_within_a_batch(
    make_topic: MakeTopic, send: Send, read: Read, compression: str
) -> None:
    topic = make_topic(1)
    for _ in range(3):
        send(topic, numbers(100), **{"linger.ms": 100, "compression.type": compression})
    rows = read(topic=topic, minPartitions=7)
    assert rows.count() == 300
    assert rows.where("offset >= 50 and offset < 260").count() == 210
    assert rows.where("timestamp > timestamp '2020-01-01 00:00:00'").count() == 300
    assert read(topic=topic, columns="key,value").count() == 300


def refused(load: Callable[[], Any], words: str) -> None:
    started = time.monotonic()
    with pytest.raises(Exception, match=re.compile(words, re.DOTALL)) as raised:
        load().collect()
    assert "Traceback" not in str(raised.value), "the message stands at the end of a stack"
    assert time.monotonic() - started < ERROR_WITHIN_SECONDS


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "exactly one of topic"),
        ({"topic": "missing-topic"}, "there is no topic 'missing-topic'.*topics create"),
        ({"topic": "bad", "startingOffset": "earliest"}, "did you mean 'startingOffsets'"),
        ({"topic": "bad", "minPartitions": "none"}, "minPartitions: 'none' is not a whole number"),
        ({"topic": "bad", "columns": "key,values"}, "no column 'values'"),
        ({"topic": "bad", "startingOffsets": "soon"}, "startingOffsets: 'soon' is not understood"),
        ({"topic": "bad", "kafka.auto.offset.reset": "earliest"}, "said by startingOffsets"),
        ({"topic": "bad", "bootstrap_servers": "nowhere"}, "no broker answers at nowhere:9092"),
    ],
)
def test_wrong_options_say_what_to_do(options: dict[str, object], words: str, read: Read) -> None:
    refused(lambda: read(**options), words)


def test_offsets_out_of_range(make_topic: MakeTopic, send: Send, read: Read) -> None:
    topic = make_topic(1)
    send(topic, numbers(10))
    beyond = json.dumps({topic: {"0": 11}})
    refused(
        lambda: read(topic=topic, startingOffsets=beyond),
        "has offsets 0 to 10, not 11.*failOnDataLoss=false",
    )
    assert read(topic=topic, startingOffsets=beyond, failOnDataLoss="false").count() == 0
    partial = json.dumps({topic: {"1": 0}})
    refused(lambda: read(topic=topic, startingOffsets=partial), "not a partition that is read")


def test_a_broker_that_is_down_or_no_broker(read: Read) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        refused(
            lambda: read(topic="any", bootstrap_servers=address),
            f"no broker answers at {address}: Connection refused",
        )
