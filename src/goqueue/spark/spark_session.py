"""A session that is ready to read and write topics."""

import os
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from goqueue.model.errors import GoQueueError
from goqueue.spark.archive.object_store import spark_settings
from goqueue.spark.java_home import find_java_home
from goqueue.spark.shipping.worker_package import FOLDER, WORKER_PYTHON, check_package
from goqueue.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

_CONNECT_SCHEME: Final = "sc://"
# For one machine: reachable from itself only, no port for a web page that nobody asked for, few
# shuffle partitions, for each is a task, and rows from Python by Unix sockets (four times as fast
# as loopback here). Arrow need not look for nulls again where Spark has asked: a sixth of the time.
_LOCAL: Final = {
    "spark.driver.extraJavaOptions": "-Darrow.enable_null_check_for_get=false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
}

_WORKER_PYTHON_SETTING: Final = "spark.sql.execution.pyspark.python"

# What Spark's client for Connect imports.
_CONNECT_NEEDS: Final = ("pandas", "grpc", "grpc_status", "zstandard")
# Spark itself would try for ten minutes and say nothing.
_CONNECT_TIMEOUT_SECONDS: Final = 10


class NoConnect(GoQueueError):
    """A Spark Connect session cannot be made here."""

    code = "no_spark_connect"


# Sessions that have listener and rule already: Spark hands out the same session again.
_prepared: "WeakSet[SparkSession]" = WeakSet()


def session(
    app_name: str = "goqueue",
    master: str | None = None,
    *,
    remote: str | None = None,
    package: str | os.PathLike[str] | None = None,
    **conf: object,
) -> "SparkSession":
    """A SparkSession that knows `format("goqueue")`.

    Runs on this machine unless `master` names a cluster, or `remote` (or a master that begins with
    sc://) a Spark Connect server. `package` is an archive by `goqueue pipeline package`, for
    workers whose Python has no GoQueue. Further settings are given with underscores for dots
    (`spark_executor_memory="2g"`), or as they are: `**{"spark.executor.memory": "2g"}`.
    """
    from pyspark.sql import SparkSession

    from goqueue.spark.plans.planning import teach_planner
    from goqueue.spark.query_lag import LagPublisher
    from goqueue.spark.shipping.worker_check import check_workers

    settings = {_setting_name(name): _setting_text(value) for name, value in conf.items()}
    shipped = None if package is None else _usable_package(os.fspath(package))
    if remote is None and master is not None and master.startswith(_CONNECT_SCHEME):
        master, remote = None, master
    builder = SparkSession.Builder().appName(app_name)
    if remote is not None:
        if shipped is not None:
            raise NoConnect(
                "a Spark Connect server takes no package from a program: it is started with one; "
                "see docs/spark-clusters.md"
            )
        _check_connect_installed()
        if remote.startswith("local"):  # Spark starts a server for it here
            _prepare_environment(is_local=True)
        else:
            _check_connect_answers(remote)
        builder = builder.remote(remote)
        defaults: dict[str, str] = {}
    else:
        master = master or settings.pop("spark.master", "local[*]")
        builder = builder.master(master)
        defaults = dict(_LOCAL) if _is_local(master) else {}
        _prepare_environment(is_local=_is_local(master))
        defaults |= _worker_python(settings, shipped) | spark_settings(settings)
    for name, text in (defaults | settings).items():
        builder = builder.config(name, text)
    # Spark finds the source by the package `pyspark_goqueue`.
    spark = builder.getOrCreate()
    if spark not in _prepared:
        _prepared.add(spark)
        if remote is None:
            teach_planner(spark)
            spark.streams.addListener(LagPublisher())
            if not _is_local(spark.sparkContext.master or ""):
                _stop_unless_fit(spark, check_workers)
        else:
            _add_connect_listener(spark, LagPublisher())
    return spark


def _is_local(master: str) -> bool:
    """Tasks run in the driver; not so with local-cluster, which starts workers."""
    return master == "local" or master.startswith("local[")


def _stop_unless_fit(spark: "SparkSession", check: "Callable[[SparkSession], None]") -> None:
    try:
        check(spark)
    except BaseException:
        spark.stop()
        raise


def _usable_package(path: str) -> str:
    """An address that is not on this machine is looked at by the workers only."""
    if "://" in path:
        return path
    check_package(Path(path))
    return str(Path(path).absolute())


def _worker_python(settings: dict[str, str], package: str | None) -> dict[str, str]:
    """What makes the workers run their own Python, while the driver's plans with this one.

    Spark itself looks at spark.pyspark.python only in `spark-submit`, and hands PYSPARK_PYTHON to
    workers and to the driver's helpers alike. Its setting for SQL goes to the workers alone, and
    everything that GoQueue does there is SQL to it.
    """
    given = settings.pop("spark.pyspark.python", None)
    planning = settings.pop("spark.pyspark.driver.python", None)
    if planning is not None:
        os.environ["PYSPARK_DRIVER_PYTHON"] = planning
    if package is not None:
        archives = [
            each for each in (settings.pop("spark.archives", ""), f"{package}#{FOLDER}") if each
        ]
        return {_WORKER_PYTHON_SETTING: WORKER_PYTHON, "spark.archives": ",".join(archives)}
    if given is None and "PYSPARK_DRIVER_PYTHON" in os.environ:
        given = os.environ["PYSPARK_PYTHON"]
    return {} if given is None else {_WORKER_PYTHON_SETTING: given}


def _add_connect_listener(spark: "SparkSession", listener: "StreamingQueryListener") -> None:
    """Spark's client follows the events in a thread that ends with the session only.

    A program that does not stop its session would never end. Threads are daemons like the one that
    starts them.
    """
    starting = Thread(target=spark.streams.addListener, args=(listener,), daemon=True)
    starting.start()
    starting.join()
    # That the session was stopped is no news to who stopped it.
    for reason in ("SESSION_CLOSED", "cannot schedule new futures after shutdown"):
        warnings.filterwarnings("ignore", f"StreamingQueryListenerBus Handler thread .*{reason}")


def _check_connect_installed() -> None:
    missing = [name for name in _CONNECT_NEEDS if find_spec(name) is None]
    if missing:
        raise NoConnect(
            f"Spark Connect needs {', '.join(missing)}, which is not installed; "
            "`pip install 'pyspark[connect]'`"
        )


def _check_connect_answers(remote: str) -> None:
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    with DefaultChannelBuilder(remote).toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(_CONNECT_TIMEOUT_SECONDS)
        except grpc.FutureTimeoutError:
            raise NoConnect(
                f"no Spark Connect server answered at {_without_parameters(remote)} within "
                f"{_CONNECT_TIMEOUT_SECONDS} s; start one, or correct `remote`"
            ) from None


def _without_parameters(remote: str) -> str:
    """They may hold a token."""
    return remote.partition("/;")[0]


def _prepare_environment(*, is_local: bool) -> None:
    java_home = find_java_home()
    if java_home is not None:
        os.environ["JAVA_HOME"] = str(java_home)
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    ours = worker_python()
    if os.environ.get("PYSPARK_PYTHON") in (None, ours):
        # Workers must find the packages that the driver has. Those elsewhere have no such script.
        os.environ["PYSPARK_PYTHON"] = ours if is_local else sys.executable


def _setting_name(name: str) -> str:
    return name if "." in name else name.replace("_", ".")


def _setting_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
