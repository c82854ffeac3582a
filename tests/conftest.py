"""How the suite is spread over processes: a file stays together, and so does all of Spark. And an
option, which pytest wants to know before it looks into the folders below."""

import os
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Commands and Spark use the profile that somebody has in use: that of the tests is none.
os.environ["XDG_CONFIG_HOME"] = str(Path(__file__).with_name("no-profiles"))


class _Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist's base is untyped here
    """A file shares its fixtures; the tests in `spark` share one session, which takes seconds."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith("tests/spark/") else nodeid.partition("::")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--goqueue-workers",
        action="store_true",
        help="tests/interop: real clients talk to two workers of one machine",
    )


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _Together(config, log)
