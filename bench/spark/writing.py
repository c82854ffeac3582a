"""Write the same rows to a topic and to Parquet, in turns: `python -m bench.spark.writing`.

Rows come from a Parquet file (key of 8 bytes, value of 100). GoQueue's sink writes them at least
once and exactly once; Spark's own Kafka sink, where Maven Central has it, writes to the same
broker. Broker, Spark and its Python workers share two cores.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.artifacts import ROOT
from bench.brokers.goqueue import GoQueue
from bench.machine import describe_machine, keep_to_two_cores, load_average
from bench.rounds import say
from bench.spark.contestants import PARQUET, start_session
from bench.spark.topic_filling import VALUE_BYTES
from bench.spark.turns import Times, take_turns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RESULTS: Final = ROOT / "bench" / "results"
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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark.writing", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="keep the table in bench/results")
    given = parser.parse_args()
    keep_to_two_cores()
    machine = describe_machine()
    started_at = datetime.now().astimezone()
    broker = GoQueue()
    with tempfile.TemporaryDirectory(prefix="bench-spark-writing-") as folder:
        broker.start(Path(folder))
        try:
            contest = WritingContest(f"127.0.0.1:{broker.port}", Path(folder), given.rows)
            times = take_turns(contest.contestants(), given.rounds)
            spark_version, connector = contest.spark.version, contest.connector
            contest.spark.stop()
        finally:
            broker.stop()
    text = "\n".join(
        [
            f"# Spark writes {given.rows:,} × {VALUE_BYTES} bytes, {started_at:%Y-%m-%d %H:%M}",
            "",
            f"{machine.processor}, {machine.cores_used} cores shared by broker, Spark (local[2]) "
            f"and its workers, Linux {machine.kernel}, Python {machine.python}, Spark "
            f"{spark_version}, Kafka connector {connector or 'none to be had'}. GoQueue "
            f"{broker.version()} as it starts (fsync.policy=interval). Load average "
            f"{machine.load_average_before} before the run (above 0.5 the machine was not quiet), "
            f"{load_average()} at its end.",
            "",
            f"{PARTITIONS} partitions, keys of 8 bytes, no compression but Parquet's, "
            f"{given.rounds} rounds after one to warm up, contestants in turns. Rows/s: median, "
            "lowest and highest round.",
            "",
            *_table(times, given.rows),
            "",
        ]
    )
    print(text)
    if given.save:
        path = RESULTS / f"{started_at:%Y-%m-%d-%H%M}-spark-writing.md"
        path.write_text(text)
        say(f"written: {path}")


def _table(times: Times, rows: int) -> list[str]:
    lines = ["| sink | rows/s | lowest | highest | of Parquet |", "|---|---|---|---|---|"]
    for name, seconds in times.items():
        pairs = zip(times[PARQUET], seconds, strict=True)
        share = statistics.median(parquet / other for parquet, other in pairs)
        rates = [f"{rows / each:,.0f}" for each in (statistics.median(seconds), max(seconds))]
        lines.append(f"| {name} | {' | '.join(rates)} | {rows / min(seconds):,.0f} | {share:.2f} |")
    return lines


if __name__ == "__main__":
    main()
