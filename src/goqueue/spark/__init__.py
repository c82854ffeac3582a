"""GoQueue as a Spark source and sink, and the pipelines that run on it.

Needs the extra `goqueue[spark]`. Talks to a broker through `goqueue.client` only. Sources and
writers are pickled by Spark: they hold options, and open connections where they run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from goqueue.spark.archive.delta_table import read_delta
    from goqueue.spark.archive.view import archived
    from goqueue.spark.spark_session import session

__all__ = ["archived", "read_delta", "session"]

_MODULES: Final = {
    "archived": "goqueue.spark.archive.view",
    "read_delta": "goqueue.spark.archive.delta_table",
    "session": "goqueue.spark.spark_session",
}


def __getattr__(name: str) -> Any:
    """Each of Spark's many short-lived workers imports this package: nothing is loaded unasked."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
