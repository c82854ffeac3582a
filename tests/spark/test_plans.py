"""What a session's planner was taught: columns without rows, for batches and for streams."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.spark.plans import java_classes, planning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MakeTopic = Callable[..., str]
Send = Callable[..., None]

TRANSITION = "ColumnarToRow"


def plan_of(rows: "DataFrame") -> str:
    return str(rows._jdf.queryExecution().executedPlan().toString())


def read(spark: "SparkSession", bootstrap: str, topic: str) -> "DataFrame":
    return spark.read.format("goqueue").option("bootstrap.servers", bootstrap).load(topic)


def stream(spark: "SparkSession", bootstrap: str, topic: str, folder: Path) -> "StreamingQuery":
    rows = (
        spark.readStream.format("goqueue")
        .option("bootstrap.servers", bootstrap)
        .option("startingOffsets", "earliest")
        .load(topic)
    )
    query = (
        rows.filter("offset > 0")
        .select("value", "key")
        .writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


@pytest.fixture
def topic(make_topic: MakeTopic, send: Send) -> str:
    name = make_topic()
    send(name, [{"value": None, "key": b"k"}, {"value": b"", "key": b"k"}, {"value": b"3"}])
    return name


def test_a_batch_is_read_as_columns(spark: "SparkSession", bootstrap: str, topic: str) -> None:
    rows = read(spark, bootstrap, topic).select("key", "value", "offset")
    assert TRANSITION in plan_of(rows)
    assert [tuple(row) for row in rows.orderBy("offset").collect()] == [
        (b"k", None, 0),
        (b"k", b"", 1),
        (None, b"3", 2),
    ]


def test_a_stream_is_read_as_columns(
    spark: "SparkSession", bootstrap: str, topic: str, tmp_path: Path
) -> None:
    query = stream(spark, bootstrap, topic, tmp_path)
    explained = query._jsq.explainInternal(False)
    assert TRANSITION in explained
    assert sum(progress.numInputRows for progress in query.recentProgress) == 3
    written = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted((row.value, row.key) for row in written) == [(b"", b"k"), (b"3", None)]


def test_rows_do_where_java_refuses_columns(
    spark: "SparkSession",
    bootstrap: str,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(spark: "SparkSession", name: str) -> java_classes.CompiledFile:
        if name == "ArrowReading":
            raise TypeError("'JavaPackage' object is not callable")
        return java_classes.compiled(spark, name)

    monkeypatch.setattr(planning, "compiled", refuse)
    plain = spark.newSession()
    planning.teach_planner(plain)
    assert "one by one" in caplog.text
    rows = read(plain, bootstrap, topic).select("value")
    assert TRANSITION not in plan_of(rows)
    assert sorted(row.value or b"" for row in rows.collect()) == [b"", b"", b"3"]


def test_rows_do_where_tasks_do_not_get_our_classes(
    spark: "SparkSession", bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    isolated = spark.newSession()
    isolated.conf.set("spark.sql.artifact.isolation.enabled", "true")
    planning.teach_planner(isolated)
    assert "isolation" in caplog.text
    rows = read(isolated, bootstrap, topic).select("offset")
    assert TRANSITION not in plan_of(rows)
    assert sorted(row.offset for row in rows.collect()) == [0, 1, 2]
