"""GoQueue as a Spark source and sink, and the pipelines that run on it.

Needs the extra `goqueue[spark]`. Talks to a broker through `goqueue.client` only. Sources and
writers are pickled by Spark: they hold options, and open connections where they run.
"""

from goqueue.spark.archive_view import archived
from goqueue.spark.spark_session import session

__all__ = ["archived", "session"]
