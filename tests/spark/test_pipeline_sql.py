"""Pipelines of SQL, from topics into topics and tables."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.model.errors import GoQueueError
from goqueue.spark.pipelines.checks import check_broker, check_spark, load_pipeline
from goqueue.spark.pipelines.problems import InvalidPipeline
from goqueue.spark.pipelines.run_status import RunState
from goqueue.spark.pipelines.state_folder import StateFolder
from tests.spark.committed_reading import read_committed, values_of
from tests.spark.pipeline_runs import run_file, write_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Send = Callable[..., None]
MakeTopic = Callable[..., str]


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOQUEUE_PIPELINES", str(tmp_path / "state"))


def orders(*rows: tuple[str, float]) -> list[bytes]:
    return [json.dumps({"customer": name, "amount": amount}).encode() for name, amount in rows]


def definition(bootstrap: str, topic: str, sink: str, query: str, source: str = "") -> str:
    return f'''name = "revenue"
kind = "sql"
bootstrap.servers = "{bootstrap}"

[[source]]
name = "orders"
topic = "{topic}"
format = "json"
schema = "customer STRING, amount DOUBLE"
mode = "permissive"
{source}

[sql]
query = """
{query}
"""

[sink]
{sink}
'''


def found_values(bootstrap: str, topic: str) -> list[Any]:
    return [json.loads(value) for value in values_of(bootstrap, topic)]


def test_rows_go_to_a_topic_once_over_runs(
    spark: "SparkSession", bootstrap: str, make_topic: MakeTopic, send: Send, tmp_path: Path
) -> None:
    source, sink = make_topic(partitions=2), f"made-{time.time_ns()}"
    path = write_pipeline(
        tmp_path,
        definition(
            bootstrap,
            source,
            f'topic = "{sink}"\npartitions = 3\nkey = "customer"',
            "SELECT value.customer, value.amount * 2 AS doubled FROM orders\n"
            "WHERE value.amount IS NOT NULL",
        ),
    )
    send(source, [*orders(("ann", 1.5), ("bob", 2.0)), b"not JSON"])
    first = run_file(spark, path)
    assert first.state is RunState.FINISHED
    assert first.rows == 3
    assert first.progress[-1].lag == 0
    assert first.status is not None
    assert first.status.progress["revenue"]["batchId"] == first.progress[-1].batch_id

    send(source, orders(("ann", 10.0)))
    assert run_file(spark, path).rows == 1  # goes on where the first run ended
    messages = read_committed(bootstrap, sink)
    assert {m.key() for m in messages} == {b"ann", b"bob"}
    assert sorted(json.loads(m.value() or b"")["doubled"] for m in messages) == [3.0, 4.0, 20.0]


def test_windows_with_a_watermark_into_a_delta_table(
    spark: "SparkSession", bootstrap: str, make_topic: MakeTopic, send: Send, tmp_path: Path
) -> None:
    topic = make_topic()
    path = write_pipeline(
        tmp_path,
        definition(
            bootstrap,
            topic,
            'table = "revenue"',
            "SELECT window.start AS minute, sum(value.amount) AS revenue FROM orders\n"
            "GROUP BY window(timestamp, '1 minute')",
            'watermark = { column = "timestamp", delay = "10 seconds" }',
        ),
    )
    minute_ms = 60_000
    first = (time.time_ns() // 1_000_000 // minute_ms - 60) * minute_ms
    amounts = [(first, 1.0), (first + 30_000, 2.0), (first + minute_ms, 4.0)]
    records = [
        {"value": each, "timestamp": at}
        for (at, _), each in zip(amounts, orders(*(("x", a) for _, a in amounts)), strict=True)
    ]
    # Closes the windows before it.
    records.append({"value": orders(("x", 8.0))[0], "timestamp": first + 10 * minute_ms})
    send(topic, records)
    run = run_file(spark, path)
    assert run.progress[-1].watermark is not None

    from goqueue.spark.archive.delta_table import read_delta

    rows = read_delta(spark, str(tmp_path / "revenue")).collect()
    assert sorted(row["revenue"] for row in rows) == [3.0, 4.0]


def test_topics_joined_in_update_mode(
    spark: "SparkSession", bootstrap: str, make_topic: MakeTopic, send: Send, tmp_path: Path
) -> None:
    source, sink, names = make_topic(), make_topic(), make_topic()
    send(names, [b'{"customer": "ann", "country": "PT"}'])
    send(source, orders(("ann", 1.0), ("ann", 2.0), ("bob", 9.0)))
    path = write_pipeline(
        tmp_path,
        definition(
            bootstrap,
            source,
            f'topic = "{sink}"\nmode = "update"\nkey = "country"',
            "SELECT c.value.country AS country, sum(o.value.amount) AS revenue\n"
            "FROM orders o JOIN customers c ON o.value.customer = c.value.customer GROUP BY 1",
        )
        + f'\n[[source]]\nname = "customers"\ntopic = "{names}"\nformat = "json"\n'
        'schema = "customer STRING, country STRING"\nstream = false\n',
    )
    run_file(spark, path)
    send(source, orders(("ann", 4.0)))
    run_file(spark, path)
    assert found_values(bootstrap, sink) == [
        {"country": "PT", "revenue": 3.0},
        {"country": "PT", "revenue": 7.0},
    ]


def test_a_stream_runs_until_it_is_stopped(
    spark: "SparkSession", bootstrap: str, make_topic: MakeTopic, send: Send, tmp_path: Path
) -> None:
    source, sink = make_topic(), make_topic()
    query = "SELECT value.customer AS value FROM orders"
    path = write_pipeline(tmp_path, definition(bootstrap, source, f'topic = "{sink}"', query))
    send(source, orders(("a", 1.0)))
    folder = StateFolder("revenue")

    def more(progress: Any, stop: Any) -> None:
        assert folder.status().state is RunState.RUNNING
        with pytest.raises(GoQueueError, match="is running already"):
            run_file(spark, path)
        if progress.total_rows < 2:
            send(source, orders(("b", 1.0)))
        else:
            folder.request_stop()

    run = run_file(spark, path, trigger="100 milliseconds", on_progress=more)
    assert run.state is RunState.STOPPED
    assert values_of(bootstrap, sink) == [b"a", b"b"]
    assert not spark.streams.active


def test_a_failure_names_its_cause_and_writes_nothing(
    spark: "SparkSession", bootstrap: str, make_topic: MakeTopic, send: Send, tmp_path: Path
) -> None:
    source, sink = make_topic(), make_topic()
    query = "SELECT IF(value.amount > 5, raise_error('too dear'), 'x') AS value FROM orders"
    path = write_pipeline(tmp_path, definition(bootstrap, source, f'topic = "{sink}"', query))
    send(source, orders(("a", 1.0), ("b", 9.0)))
    with pytest.raises(GoQueueError, match="pipeline 'revenue' failed: too dear"):
        run_file(spark, path)
    status = StateFolder("revenue").status()
    assert (status.state, status.error) == (RunState.FAILED, "too dear")
    assert values_of(bootstrap, sink) == []
    assert not spark.streams.active


@pytest.mark.parametrize(
    ("change", "line", "expected"),
    [
        (("value.customer,", "value.custommer,"), 15, "No such struct field `custommer`"),
        (("SELECT", "SELEKT"), 15, "Syntax error at or near 'SELEKT'"),
        (("FROM orders", "FROM order_s"), 16, "table or view `order_s` cannot be found"),
        (("amount DOUBLE", "amount DUBBLE"), 9, "DUBBLE"),
        (
            ("customer STRING,", "customer STRING, at STRING,"),
            11,
            "value.at is string; a watermark",
        ),
        (('key = "customer"', 'key = "kustomer"'), 22, "there is no column 'kustomer'"),
        (("GROUP BY 1", "GROUP BY 1, window(timestamp, '1 minute')"), 19, "without watermark"),
        (("total", "value"), 19, "column 'customer' is not one that a record has"),
    ],
)
def test_what_spark_refuses_is_named_with_its_line(
    spark: "SparkSession",
    bootstrap: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    change: tuple[str, str],
    line: int,
    expected: str,
) -> None:
    text = definition(
        bootstrap,
        make_topic(),
        f'topic = "{make_topic()}"\nmode = "append"\nkey = "customer"',
        "SELECT value.customer,\nsum(value.amount) AS total FROM orders GROUP BY 1",
        'watermark = { column = "value.at", delay = "1 minute" }' if line == 11 else "",
    )
    if line != 19:
        text = text.replace('"append"', '"update"')
    path = write_pipeline(tmp_path, text.replace(*change, 1))
    pipeline = load_pipeline(path)
    check_broker(pipeline)
    with pytest.raises(InvalidPipeline) as raised:
        check_spark(spark, pipeline)
    (problem,) = raised.value.problems
    assert expected in problem.what
    assert problem.line == line
