"""Whether a cluster's workers can run GoQueue's tasks, and if not, why, in one line.

Else the first query fails, after four tries of each task, with a page of two languages' stacks.
"""

import json
import logging
import re
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

# What a task imports first; the rest comes with them.
_NEEDED: Final = ("goqueue.spark.data_source", "pyarrow", "numba")
_GROUP: Final = "goqueue-worker-check"
# A cluster that is busy may hand out executors later: that is no reason to give up.
_ANSWER_SECONDS: Final = 90.0
# Enough to meet every worker of most clusters, and a moment's work.
_MAX_TASKS: Final = 64
_REMEDY: Final = (
    "make an archive with `goqueue pipeline package`, and give it as --package, `package` in [run] "
    "or session(package=…); or name a Python that has goqueue[spark] with spark.pyspark.python"
)

_NO_PROGRAM: Final = re.compile(r'Cannot run program "(?P<python>[^"]+)"')
_OTHER_VERSION: Final = re.compile(
    r"Python in worker has different version: (?P<worker>[\d.]+\w*) than that in driver: "
    r"(?P<driver>[\d.]+\w*)"
)
_NO_MODULE: Final = re.compile(
    r"No module named '?(?P<module>goqueue|pyspark_goqueue|numba|pyarrow)\b"
)
_NO_PYARROW: Final = re.compile(r"\[?PACKAGE_NOT_INSTALLED\]? *(?P<module>[Pp]yArrow)")
_HOST: Final = re.compile(r"\((?P<host>[^\s()]+) executor \w+\)")


class UnfitWorkers(GoQueueError):
    """The cluster's workers cannot run GoQueue's tasks."""

    code = "unfit_workers"


def check_workers(spark: "SparkSession") -> None:
    """Runs a small task on each worker that answers soon; `UnfitWorkers` says what is missing."""
    answers = _ask(spark)
    if answers is None:
        log.warning(
            "no worker took a task within %d s; is the cluster busy? Going on", _ANSWER_SECONDS
        )
        return
    unfit = sorted(
        {
            f"{each['python']} on {each['host']}: {each['problem']}"
            for each in answers
            if each["problem"]
        }
    )
    if unfit:
        raise UnfitWorkers(f"workers cannot run GoQueue: {'; '.join(unfit)}; {_REMEDY}")


def unfit_reason(text: str) -> str | None:
    """What is wrong with workers, if that is what Spark's message is about."""
    host = _HOST.search(text)
    where = f" on {host['host']}" if host else ""
    if found := _NO_PROGRAM.search(text):
        return f"workers have no Python at {found['python']}{where}; {_REMEDY}"
    if found := _OTHER_VERSION.search(text):
        return (
            f"workers run Python {found['worker']}{where}, and this program runs Python "
            f"{found['driver']}: Spark needs the same minor version; {_REMEDY}"
        )
    if found := _NO_MODULE.search(text) or _NO_PYARROW.search(text):
        return f"the workers' Python has no {found['module'].lower()}{where}; {_REMEDY}"
    return None


def _ask(spark: "SparkSession") -> list[dict[str, Any]] | None:
    """One answer per task; None if nobody took them in time."""
    from pyspark import cloudpickle
    from pyspark.sql import functions

    context = spark.sparkContext
    tasks = min(max(2, context.defaultParallelism), _MAX_TASKS)
    is_late = threading.Event()

    def give_up() -> None:
        is_late.set()
        context.cancelJobGroup(_GROUP)

    jvm = context._jvm
    assert jvm is not None, "a classic session has one"
    level = str(jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel())
    own = sys.modules[__name__]
    # Workers may not have this module: the function goes as a whole.
    cloudpickle.register_pickle_by_value(own)  # type: ignore[no-untyped-call]
    timer = threading.Timer(_ANSWER_SECONDS, give_up)
    timer.daemon = True
    timer.start()
    # Four failures of each task would be told with their stacks.
    context.setLogLevel("OFF")
    try:
        context.setJobGroup(_GROUP, "can the workers run GoQueue?", interruptOnCancel=True)
        look = functions.udf(_look, "string", useArrow=False)
        rows = spark.range(0, tasks, 1, tasks).select(look("id")).collect()
        return [json.loads(row[0]) for row in rows]
    except Exception as error:
        if is_late.is_set():
            return None
        reason = unfit_reason(str(error))
        if reason is None:
            raise
        raise UnfitWorkers(reason) from None
    finally:
        timer.cancel()
        context.setLogLevel(level)
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        cloudpickle.unregister_pickle_by_value(own)  # type: ignore[no-untyped-call]


def _look(_number: int) -> str:
    """Runs in a worker, whose Python may have nothing but PySpark."""
    import importlib
    import json
    import platform
    import socket
    import sys

    problem = ""
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except Exception as error:
            problem = problem or f"{type(error).__name__}: {error}"
    return json.dumps(
        {
            "host": socket.gethostname(),
            "python": f"Python {platform.python_version()} ({sys.executable})",
            "problem": problem,
        }
    )
