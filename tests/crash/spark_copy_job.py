"""A streaming query that copies a topic to another, as a process that can be killed.

Prints `batch N` when a batch is done. With `--available-now` it ends when it has everything.
"""

import argparse
import time
from typing import TYPE_CHECKING

import goqueue.spark

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# Small, so that there are many batches to be killed in.
RECORDS_PER_TRIGGER = 250
POLL_SECONDS = 0.02


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "source", "sink", "checkpoint"):
        parser.add_argument(name)
    parser.add_argument("--available-now", action="store_true")
    given = parser.parse_args()
    # Tasks are tried four times, as on a cluster.
    spark = goqueue.spark.session("spark-rounds", "local[2,4]", spark_log_level="ERROR")
    reading = (
        spark.readStream.format("goqueue")
        .option("bootstrap.servers", given.bootstrap)
        .option("topic", given.source)
        .option("startingOffsets", "earliest")
    )
    if not given.available_now:
        reading = reading.option("maxOffsetsPerTrigger", RECORDS_PER_TRIGGER)
    writing = (
        reading.load()
        .select("key", "value")
        .writeStream.format("goqueue")
        .option("bootstrap.servers", given.bootstrap)
        .option("topic", given.sink)
        .option("checkpointLocation", given.checkpoint)
    )
    if given.available_now:
        writing = writing.trigger(availableNow=True)
    follow(writing.start())


def follow(query: "StreamingQuery") -> None:
    """Print every batch, until the query ends or fails."""
    last = None
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress.batchId != last:
            last = progress.batchId
            print(f"batch {last}", flush=True)
        time.sleep(POLL_SECONDS)
    query.awaitTermination()


if __name__ == "__main__":
    main()
