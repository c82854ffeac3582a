"""The pages about Spark, followed as a reader would, with one session for all their programs."""

import logging
import re
import shlex
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from typer.testing import CliRunner

import goqueue.spark
from goqueue.cli.main import app
from goqueue.cli.pipelines import run
from tests.docs.pages import PAGES, SPARK_PAGES, blocks, name_of
from tests.docs.reader import Reader
from tests.spark.conftest import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Java stays in the folder where it was started, wherever Python goes.
_JAVA_PATH: Final = re.compile(r'(\.option\("(?:path|checkpointLocation)", ")(\w)')


class SparkReader(Reader):
    """Types pipeline commands into this process, where Java runs already."""

    def here(self, text: str) -> str:
        return _JAVA_PATH.sub(rf"\g<1>{self.folder}/\g<2>", super().here(text))

    def run(self, text: str) -> str:
        if not text.startswith("goqueue pipeline "):
            return super().run(text)
        with chdir(self.folder):
            done = CliRunner().invoke(
                app,
                shlex.split(text)[1:],
                env={"GOQUEUE_BOOTSTRAP": self.broker.bootstrap_servers},
                catch_exceptions=False,
            )
        return done.output


@pytest.fixture
def shared_session(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """For programs that start their own, and for pipelines, which would end it."""

    @contextmanager
    def session(*_: object) -> "Iterator[SparkSession]":
        yield spark

    for name in run.NOISY_LOGGERS:
        monkeypatch.setattr(logging.getLogger(name), "level", logging.CRITICAL)
    monkeypatch.setattr(goqueue.spark, "session", lambda *_: spark)
    monkeypatch.setattr(run, "_session", session)


# A page is several tests' worth of queries.
@pytest.mark.timeout(3 * TIMEOUT_SECONDS)
@pytest.mark.usefixtures("shared_session")
@pytest.mark.parametrize("page", [page for page in PAGES if page.name in SPARK_PAGES], ids=name_of)
def test_a_reader_can_follow(page: Path, tmp_path: Path) -> None:
    with SparkReader(tmp_path) as reader:
        differences = [found for block in blocks(page) for found in reader.follow(block)]
    assert not differences, "\n\n".join(differences)
