"""Streaming with Spark from a real broker."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from goqueue.client.admin import KafkaAdmin
from goqueue.client.groups import GroupAdmin
from goqueue.client.http_api import HttpApi
from goqueue.testing import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MakeTopic = Callable[..., str]
Send = Callable[..., None]

WAIT_SECONDS = 40


class Stream:
    """Runs a query over what is available, as often as wanted, from one checkpoint."""

    def __init__(self, spark: "SparkSession", bootstrap: str, folder: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._folder = folder

    def run(self, **options: object) -> "StreamingQuery":
        given = {name.replace("_", "."): str(value) for name, value in options.items()}
        query = (
            self._spark.readStream.format("goqueue")
            .options(
                **{
                    "bootstrap.servers": self._bootstrap,
                    "startingOffsets": "earliest",
                    "columns": "value,partition,offset",
                    "value.format": "string",
                    **given,
                }
            )
            .load()
            .writeStream.format("json")
            .option("path", str(self._folder / "out"))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(WAIT_SECONDS), "the query does not end"
        return query

    def values(self) -> list[int]:
        rows = self._spark.read.schema("value STRING").json(str(self._folder / "out")).collect()
        return sorted(int(row["value"]) for row in rows)


@pytest.fixture
def stream(spark: "SparkSession", bootstrap: str, tmp_path: Path) -> Iterator[Stream]:
    yield Stream(spark, bootstrap, tmp_path)
    for query in spark.streams.active:
        query.stop()


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def sizes(query: "StreamingQuery") -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    async def ask() -> dict[tuple[str, int], int]:
        async with KafkaAdmin(bootstrap) as admin:
            found = await GroupAdmin(admin).offsets(group)
            return {place: facts.offset for place, facts in found.items()}

    return asyncio.run(ask())


def wait_for(what: Callable[[], Any], expected: Any) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while what() != expected:
        assert time.monotonic() < deadline, f"{what()} is not {expected}"
        time.sleep(0.1)


def test_restarts_limits_new_partitions_and_lag(
    stream: Stream, make_topic: MakeTopic, send: Send, bootstrap: str
) -> None:
    topic = make_topic(2, partition_growth="plain")
    send(topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(20)])
    assert sizes(stream.run(topic=topic, maxOffsetsPerTrigger=8, group_id="my-lag")) == [8, 8, 4]
    wait_for(lambda: committed(bootstrap, "my-lag"), {(topic, 0): 10, (topic, 1): 10})

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
    send(topic, [{"value": b"%d" % n, "partition": n % 3} for n in range(20, 26)])
    query = stream.run(topic=topic)
    assert stream.values() == list(range(26))
    group = f"spark-{query.id}"
    wait_for(lambda: committed(bootstrap, group), {(topic, 0): 12, (topic, 1): 12, (topic, 2): 2})


def test_a_topic_made_again_is_another_topic(
    stream: Stream, make_topic: MakeTopic, send: Send, bootstrap: str
) -> None:
    topic = make_topic(1)
    send(topic, numbers(0, 5))
    stream.run(topic=topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result()
    make_topic(1, name=topic)
    send(topic, numbers(5, 12))
    with pytest.raises(Exception, match=re.compile("deleted and made again.*failOnDataLoss=false")):
        stream.run(topic=topic)
    stream.run(topic=topic, failOnDataLoss="false")
    assert stream.values() == list(range(12))


def test_records_that_retention_took(
    stream: Stream, make_topic: MakeTopic, send: Send, bootstrap: str
) -> None:
    from confluent_kafka import TopicPartition

    topic = make_topic(1)
    send(topic, numbers(0, 4))
    stream.run(topic=topic)
    send(topic, numbers(4, 10))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 7)]).values():
        future.result()
    with pytest.raises(Exception, match="has offsets 7 to 10, and the stream has still to read 4"):
        stream.run(topic=topic)
    stream.run(topic=topic, failOnDataLoss="false")
    assert stream.values() == [0, 1, 2, 3, 7, 8, 9]


def test_a_running_query_follows_the_log(
    spark: "SparkSession", bootstrap: str, make_topic: MakeTopic, send: Send, tmp_path: Path
) -> None:
    topic = make_topic(1)
    send(topic, numbers(0, 3))
    query = (
        spark.readStream.format("goqueue")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
        .selectExpr("CAST(value AS STRING) AS value")
        .writeStream.format("memory")
        .queryName(topic.replace("-", "_"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        # Streams begin at the end, unless they are told otherwise.
        query.processAllAvailable()
        send(topic, numbers(3, 6))
        query.processAllAvailable()
        found = spark.sql(f"SELECT value FROM {query.name}").collect()
        assert sorted(int(row["value"]) for row in found) == [3, 4, 5]
        wait_for(lambda: committed(bootstrap, f"spark-{query.name}"), {(topic, 0): 6})
    finally:
        query.stop()


def test_a_stream_has_no_end(stream: Stream) -> None:
    with pytest.raises(Exception, match="a stream has no end"):
        stream.run(topic="any", endingOffsets="latest")


def test_parents_are_read_before_what_was_split_off_them(
    stream: Stream, make_topic: MakeTopic, send: Send, broker: ServerProcess
) -> None:
    topic = make_topic(1)
    send(topic, numbers(0, 5))
    stream.run(topic=topic)
    send(topic, numbers(5, 8))
    api = HttpApi(broker.http_url)
    api.post("topics", topic, "split", body={"partitions": 2})
    wait_for(lambda: api.get("topics", topic, "layout")["state"], "settled")
    send(topic, [{"value": b"%d" % n, "partition": 1} for n in range(8, 12)])
    assert sizes(stream.run(topic=topic)) == [3, 4]
    assert stream.values() == list(range(12))
