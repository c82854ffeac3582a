"""A streaming query that archives a topic into a Delta table, as a process that can be killed.

Prints `batch N` when a batch is done. With `--available-now` it ends when it has everything.
"""

import argparse

import goqueue.spark
from goqueue.spark.archive.archive import Archive, archive_writer
from goqueue.spark.archive.upkeep import Upkeep
from tests.crash.spark_copy_job import RECORDS_PER_TRIGGER, follow

# Often, so that kills meet compactions too.
COMMITS_PER_COMPACTION = 5


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "source", "table", "checkpoint"):
        parser.add_argument(name)
    parser.add_argument("--available-now", action="store_true")
    given = parser.parse_args()
    # Tasks are tried four times, as on a cluster.
    spark = goqueue.spark.session("spark-delta-rounds", "local[2,4]", spark_log_level="ERROR")
    archive = Archive(
        bootstrap_servers=given.bootstrap,
        topic=given.source,
        table=given.table,
        group="archive",
        checkpoint=given.checkpoint,
        max_batch_records=RECORDS_PER_TRIGGER,
        upkeep=Upkeep(compact_every=COMMITS_PER_COMPACTION),
    )
    writer = archive_writer(spark, archive)
    if given.available_now:
        writer = writer.trigger(availableNow=True)
    follow(writer.start())


if __name__ == "__main__":
    main()
