"""GoQueue as a Spark source and sink, and the pipelines that run on it.

Needs the extra `goqueue[spark]`. Talks to a broker through `goqueue.client` only. Sources and
writers are pickled by Spark: they hold options, and open connections where they run.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goqueue.spark.archive.view import archived
    from goqueue.spark.spark_session import session

__all__ = ["archived", "session"]


def __getattr__(name: str) -> Any:
    """Each of Spark's many short-lived workers imports this package: nothing is loaded unasked."""
    if name == "session":
        from goqueue.spark.spark_session import session

        return session
    if name == "archived":
        from goqueue.spark.archive.view import archived

        return archived
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
