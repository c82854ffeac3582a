"""What Spark's own Kafka source and sink do with GoQueue, checked by content."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A query over a hundred records takes seconds, even on a busy machine.
WAIT_SECONDS: Final = 120
HOUR_MS: Final = 3_600_000
FIRST_MS: Final = 1_700_000_000_000


class ConnectorChecks:
    """Every public method is a check, which fails with an AssertionError or as Spark does."""

    def __init__(self, spark: "SparkSession", bootstrap_servers: str, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._servers = {"kafka.bootstrap.servers": bootstrap_servers}
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        self._producer = Producer({"bootstrap.servers": bootstrap_servers})
        self._transactions = Producer(
            {"bootstrap.servers": bootstrap_servers, "transactional.id": "checks"}
        )

    def batch_write(self) -> None:
        """Batch write: keys, headers, partitions, topic column, all compressions"""
        self._make("written", partitions=2)
        columns = (
            "CAST(id AS STRING) AS key",
            "CAST(id AS STRING) AS value",
            "CAST(id % 2 AS INT) AS partition",
            "'written' AS topic",
            "array(struct('n' AS key, CAST(CAST(id AS STRING) AS BINARY) AS value)) AS headers",
        )
        codecs = ("none", "gzip", "snappy", "lz4", "zstd")
        for number, codec in enumerate(codecs):
            rows = self._spark.range(number * 20, number * 20 + 20).selectExpr(*columns)
            writer = rows.write.format("kafka").options(**self._servers)
            writer.option("kafka.compression.type", codec).option("includeHeaders", True).save()
        for source in ("kafka", "goqueue"):
            found = self._read("written", source=source, includeHeaders=True).collect()
            assert len(found) == 20 * len(codecs), f"{source}: {len(found)} rows"
            for row in found:
                assert row.key == row.value == row.headers[0].value, row
                assert int(row.value) % 2 == row.partition, row

    def batch_read(self) -> None:
        """Batch read: earliest, latest, offsets per partition, by time, assigned, split"""
        # Records of long ago, which retention would take while they are read.
        self._make("timed", settings={"retention.ms": "-1"})
        self._send("timed", range(10), timestamps=True)
        assert self._numbers(self._read("timed")) == list(range(10))
        middle, end = json.dumps({"timed": {"0": 3}}), json.dumps({"timed": {"0": 7}})
        ranged = self._read("timed", startingOffsets=middle, endingOffsets=end)
        assert self._numbers(ranged) == [3, 4, 5, 6]
        since, until = str(FIRST_MS + 4 * HOUR_MS), str(FIRST_MS + 8 * HOUR_MS)
        timed = self._read("timed", startingTimestamp=since, endingTimestamp=until)
        assert self._numbers(timed) == [4, 5, 6, 7]
        by_partition = json.dumps({"timed": {"0": int(since)}})
        assert self._numbers(self._read("timed", startingOffsetsByTimestamp=by_partition)) == [
            *range(4, 10)
        ]
        after = str(FIRST_MS + 99 * HOUR_MS)
        late = self._read(
            "timed", startingTimestamp=after, startingOffsetsByTimestampStrategy="latest"
        )
        assert self._numbers(late) == []
        split = self._read(None, assign=json.dumps({"timed": [0]}), minPartitions=4)
        assert split.rdd.getNumPartitions() == 4
        assert self._numbers(split) == list(range(10))

    def stream_restart(self) -> None:
        """Stream to stream: AvailableNow in portions, restart from the checkpoint"""
        self._make("first", "second", partitions=2)
        self._send("first", range(50))
        sizes = self._run("first", "second", maxOffsetsPerTrigger=20)
        # The limit is shared out by what each partition has, and rounded.
        assert sum(sizes) == 50, sizes
        assert 15 < max(sizes) <= 20, sizes
        self._send("first", range(50, 60))
        assert self._run("first", "second") == [10]
        assert self._run("first", "second") == []
        assert self._numbers(self._read("second")) == list(range(60))

    def stream_following(self) -> None:
        """Stream that follows a topic: from latest, then new records"""
        self._make("followed")
        self._send("followed", range(5))
        query = self._start("followed", "memory", startingOffsets="latest")
        try:
            query.processAllAvailable()
            self._send("followed", range(5, 8))
            query.processAllAvailable()
            assert self._numbers(self._spark.table("followed")) == [5, 6, 7]
        finally:
            query.stop()

    def exactly_once(self) -> None:
        """Spark's Kafka source into our sink: a batch that is run again is not written again"""
        self._make("from-kafka", "to-goqueue")
        self._send("from-kafka", range(30))
        assert self._run("from-kafka", "to-goqueue", sink="goqueue") == [30]
        for note in (self._checkpoint("from-kafka") / "commits").iterdir():
            note.unlink()
        self._run("from-kafka", "to-goqueue", sink="goqueue")
        assert self._numbers(self._read("to-goqueue")) == list(range(30))

    def data_loss(self) -> None:
        """failOnDataLoss: records deleted behind the checkpoint end the query, or are left out"""
        self._make("lossy", "kept")
        self._send("lossy", range(10))
        assert self._run("lossy", "kept") == [10]
        self._send("lossy", range(10, 30))
        gone = self._admin.delete_records([TopicPartition("lossy", 0, 20)])
        next(iter(gone.values())).result()
        failure = _failure_of(lambda: self._run("lossy", "kept", failOnDataLoss=True))
        assert "Some data may have been lost" in failure, failure
        self._run("lossy", "kept", failOnDataLoss=False)
        assert self._numbers(self._read("kept")) == [*range(10), *range(20, 30)]

    def pattern(self) -> None:
        """subscribePattern: topics that match, also those made later"""
        self._make("eu-orders", "us-orders", "orders-eu", "matched")
        self._send("eu-orders", range(3))
        self._send("us-orders", range(3, 6))
        self._send("orders-eu", range(100, 103))
        pattern = {"subscribePattern": "[a-z]+-orders"}
        assert self._run(None, "matched", **pattern) == [6]
        self._make("asia-orders")
        self._send("asia-orders", range(6, 9))
        assert self._run(None, "matched", **pattern) == [3]
        assert self._numbers(self._read("matched")) == list(range(9))

    def committed_only(self) -> None:
        """kafka.isolation.level: committed, aborted and open transactions, batch and stream"""
        self._make("transactional", "committed")
        self._transactions.init_transactions(WAIT_SECONDS)
        for numbers, ends in (
            (range(5), self._transactions.commit_transaction),
            (range(5, 10), self._transactions.abort_transaction),
            (range(10, 15), self._transactions.commit_transaction),
        ):
            self._transactions.begin_transaction()
            self._send("transactional", numbers, producer=self._transactions)
            ends()
        self._transactions.begin_transaction()
        self._send("transactional", range(15, 20), producer=self._transactions)
        committed = {"kafka.isolation.level": "read_committed"}
        expected = [*range(5), *range(10, 15)]
        try:
            assert self._numbers(self._read("transactional", **committed)) == expected
            assert self._numbers(self._read("transactional")) == list(range(20))
            self._run("transactional", "committed", **committed)
        finally:
            self._transactions.commit_transaction()
        self._run("transactional", "committed", **committed)
        assert self._numbers(self._read("committed")) == [*expected, *range(15, 20)]

    def consumer_groups(self) -> None:
        """Offsets through consumer groups, as before Spark 3.1 (useDeprecatedOffsetFetching)"""
        setting = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
        self._make("grouped", "ungrouped", partitions=3)
        self._send("grouped", range(12))
        self._spark.conf.set(setting, "true")
        try:
            assert self._numbers(self._read("grouped")) == list(range(12))
            assert self._run("grouped", "ungrouped", groupIdPrefix="ours") == [12]
        finally:
            self._spark.conf.unset(setting)

    def missing_topic(self) -> None:
        """A topic that does not exist: an error that says so"""
        failure = _failure_of(lambda: self._read("nowhere").count())
        assert "UnknownTopicOrPartition" in failure, failure

    def _make(
        self, *topics: str, partitions: int = 1, settings: dict[str, str] | None = None
    ) -> None:
        wanted = [NewTopic(topic, partitions, config=settings or {}) for topic in topics]
        for made in self._admin.create_topics(wanted).values():
            made.result()

    def _send(
        self,
        topic: str,
        numbers: Iterable[int],
        *,
        producer: Producer | None = None,
        timestamps: bool = False,
    ) -> None:
        producer = producer or self._producer
        for number in numbers:
            when_ms = FIRST_MS + number * HOUR_MS if timestamps else 0  # 0: now
            producer.produce(topic, str(number).encode(), timestamp=when_ms)
        assert producer.flush(WAIT_SECONDS) == 0

    def _read(self, topic: str | None, *, source: str = "kafka", **options: Any) -> "DataFrame":
        chosen = self._servers | options | ({"subscribe": topic} if topic else {})
        return self._spark.read.format(source).options(**chosen).load()

    def _numbers(self, rows: "DataFrame") -> list[int]:
        return sorted(int(row.value) for row in rows.select("value").collect())

    def _checkpoint(self, name: str) -> Path:
        return self._folder / f"checkpoint-of-{name}"

    def _start(self, topic: str | None, sink: str, into: str | None = None, **options: Any) -> Any:
        chosen = {"startingOffsets": "earliest"} | self._servers | options
        chosen |= {"subscribe": topic} if topic else {}
        rows = self._spark.readStream.format("kafka").options(**chosen).load().select("value")
        writer = rows.writeStream.format(sink)
        writer = writer.option("checkpointLocation", str(self._checkpoint(topic or str(into))))
        if into is None:
            return writer.queryName(topic or "rows").start()
        writer = writer.options(**self._servers).option("topic", into)
        return writer.trigger(availableNow=True).start()

    def _run(
        self, topic: str | None, into: str, *, sink: str = "kafka", **options: Any
    ) -> list[int]:
        """Until everything is read; the sizes of the batches."""
        query = self._start(topic, sink, into, **options)
        try:
            assert query.awaitTermination(WAIT_SECONDS), "the query does not end"
        finally:
            query.stop()
        return [each.numInputRows for each in query.recentProgress if each.numInputRows]


def _failure_of(run: Callable[[], object]) -> str:
    """Spark wraps what fails in types that differ by where it finds out."""
    try:
        run()
    except Exception as error:
        return str(error)
    return "no failure"


def all_checks(checks: ConnectorChecks) -> list[Callable[[], None]]:
    return [
        checks.batch_write,
        checks.batch_read,
        checks.stream_restart,
        checks.stream_following,
        checks.exactly_once,
        checks.data_loss,
        checks.pattern,
        checks.committed_only,
        checks.consumer_groups,
        checks.missing_topic,
    ]
