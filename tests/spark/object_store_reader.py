"""A program of its own that reads an archive in an object store, for test_object_store.py."""

import json
import sys

import goqueue.spark


def main(table: str, bootstrap: str, conf: dict[str, str]) -> None:
    spark = goqueue.spark.session("reader", "local[1]", **conf)
    frame = goqueue.spark.archived(spark, table=table, bootstrap_servers=bootstrap)
    rows = frame.selectExpr("CAST(value AS STRING)").collect()
    print(json.dumps([row[0] for row in rows]))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
