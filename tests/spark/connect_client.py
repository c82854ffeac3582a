"""A program of its own that uses topics through Spark Connect, for test_connect.py.

A process with a classic session cannot have a Connect session beside it.
"""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession as AnySession

import goqueue.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE, SINK, BATCH_SINK, QUERY = "connect-source", "connect-sink", "connect-batch", "connect-copy"
WAIT_SECONDS = 60


def main(remote: str, bootstrap: str, checkpoint: Path) -> None:
    plain = AnySession.Builder().remote(remote).create()
    _batch(plain, bootstrap)
    plain.stop()

    spark = goqueue.spark.session(remote=remote)
    copied = _copy(spark, bootstrap, checkpoint)
    # As after a crash between the broker's decision and Spark's own note of it.
    for note in (checkpoint / "commits").iterdir():
        note.unlink()
    _copy(spark, bootstrap, checkpoint)
    found = {
        "client": type(spark).__module__,
        "copied": copied,
        "committed_offset": _committed_offset(bootstrap),
    }
    print(json.dumps(found))
    # The session is not stopped: a program must end all the same.


def _batch(spark: "SparkSession", bootstrap: str) -> None:
    options = {"bootstrap.servers": bootstrap}
    rows = spark.read.format("goqueue").options(**options, topic=SOURCE).load()
    rows = rows.where("offset >= 97").selectExpr("upper(CAST(value AS STRING)) AS value")
    rows.write.format("goqueue").options(**options, topic=BATCH_SINK).mode("append").save()


def _copy(spark: "SparkSession", bootstrap: str, checkpoint: Path) -> int:
    options = {"bootstrap.servers": bootstrap}
    reader = spark.readStream.format("goqueue").options(**options, topic=SOURCE)
    query = (
        reader.option("startingOffsets", "earliest")
        .load()
        .select("value")
        .writeStream.format("goqueue")
        .options(**options, topic=SINK, checkpointLocation=str(checkpoint))
        .queryName(QUERY)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(WAIT_SECONDS)
    return sum(progress.numInputRows for progress in query.recentProgress)


def _committed_offset(bootstrap: str) -> int:
    """The listener learns of a batch after the query has ended."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"spark-{QUERY}"})
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        while True:
            offset: int = consumer.committed([TopicPartition(SOURCE, 0)], WAIT_SECONDS)[0].offset
            if offset >= 0 or time.monotonic() > deadline:
                return offset
    finally:
        consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
