"""How the suite is spread over processes: a file stays together, and so does all of Spark; one of
the processes computes while the others wait for servers. Where its temporary files are. And an
option, which pytest wants to know before it looks into the folders below."""

import gc
import os
from collections.abc import Generator
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from xdist.scheduler import LoadScopeScheduling

from tests.files_in_memory import temporary_files_in_memory

# Commands and Spark use the profile that somebody has in use: that of the tests is none.
os.environ["XDG_CONFIG_HOME"] = str(Path(__file__).with_name("no-profiles"))

# Java that runs for minutes spends more on its second compiler and on collecting garbage in threads
# than it gains; read by whatever starts Spark, without a word in its output.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# A broker on a busy machine is held up for longer than httpx's five seconds. They are the default
# value of many parameters, so this object is the one place to change them.
DEFAULT_TIMEOUT_CONFIG.__dict__.update(httpx.Timeout(60).as_dict())
# It is no public one: another version of httpx may have its default elsewhere.
assert signature(httpx.get).parameters["timeout"].default == httpx.Timeout(60)

_SPARK = "spark"
# Tests that start processes and wait for them. What takes longest comes first: a file that is begun
# last is waited for by all.
_WAITING = (_SPARK, "tests/docs/", "tests/crash/", "tests/hostile/", "tests/interop/")


class _Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist's base is untyped here
    """A file shares its fixtures; the tests in `spark` share one session, which takes seconds."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/spark/"):
            return _SPARK
        # Pages share nothing, and to follow all of them takes minutes.
        return nodeid if nodeid.startswith("tests/docs/") else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: Any) -> None:
        """The scheduler takes the first of its queue."""
        self.workqueue.move_to_end(self._next_for(node), last=False)
        super()._assign_work_unit(node)

    def _next_for(self, node: Any) -> str:
        others = (units for each, units in self.assigned_work.items() if each is not node)
        somebody_computes = any(_computes(scope) for units in others for scope in [*units][-1:])
        queue: list[str] = [*self.workqueue]
        wanted = [each for each in queue if _computes(each) is not somebody_computes]
        return min(wanted or queue, key=_turn)


def _turn(scope: str) -> int:
    kinds = (number for number, kind in enumerate(_WAITING) if scope.startswith(kind))
    return next(kinds, len(_WAITING))


def _computes(scope: str) -> bool:
    return _turn(scope) == len(_WAITING)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--goqueue-workers",
        action="store_true",
        help="tests/interop: real clients talk to two workers of one machine",
    )


def pytest_configure(config: pytest.Config) -> None:
    # The processes of xdist are told a folder below that of the one that started them.
    if not hasattr(config, "workerinput") and config.getoption("basetemp") is None:
        stack = ExitStack()
        stack.enter_context(temporary_files_in_memory())
        config.add_cleanup(stack.close)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand tests stay until the end: nobody looks through them for what is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _Together(config, log)
