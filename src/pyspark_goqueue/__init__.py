"""Lets Spark find `format("goqueue")` by itself: it looks for packages named pyspark_*."""

from goqueue.spark.data_source import GoQueueSource as DefaultSource

__all__ = ["DefaultSource"]
