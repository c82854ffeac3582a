"""The sources that take turns, in one Spark session."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType

import goqueue.spark
from bench.artifacts import Missing
from bench.rounds import say
from bench.spark.connector_jars import CONNECTOR_VERSION, connector_jars
from bench.spark.topic_filling import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOQUEUE_SOURCE: Final = "goqueue"
PARQUET: Final = "parquet"
KAFKA_SOURCE: Final = "Spark's Kafka source"
BATCH: Final = "batch"
COLUMNS: Final = "key and value"
COUNT: Final = "count()"
STREAM: Final = "stream"
KINDS: Final = (BATCH, COLUMNS, COUNT, STREAM)
BY_SELECT: Final = "goqueue, by select"
_WANTED: Final = ("key", "value")


class Contest:
    def __init__(self, bootstrap_servers: str, folder: Path, rows: int) -> None:
        self._servers = bootstrap_servers
        self._folder = folder
        self._rows = rows
        self._runs = 0
        self.spark, self.connector = start_session()

    def versions(self) -> str:
        connector = self.connector or "none to be had"
        return f"Spark {self.spark.version}, Kafka connector {connector}"

    def close(self) -> None:
        self.spark.stop()

    def write_parquet(self) -> None:
        self._topic("goqueue", self.spark.read).write.parquet(self._parquet_folder)
        count = self.spark.read.parquet(self._parquet_folder).count()
        assert count == self._rows, f"Parquet has {count} rows of {self._rows}"

    def contestants(self, kind: str) -> dict[str, Callable[[], float]]:
        names = [GOQUEUE_SOURCE, PARQUET, *([KAFKA_SOURCE] if self.connector else [])]
        if kind == COLUMNS:
            names.insert(1, BY_SELECT)
        runs = {BATCH: self._batch, COLUMNS: self._columns, COUNT: self._count}
        run = runs.get(kind, self._stream)
        return {name: lambda name=name: run(name) for name in names}  # type: ignore[misc]

    @property
    def _parquet_folder(self) -> str:
        return str(self._folder / "parquet")

    def _batch(self, name: str) -> float:
        started = time.perf_counter()
        rows = self._source(name, self.spark.read)
        rows.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - started

    def _columns(self, name: str) -> float:
        started = time.perf_counter()
        if name == GOQUEUE_SOURCE:
            rows = self._topic("goqueue", self.spark.read, columns=",".join(_WANTED))
        else:
            kind = GOQUEUE_SOURCE if name == BY_SELECT else name
            rows = self._source(kind, self.spark.read).select(*_WANTED)
        rows.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - started

    def _count(self, name: str) -> float:
        started = time.perf_counter()
        counted = self._source(name, self.spark.read).count()
        assert counted == self._rows, f"{name} counted {counted} rows of {self._rows}"
        return time.perf_counter() - started

    def _stream(self, name: str) -> float:
        self._runs += 1
        started = time.perf_counter()
        query = (
            self._source(name, self.spark.readStream)
            .writeStream.format("noop")
            .option("checkpointLocation", str(self._folder / f"checkpoint-{self._runs}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        elapsed = time.perf_counter() - started
        read = sum(progress.numInputRows for progress in query.recentProgress)
        assert read == self._rows, f"{name} read {read} rows of {self._rows}"
        return elapsed

    def _source(self, name: str, reader: Any) -> "DataFrame":
        if name == GOQUEUE_SOURCE:
            return self._topic("goqueue", reader)
        if name == PARQUET:
            # A stream of files must be told its columns.
            columns: StructType = self.spark.read.parquet(self._parquet_folder).schema
            rows: DataFrame = reader.schema(columns).parquet(self._parquet_folder)
            return rows
        return self._topic("kafka", reader)

    def _topic(self, source: str, reader: Any, **options: str) -> "DataFrame":
        """Both sources take Kafka's names of options."""
        rows: DataFrame = (
            reader.format(source)
            .option("kafka.bootstrap.servers", self._servers)
            .option("subscribe", TOPIC)
            .option("startingOffsets", "earliest")
            .options(**options)
            .load()
        )
        return rows


def start_session() -> "tuple[SparkSession, str | None]":
    """With the Kafka connector if it can be had; else without, and None."""
    settings = {"spark.driver.memory": "4g", "spark.log.level": "ERROR"}
    try:
        jars = ",".join(map(str, connector_jars()))
    except Missing as error:
        say(f"no Kafka connector: {error}")
        return goqueue.spark.session("bench", "local[2]", **settings), None
    spark = goqueue.spark.session("bench", "local[2]", **settings, **{"spark.jars": jars})
    return spark, CONNECTOR_VERSION
