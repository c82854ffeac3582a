"""Streaming writes: every batch once, however often it is run."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from goqueue.client.http_api import HttpApi
from goqueue.testing import ServerProcess
from tests.spark.committed_reading import read_committed, values_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAIT_SECONDS = 60


class Copy:
    """A query that copies one topic to another, run until it has everything."""

    def __init__(
        self, spark: "SparkSession", bootstrap: str, source: str, sink: str, checkpoint: Path
    ) -> None:
        self._spark = spark
        self._options = {"bootstrap.servers": bootstrap}
        self.source = source
        self.sink = sink
        self.checkpoint = checkpoint

    def rows(self) -> "DataFrame":
        reader = self._spark.readStream.format("goqueue").options(**self._options)
        reader = reader.option("topic", self.source).option("startingOffsets", "earliest")
        return reader.load().select("key", "value")

    def run(self, **options: str) -> str:
        """Returns the query's id, which the checkpoint keeps."""
        query = (
            self.rows()
            .writeStream.format("goqueue")
            .options(**self._options, **options)
            .option("topic", self.sink)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(WAIT_SECONDS)
        finally:
            query.stop()
        return str(query.id)

    def forget_commits(self) -> None:
        """As after a crash between the broker's decision and Spark's own note of it."""
        for note in (self.checkpoint / "commits").iterdir():
            note.unlink()


@pytest.fixture
def copy(
    spark: "SparkSession", bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> Copy:
    source, sink = make_topic(partitions=2), make_topic(partitions=2)
    return Copy(spark, bootstrap, source, sink, tmp_path / "checkpoint")


def test_a_batch_that_spark_forgot_is_not_written_again(
    copy: Copy, broker: ServerProcess, bootstrap: str, send: Callable[..., None]
) -> None:
    values = [b"%d" % number for number in range(200)]
    send(copy.source, values)
    query_id = copy.run()
    assert values_of(bootstrap, copy.sink) == sorted(values)
    group = HttpApi(broker.http_url).get("transactions", "groups", f"spark-query.{query_id}")
    assert (group["lastCommitted"], group["openMembers"]) == (0, [])

    copy.forget_commits()
    assert copy.run() == query_id
    assert values_of(bootstrap, copy.sink) == sorted(values)

    send(copy.source, [b"later"])
    assert copy.run() == query_id
    assert values_of(bootstrap, copy.sink) == sorted([*values, b"later"])
    everything = read_committed(bootstrap, copy.sink, isolation="read_uncommitted")
    assert len(everything) == 201, "the batch was recognised before it was written"


def test_at_least_once_needs_no_transaction(
    copy: Copy, bootstrap: str, send: Callable[..., None]
) -> None:
    send(copy.source, [b"a"])
    copy.run(**{"delivery.guarantee": "at-least-once"})
    assert values_of(bootstrap, copy.sink) == [b"a"]


def test_a_broken_batch_leaves_nothing(
    copy: Copy, bootstrap: str, send: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    send(copy.source, [b"good", b"bad"])
    whole = copy.rows()
    broken = whole.selectExpr("IF(value = 'bad', raise_error('a bad row'), value) AS value")
    monkeypatch.setattr(copy, "rows", lambda: broken)
    with pytest.raises(StreamingQueryException, match="a bad row"):
        copy.run()
    assert values_of(bootstrap, copy.sink) == []

    monkeypatch.setattr(copy, "rows", lambda: whole)
    copy.run()
    assert values_of(bootstrap, copy.sink) == [b"bad", b"good"]
