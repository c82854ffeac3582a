"""`count()`: as many as there are rows, and where the broker can tell, none of them is fetched."""

import json
import re
import time
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from goqueue.testing import ServerProcess
from tests.busy_machine import stretched
from tests.spark.committed_reading import read_committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MakeTopic = Callable[..., str]
Send = Callable[..., None]
Read = Callable[..., "DataFrame"]

UNCOMMITTED = {"isolation.level": "read_uncommitted"}


@pytest.fixture
def read(spark: "SparkSession", bootstrap: str) -> Read:
    def load(topic: str, **options: object) -> "DataFrame":
        given = {"bootstrap.servers": bootstrap, **{k: str(v) for k, v in options.items()}}
        return spark.read.format("goqueue").options(**given).load(topic)

    return load


def bytes_fetched(broker: ServerProcess, topic: str) -> int:
    with urllib.request.urlopen(f"{broker.http_url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    series = re.findall(
        rf'^goqueue_partition_bytes_out_total{{.*topic="{topic}".*}} (\S+)$', text, re.MULTILINE
    )
    assert series
    return sum(int(float(value)) for value in series)


def records(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"value": b"%d" % number, **fields} for number in range(count)]


def between(topic: str, start: int, end: int, *, partitions: int = 2) -> dict[str, str]:
    """Options for these offsets of every partition."""
    return {
        f"{name}Offsets": json.dumps({topic: dict.fromkeys(map(str, range(partitions)), offset)})
        for name, offset in (("starting", start), ("ending", end))
    }


def test_a_count_fetches_nothing(
    broker: ServerProcess, make_topic: MakeTopic, send: Send, read: Read
) -> None:
    topic = make_topic(2)
    send(topic, records(700, partition=0) + records(300, partition=1))
    rows = read(topic)

    assert rows.count() == 1000
    assert read(topic, **between(topic, 100, 250)).count() == 150 + 150
    by_partition = rows.groupBy("partition").count().orderBy("partition")
    assert [tuple(row) for row in by_partition.collect()] == [(0, 700), (1, 300)]
    assert bytes_fetched(broker, topic) == 0
    # Offsets and times are in the records.
    assert rows.where("offset >= 100 and offset < 450").count() == 350 + 200
    assert rows.where("timestamp > timestamp '2020-01-01 00:00:00'").count() == 1000
    assert bytes_fetched(broker, topic) > 0


def test_transactions_are_counted_as_they_are_read(
    broker: ServerProcess, bootstrap: str, make_topic: MakeTopic, send: Send, read: Read
) -> None:
    topic = make_topic(1)
    send(topic, records(5))
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"count-{topic}"})
    producer.init_transactions(60)
    for size, how in ((3, "commit"), (4, "abort"), (2, "commit"), (6, "leave open")):
        producer.begin_transaction()
        for number in range(size):
            producer.produce(topic, b"%d" % number)
        producer.flush(60)
        if how == "commit":
            producer.commit_transaction(60)
        elif how == "abort":
            producer.abort_transaction(60)

    assert read(topic).count() == 10
    assert read(topic, **UNCOMMITTED).count() == 20
    # The last of those committed, a marker, all that were aborted, their marker.
    assert read(topic, **between(topic, 7, 14, partitions=1)).count() == 1
    assert bytes_fetched(broker, topic) == 0
    assert len(read(topic).collect()) == 10
    assert len(read(topic, **UNCOMMITTED).collect()) == 20
    producer.abort_transaction(60)


def test_what_was_deleted_is_not_counted(
    bootstrap: str, make_topic: MakeTopic, send: Send, read: Read
) -> None:
    topic = make_topic(1)
    send(topic, records(50))
    place = TopicPartition(topic, 0, 30)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_records([place])[place].result(60)

    assert read(topic).count() == len(read(topic).collect()) == 20


def test_holes_of_compaction_are_not_counted(
    broker: ServerProcess, bootstrap: str, make_topic: MakeTopic, send: Send, read: Read
) -> None:
    topic = make_topic(
        1,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0",
        segment_bytes="2000",
        delete_retention_ms="0",
    )
    for _ in range(5):
        send(topic, [{"key": b"%d" % number, "value": b"." * 50} for number in range(20)])
    deadline = time.monotonic() + stretched(60)
    while len(read_committed(bootstrap, topic)) > 60:
        assert time.monotonic() < deadline, "nothing is compacted"
        time.sleep(0.2)

    rows = read(topic)
    while rows.count() != len(rows.collect()):  # unless compaction went on between the two
        assert time.monotonic() < deadline, "the broker counts wrong"
    before = bytes_fetched(broker, topic)
    assert 20 <= rows.count() <= 60
    assert bytes_fetched(broker, topic) == before
