"""Pipelines of users' functions."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import GoQueueError
from tests.spark.committed_reading import values_of
from tests.spark.pipeline_runs import run_file, write_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Send = Callable[..., None]
MakeTopic = Callable[..., str]

FUNCTIONS = """
from pyspark.sql.functions import udf

@udf("string", useArrow=False)
def shout(text):
    return text.upper()

def frame(spark, context):
    return spark.table("words").select(shout("value").alias("value"))

def query(spark, context):
    words = frame(spark, context).writeStream.format("goqueue")
    words = words.options(**context.definition.sink.options).trigger(availableNow=True)
    return words.option("checkpointLocation", context.checkpoint).start()

def broken(spark, context):
    return spark.table("wrods")

def nothing(spark, context):
    return 7
"""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOQUEUE_PIPELINES", str(tmp_path / "state"))


def test_functions(
    spark: "SparkSession", bootstrap: str, make_topic: MakeTopic, send: Send, tmp_path: Path
) -> None:
    source, sink = make_topic(), make_topic()

    def write(function: str) -> Path:
        text = f"""name = "{function}"
kind = "python"
bootstrap.servers = "{bootstrap}"
[[source]]
name = "words"
topic = "{source}"
format = "string"
[python]
function = "functions.py:{function}"
[sink]
topic = "{sink}"
"""
        return write_pipeline(tmp_path, text, functions_py=FUNCTIONS)

    send(source, [b"a"])
    assert run_file(spark, write("frame")).rows == 1
    send(source, [b"b"])
    assert run_file(spark, write("query")).rows == 2  # a checkpoint of its own
    assert values_of(bootstrap, sink) == [b"A", b"A", b"B"]
    with pytest.raises(GoQueueError, match=r"functions\.py:17: AnalysisException in .*`wrods`"):
        run_file(spark, write("broken"))
    with pytest.raises(GoQueueError, match="returned int; return a DataFrame, or"):
        run_file(spark, write("nothing"))
