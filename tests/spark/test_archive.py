"""Topics in Delta tables, and the view over table and log."""

import datetime
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException

from goqueue.client.http_api import HttpApi
from goqueue.spark import archived
from goqueue.spark.archive.archive import Archive, archive_writer, make_retention_wait
from goqueue.spark.archive.delta_schema import TableMismatch
from goqueue.spark.archive.delta_table import (
    BatchMark,
    TableTarget,
    delta_writer,
    open_table,
    read_delta,
    write_batch,
)
from goqueue.spark.archive.table import (
    NotThisArchive,
    archive_target,
    next_offsets,
    open_archive,
)
from goqueue.spark.archive.upkeep import Upkeep
from goqueue.spark.option_names import InvalidOption
from goqueue.spark.source.stream_planning import DataLoss
from goqueue.testing import ServerProcess
from tests.spark.test_source_schemas import avro, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Every query starts processes of Spark's, which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(300)

MakeTopic = Callable[..., str]
Send = Callable[..., None]
JANUARY_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
DAY_MS = 86_400_000


@pytest.fixture
def archive(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> Archive:
    topic = make_topic(partitions=2, retention_ms="-1")
    return Archive(
        bootstrap_servers=bootstrap,
        topic=topic,
        table=str(tmp_path / "table"),
        group=f"archive-{topic}",
        checkpoint=str(tmp_path / "checkpoint"),
        upkeep=Upkeep(compact_every=0),
    )


def run(
    spark: "SparkSession", archive: Archive, tell: Callable[[str], None] = lambda _line: None
) -> None:
    query = archive_writer(spark, archive, tell).trigger(availableNow=True).start()
    query.awaitTermination()


def view_of(
    spark: "SparkSession", archive: Archive, *, fail_on_data_loss: bool = True
) -> "DataFrame":
    return archived(
        spark,
        table=archive.table,
        bootstrap_servers=archive.bootstrap_servers,
        fail_on_data_loss=fail_on_data_loss,
    )


def records(first: int, count: int, *, start_ms: int = JANUARY_MS) -> list[dict[str, object]]:
    return [
        {
            "key": b"k%d" % number,
            "value": b"%d" % number,
            "partition": number % 2,
            "timestamp": start_ms + number * 1000,
            "headers": [("n", b"%d" % number)],
        }
        for number in range(first, first + count)
    ]


def numbers(frame: "DataFrame") -> list[int]:
    return sorted(int(bytes(row["value"])) for row in frame.select("value").collect())


def test_records_are_archived_once_and_go_on_live(
    spark: "SparkSession", broker: ServerProcess, archive: Archive, send: Send
) -> None:
    send(archive.topic, records(0, 100))
    run(spark, archive)
    send(archive.topic, records(100, 60, start_ms=JANUARY_MS + DAY_MS))
    # A checkpoint that is lost costs nothing.
    shutil.rmtree(archive.checkpoint)
    run(spark, archive)

    frame = read_delta(spark, archive.table)
    assert numbers(frame) == list(range(160))
    days = {(str(row.day), row.partition) for row in frame.select("day", "partition").collect()}
    assert days == {(day, p) for day in ("2026-01-01", "2026-01-02") for p in (0, 1)}
    table = open_archive(archive_target(archive.table))
    assert next_offsets(table, [0, 1, 2]) == {0: 80, 1: 80}
    committed = HttpApi(broker.http_url).get("groups", archive.group)
    assert json.dumps(committed).count("80") >= 2

    send(archive.topic, records(160, 7, start_ms=JANUARY_MS + DAY_MS))
    whole = archived(spark, table=archive.table, bootstrap_servers=archive.bootstrap_servers)
    assert numbers(whole) == list(range(167))
    row = whole.where("offset = 83 AND partition = 0").collect()[0]
    assert (row.topic, bytes(row.key), row.priority) == (archive.topic, b"k166", 2)
    assert [(each.key, bytes(each.value)) for each in row.headers] == [("n", b"166")]

    second_day = archived(
        spark,
        table=archive.table,
        bootstrap_servers=archive.bootstrap_servers,
        since="2026-01-02T00:02:00Z",
        until=datetime.datetime(2026, 1, 2, 0, 2, 45, tzinfo=datetime.UTC),
    )
    assert numbers(second_day) == list(range(120, 165))
    assert numbers(whole.where("timestamp >= '2026-01-02T00:02:40Z'")) == list(range(160, 167))


def test_what_the_log_lost_before_it_was_archived(
    spark: "SparkSession", archive: Archive, send: Send
) -> None:
    send(archive.topic, records(0, 20))
    run(spark, archive)
    send(archive.topic, records(20, 20))
    admin = AdminClient({"bootstrap.servers": archive.bootstrap_servers})
    for started in admin.delete_records([TopicPartition(archive.topic, 0, 15)]).values():
        started.result()

    def view(*, fail_on_data_loss: bool = True) -> "DataFrame":
        return view_of(spark, archive, fail_on_data_loss=fail_on_data_loss)

    lost = f"{archive.topic}-0 offsets 10 to 14: deleted before they were archived"
    with pytest.raises(DataLoss, match=f"table {archive.table}: {lost}; set fail_on_data_loss"):
        view()
    kept = [number for number in range(40) if number % 2 or not 20 <= number < 30]
    assert numbers(view(fail_on_data_loss=False)) == kept
    with pytest.raises(StreamingQueryException, match="failOnDataLoss=false"):
        run(spark, archive)
    told: list[str] = []
    run(spark, replace(archive, fail_on_data_loss=False), told.append)
    assert told == [lost]
    assert numbers(read_delta(spark, archive.table)) == kept
    newest = open_archive(archive_target(archive.table)).history(1)[0]
    assert newest["goqueue"]["deletedBeforeArchived"] == {"0": [10, 14]}


def test_what_is_deleted_between_a_view_and_its_reading(
    spark: "SparkSession", archive: Archive, send: Send
) -> None:
    """It was archived meanwhile; the view has it from there."""
    with pytest.raises(NotThisArchive, match="there is no table"):
        view_of(spark, archive)
    archive_writer(spark, archive)  # makes the table, and is not started
    with pytest.raises(NotThisArchive, match=f"{archive.table} holds nothing of topic"):
        view_of(spark, archive)
    send(archive.topic, records(0, 20))
    run(spark, archive)
    send(archive.topic, records(20, 20))
    early = view_of(spark, archive)
    run(spark, archive)
    send(archive.topic, records(40, 10))
    admin = AdminClient({"bootstrap.servers": archive.bootstrap_servers})
    for started in admin.delete_records([TopicPartition(archive.topic, 0, 17)]).values():
        started.result()
    assert numbers(early) == list(range(50))
    row = early.where("partition = 0 AND offset = 15").collect()[0]
    assert (row.topic, bytes(row.key), row.priority) == (archive.topic, b"k30", 2)
    assert [(each.key, bytes(each.value)) for each in row.headers] == [("n", b"30")]
    assert numbers(view_of(spark, archive)) == list(range(50))


def test_columns_follow_the_registry(
    spark: "SparkSession", broker: ServerProcess, archive: Archive, send: Send
) -> None:
    typed = replace(archive, format="avro")
    with pytest.raises(InvalidOption, match="register a schema"):
        archive_writer(spark, typed)
    first: dict[str, Any] = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "Offset", "type": "int"}],
    }
    second = first | {
        "fields": [*first["fields"], {"name": "note", "type": "string", "default": "none"}]
    }
    for schema, value in ((first, {"id": 1}), (second, {"id": 2, "note": "new"})):
        schema_id = register(broker, f"{archive.topic}-value", schema)
        send(archive.topic, [avro(schema_id, schema, value | {"Offset": 5}), b"no Avro"])
        run(spark, typed)
    frame = read_delta(spark, archive.table)
    rows = frame.where("id IS NOT NULL").select("id", "value_Offset", "note").collect()
    assert sorted(map(tuple, rows)) == [(1, 5, None), (2, 5, "new")]
    assert frame.where("value = 'no Avro' AND id IS NULL").count() == 2
    # The view has them as well, with fields that the table does not have yet.
    third = second | {
        "fields": [*second["fields"], {"name": "topic", "type": ["null", "long"], "default": None}]
    }
    schema_id = register(broker, f"{archive.topic}-value", third)
    live = {"id": 3, "Offset": 6, "note": "live", "topic": 9}
    send(archive.topic, [avro(schema_id, third, live), b"no Avro"])
    view = view_of(spark, archive)
    shown = view.where("id IS NOT NULL").select(
        "topic", "id", "value_Offset", "note", "value_topic"
    )
    assert sorted(map(tuple, shown.collect())) == [
        (archive.topic, 1, 5, None, None),
        (archive.topic, 2, 5, "new", None),
        (archive.topic, 3, 6, "live", 9),
    ]
    assert view.where("value = 'no Avro' AND id IS NULL").count() == 3


def test_small_files_become_one(spark: "SparkSession", archive: Archive, send: Send) -> None:
    send(archive.topic, records(0, 40))
    run(
        spark,
        replace(archive, max_batch_records=10, upkeep=Upkeep(compact_every=3, keep_hours=168)),
    )
    table = open_archive(archive_target(archive.table))
    assert len(table.file_uris()) < 2 * 4
    assert [entry["operation"] for entry in table.history()].count("OPTIMIZE") == 1
    assert numbers(read_delta(spark, archive.table)) == list(range(40))
    assert next_offsets(table, [0, 1]) == {0: 20, 1: 20}

    shutil.rmtree(archive.table)
    send(archive.topic, records(40, 2))
    with pytest.raises(StreamingQueryException, match="the table was replaced"):
        run(spark, archive)


def test_retention_waits(broker: ServerProcess, archive: Archive) -> None:
    make_retention_wait(archive)
    settings = HttpApi(broker.http_url).get("topics", archive.topic)
    assert archive.group in json.dumps(settings)


def test_an_archive_belongs_to_one_topic(
    spark: "SparkSession", archive: Archive, make_topic: MakeTopic, bootstrap: str
) -> None:
    archive_writer(spark, archive)
    other = make_topic()
    with pytest.raises(NotThisArchive, match=f"archive of topic '{archive.topic}'"):
        archive_writer(spark, replace(archive, topic=other))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([archive.topic])[archive.topic].result()
    make_topic(name=archive.topic)
    with pytest.raises(NotThisArchive, match="deleted and made anew"):
        archive_writer(spark, archive)
    with pytest.raises(NotThisArchive, match="there is no table"):
        archived(spark, table=f"{archive.table}-not", bootstrap_servers=bootstrap)


def test_a_batch_is_written_once(spark: "SparkSession", tmp_path: Path) -> None:
    target = TableTarget(uri=str(tmp_path / "t"), partition_by=("name",))
    rows = spark.sql("SELECT id, IF(id = 3, NULL, concat('a b/', id % 2)) AS name FROM range(6)")
    mark = BatchMark(app_id="q", version=0, also={"reached": 6}, expects={"reached": None})
    assert write_batch(rows, target, mark)
    assert not write_batch(rows, target, mark)
    with pytest.raises(Exception, match="reached is at 6 now, and was at 5"):
        write_batch(rows, target, replace(mark, version=1, expects={"reached": 5}))
    # New columns come in addition, also within structs; types stay.
    assert write_batch(rows.selectExpr("*", "struct(id AS a) AS s"), target, None)
    wider = rows.selectExpr("*", "struct(id AS a, 'x' AS b) AS s")
    assert write_batch(wider, target, BatchMark(app_id="q", version=1))
    with pytest.raises(TableMismatch, match="column 'id' is int64 in the table and string"):
        write_batch(rows.selectExpr("CAST(id AS STRING) AS id", "name"), target, None)
    with pytest.raises(TableMismatch, match="is partitioned by name, not by nothing"):
        write_batch(rows, TableTarget(uri=target.uri), None)

    found = read_delta(spark, target.uri)
    assert sorted(row.id for row in found.collect()) == sorted([*range(6)] * 3)
    assert {row.name for row in found.collect()} == {"a b/0", "a b/1", None}
    assert found.where("s.b = 'x'").count() == 6
    assert write_batch(rows, target, BatchMark(app_id="q", version=2), overwrite=True)
    assert read_delta(spark, target.uri).count() == 6


def test_two_runs_of_one_query(spark: "SparkSession", tmp_path: Path) -> None:
    """Of two drivers that commit the same batch, one is refused, whatever the order."""
    from goqueue.spark.archive.delta_files import WrittenFiles
    from goqueue.spark.archive.delta_table import _commit, commit_files

    target = TableTarget(uri=str(tmp_path / "t"))
    write_batch(spark.range(1), target, None)
    late = open_table(target)
    assert late is not None
    mark = BatchMark(app_id="q", version=7)
    nothing = [WrittenFiles(files=[], schema=None)]
    commit_files(target, mark, nothing, overwrite=False)
    version = open_table(target).version()  # type: ignore[union-attr]
    with pytest.raises(Exception, match="Concurrent transaction"):
        _commit(late, mark, nothing, overwrite=False)
    commit_files(target, mark, nothing, overwrite=False)
    assert open_table(target).version() == version  # type: ignore[union-attr]


def test_results_in_a_table(
    spark: "SparkSession", archive: Archive, send: Send, tmp_path: Path
) -> None:
    send(archive.topic, records(0, 30))
    counted = (
        spark.readStream.format("goqueue")
        .option("bootstrap.servers", archive.bootstrap_servers)
        .option("topic", archive.topic)
        .option("startingOffsets", "earliest")
        .load()
        .groupBy("partition")
        .count()
    )
    for total in (30, 50):
        writer = delta_writer(counted, str(tmp_path / "counts"), is_complete=True)
        query = (
            writer.outputMode("complete")
            .option("checkpointLocation", str(tmp_path / "counting"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = read_delta(spark, str(tmp_path / "counts")).collect()
        assert {row.partition: row["count"] for row in rows} == {0: total // 2, 1: total // 2}
        send(archive.topic, records(30, 20))
