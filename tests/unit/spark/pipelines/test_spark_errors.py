"""Spark's errors in one line."""

import pytest

from goqueue.model.errors import UnknownTopic
from goqueue.spark.pipelines.spark_errors import plain_reason, sql_line

PYTHON = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform \
latestOffset: Traceback (most recent call last):
  File "/venv/site-packages/pyspark/x.py", line 279, in main
  File "/own/client.py", line 9, in topics
    raise UnknownTopic(
{raised}
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ==="""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[FIELD_NOT_FOUND] No such struct field `a` in `b`. SQLSTATE: 42704; line 1 pos 7",
            "No such struct field `a` in `b`",
        ),
        (
            "[STREAM_FAILED] Query [id = x, runId = y] terminated with exception: requirement "
            "failed: no such mode. SQLSTATE: XXKST\n=== Streaming Query ===\nplan",
            "requirement failed: no such mode",
        ),
        (
            PYTHON.format(raised="goqueue.model.errors.UnknownTopic: there is no topic 'x'; make"),
            "there is no topic 'x'; make",
        ),
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed to get the schema: "
            "goqueue.spark.option_names.InvalidOption: there is no option 'x'\n SQLSTATE: 38000",
            "there is no option 'x'",
        ),
        (
            PYTHON.format(raised="ZeroDivisionError: division by zero"),
            "/own/client.py:9: ZeroDivisionError: division by zero",
        ),
        (
            "Job aborted due to stage failure: org.apache.spark.SparkRuntimeException: "
            "[USER_RAISED_EXCEPTION] too dear SQLSTATE: P0001\n\tat org.x(y)\n",
            "too dear",
        ),
        ("plain", "plain"),
        ("", "RuntimeError"),
    ],
)
def test_reasons(text: str, expected: str) -> None:
    assert plain_reason(RuntimeError(text)) == expected


def test_ours_are_taken_as_they_are_and_long_ones_are_cut() -> None:
    assert plain_reason(UnknownTopic("there is no topic 'x'")) == "there is no topic 'x'"
    assert len(plain_reason(RuntimeError("x" * 5000))) == 600


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("… SQLSTATE: 42601 (line 2, pos 3)\n== SQL ==", 2),
        ("x; line 12 pos 7;\n'Project", 12),
        ("x", None),
    ],
)
def test_lines_of_queries(text: str, line: int | None) -> None:
    assert sql_line(RuntimeError(text)) == line


def test_a_missing_client_for_s3_is_named() -> None:
    error = RuntimeError(
        "java.lang.RuntimeException: java.lang.ClassNotFoundException: Class "
        "org.apache.hadoop.fs.s3a.S3AFileSystem not found\n\tat org.apache.hadoop.conf…"
    )
    assert plain_reason(error).startswith("Spark has no client for S3: set spark.jars.packages to")
