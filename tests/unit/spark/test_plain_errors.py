"""Which errors leave Spark's workers without their stack."""

import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from goqueue.model.errors import UnknownTopic
from goqueue.spark.plain_errors import plain_errors

HIDE = "SPARK_HIDE_TRACEBACK"


class Base:
    def plan(self, error: Exception) -> int:
        raise error

    def read(self, error: Exception) -> Iterator[int]:
        raise error


@plain_errors
class Reader(Base):
    def plan(self, error: Exception) -> int:
        raise error

    def read(self, error: Exception) -> Iterator[int]:
        yield 1
        raise error

    def own(self, error: Exception) -> None:
        raise error


@pytest.fixture(params=["pyspark.daemon", "pytest"])
def in_worker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setenv(HIDE, "")
    main = SimpleNamespace(__spec__=SimpleNamespace(name=request.param))
    monkeypatch.setitem(sys.modules, "__main__", main)
    return bool(request.param == "pyspark.daemon")


@pytest.mark.parametrize("method", ["plan", "read", "own"])
def test_an_error_for_users_has_no_stack(in_worker: bool, method: str) -> None:
    with pytest.raises(UnknownTopic):
        list(getattr(Reader(), method)(UnknownTopic("there is no topic 'x'")))
    assert bool(os.environ[HIDE]) == (in_worker and method != "own")


@pytest.mark.parametrize("method", ["plan", "read"])
def test_an_error_that_nobody_expects_keeps_it(in_worker: bool, method: str) -> None:
    with pytest.raises(ZeroDivisionError):
        list(getattr(Reader(), method)(ZeroDivisionError()))
    assert not os.environ[HIDE], in_worker
