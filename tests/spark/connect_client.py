"""A program of its own that uses topics through Spark Connect, for test_connect.py.

A process with a classic session cannot have a Connect session beside it.
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession as AnySession
from pyspark.sql import functions

import goqueue.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Names:
    """Topics and the query of one run of this program."""

    run: str

    @property
    def source(self) -> str:
        return f"connect-source-{self.run}"

    @property
    def sink(self) -> str:
        return f"connect-sink-{self.run}"

    @property
    def batch_sink(self) -> str:
        return f"connect-batch-{self.run}"

    @property
    def query(self) -> str:
        return f"connect-copy-{self.run}"


# A limit for a machine that does much else.
WAIT_SECONDS = 300


def main(remote: str, bootstrap: str, checkpoint: Path, names: Names) -> None:
    plain = AnySession.Builder().remote(remote).create()
    _batch(plain, bootstrap, names)
    plain.stop()

    spark = goqueue.spark.session(remote=remote)
    copied = _copy(spark, bootstrap, checkpoint, names)
    # As after a crash between the broker's decision and Spark's own note of it.
    for note in (checkpoint / "commits").iterdir():
        note.unlink()
    _copy(spark, bootstrap, checkpoint, names)
    found = {
        "client": type(spark).__module__,
        "copied": copied,
        "committed_offset": _committed_offset(bootstrap, names),
        "worker_python": _worker_python(spark),
    }
    print(json.dumps(found))
    # The session is not stopped: a program must end all the same.


def _worker_python(spark: "SparkSession") -> str:
    def executable(_number: int) -> str:
        import sys

        return sys.executable

    row = spark.range(1).select(functions.udf(executable, "string")("id")).head()
    assert row is not None
    return str(row[0])


def _batch(spark: "SparkSession", bootstrap: str, names: Names) -> None:
    options = {"bootstrap.servers": bootstrap}
    rows = spark.read.format("goqueue").options(**options, topic=names.source).load()
    rows = rows.where("offset >= 97").selectExpr("upper(CAST(value AS STRING)) AS value")
    rows.write.format("goqueue").options(**options, topic=names.batch_sink).mode("append").save()


def _copy(spark: "SparkSession", bootstrap: str, checkpoint: Path, names: Names) -> int:
    options = {"bootstrap.servers": bootstrap}
    reader = spark.readStream.format("goqueue").options(**options, topic=names.source)
    query = (
        reader.option("startingOffsets", "earliest")
        .load()
        .select("value")
        .writeStream.format("goqueue")
        .options(**options, topic=names.sink, checkpointLocation=str(checkpoint))
        .queryName(names.query)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(WAIT_SECONDS)
    return sum(progress.numInputRows for progress in query.recentProgress)


def _committed_offset(bootstrap: str, names: Names) -> int:
    """The listener learns of a batch after the query has ended."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"spark-{names.query}"})
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        while True:
            offset: int = consumer.committed([TopicPartition(names.source, 0)], WAIT_SECONDS)[
                0
            ].offset
            if offset >= 0 or time.monotonic() > deadline:
                return offset
    finally:
        consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Names(sys.argv[4]))
