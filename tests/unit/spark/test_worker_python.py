"""Which Python the workers run, and what is said of one that will not do."""

import pytest

from goqueue.spark.shipping.worker_check import unfit_reason
from goqueue.spark.spark_session import _worker_python

WORKERS = "spark.sql.execution.pyspark.python"


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/driver/python")
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)


def test_the_workers_python_is_not_the_drivers() -> None:
    settings = {"spark.pyspark.python": "/worker/python", "spark.executor.memory": "1g"}
    assert _worker_python(settings, None) == {WORKERS: "/worker/python"}
    assert settings == {"spark.executor.memory": "1g"}
    assert _worker_python({}, None) == {}


def test_variables_of_spark_mean_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/driver/python")
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    assert _worker_python({}, None) == {WORKERS: "./environment/bin/python"}


def test_a_package_joins_other_archives() -> None:
    settings = {"spark.archives": "models.zip#models"}
    assert _worker_python(settings, "/here/package.tar.gz") == {
        WORKERS: "./goqueue-env/bin/python",
        "spark.archives": "models.zip#models,/here/package.tar.gz#goqueue-env",
    }
    assert settings == {}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "Lost task 1.3 in stage 0.0 (TID 7) (10.0.0.7 executor 1): java.io.IOException: Cannot "
            'run program "/opt/python": error=2, No such file or directory',
            "workers have no Python at /opt/python on 10.0.0.7; ",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in "
            "driver: 3.11, PySpark cannot run with different minor versions.",
            "workers run Python 3.12, and this program runs Python 3.11: ",
        ),
        (
            "(node-2 executor 3): ModuleNotFoundError: No module named 'goqueue'\n",
            "the workers' Python has no goqueue on node-2; ",
        ),
    ],
)
def test_sparks_pages_become_a_line(message: str, reason: str) -> None:
    found = unfit_reason(message)
    assert found is not None
    assert found.startswith(reason)
    assert "`goqueue pipeline package`" in found


def test_other_failures_are_not_the_workers() -> None:
    assert unfit_reason("No module named 'numbers_of_mine'") is None
    assert unfit_reason("Job aborted due to stage failure: division by zero") is None
