"""The same rows to a topic and to Parquet.

Rows come from a Parquet file (key of 8 bytes, value of 100). GoQueue's sink writes them at least
once and exactly once; Spark's own Kafka sink, where Maven Central has it, writes to the same
broker.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.spark.contestants import PARQUET, start_session
from bench.spark.findings import Findings, Given, table
from bench.spark.topic_filling import VALUE_BYTES
from bench.spark.turns import take_turns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITIONS: Final = 4
AT_LEAST_ONCE: Final = "goqueue, at least once"
EXACTLY_ONCE: Final = "goqueue, exactly once"
KAFKA_SINK: Final = "Spark's Kafka sink, at least once"


class WritingContest:
    def __init__(self, bootstrap_servers: str, folder: Path, rows: int) -> None:
        self._servers = bootstrap_servers
        self._folder = folder
        self._expected = rows
        self._runs = 0
        self.spark, self.connector = start_session()
        self._rows = self._make_rows()

    def contestants(self) -> dict[str, Callable[[], float]]:
        found: dict[str, Callable[[], float]] = {
            PARQUET: self._parquet,
            AT_LEAST_ONCE: lambda: self._goqueue("at-least-once"),
            EXACTLY_ONCE: lambda: self._goqueue("exactly-once"),
        }
        if self.connector:
            found[KAFKA_SINK] = self._kafka
        return found

    def _make_rows(self) -> "DataFrame":
        """Values that do not compress, as those that are read elsewhere."""
        path = str(self._folder / "rows")
        noise = (
            "substr(concat("
            + ", ".join(f"sha2(CAST(id + {n} AS STRING), 256)" for n in (0, 1))
            + "), 1, 100)"
        )
        rows = self.spark.range(0, self._expected, 1, PARTITIONS).selectExpr(
            "CAST(lpad(id, 8, '0') AS BINARY) AS key", f"CAST({noise} AS BINARY) AS value"
        )
        rows.write.parquet(path)
        return self.spark.read.parquet(path)

    def _parquet(self) -> float:
        self._runs += 1
        started = time.perf_counter()
        self._rows.write.parquet(str(self._folder / f"written-{self._runs}"))
        return time.perf_counter() - started

    def _goqueue(self, guarantee: str) -> float:
        return self._to_topic("goqueue", {"delivery.guarantee": guarantee})

    def _kafka(self) -> float:
        return self._to_topic("kafka", {})

    def _to_topic(self, sink: str, options: dict[str, str]) -> float:
        self._runs += 1
        topic = f"written-{self._runs}"
        admin = AdminClient({"bootstrap.servers": self._servers})
        admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result()
        started = time.perf_counter()
        (
            self._rows.write.format(sink)
            .option("kafka.bootstrap.servers", self._servers)
            .option("topic", topic)
            .options(**options)
            .mode("append")
            .save()
        )
        elapsed = time.perf_counter() - started
        self._check(topic)
        admin.delete_topics([topic])[topic].result()
        return elapsed

    def _check(self, topic: str) -> None:
        """As many offsets as rows, and one for each end of a transaction."""
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": "unused"})
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic, partition))[1]
            for partition in range(PARTITIONS)
        ]
        consumer.close()
        assert sum(ends) >= self._expected, f"{topic} has {sum(ends)} offsets"


def measure(given: Given) -> Findings:
    contest = WritingContest(given.bootstrap_servers, given.folder, given.rows)
    times = take_turns(contest.contestants(), given.rounds)
    spark_version, connector = contest.spark.version, contest.connector
    contest.spark.stop()
    return Findings(
        title=f"Spark writes {given.rows:,} × {VALUE_BYTES} bytes",
        versions=f"Spark {spark_version}, Kafka connector {connector or 'none to be had'}",
        conditions=f"{PARTITIONS} partitions, keys of 8 bytes, no compression but Parquet's",
        tables=table("sink", times, given.rows, PARQUET),
    )
