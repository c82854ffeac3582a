"""Celery over SQS: a real application, its worker in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.servers import Server
from tests.interop.sqs_api import attribute, connect, eventually, new_name

ROOT = Path(__file__).resolve().parents[2]
APP = "tests.interop.sqs_celery_app"


class Application:
    def __init__(self, url: str, folder: Path, key: str = "any:any") -> None:
        self.queue = new_name()
        self.notes = folder / "notes"
        self.notes.touch()
        self._log = folder / "worker.log"
        self._environment = {
            **os.environ,
            "SQS_URL": url,
            "SQS_KEY": key,
            "NOTES": str(self.notes),
            "QUEUE": self.queue,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }

    def call(self, statement: str) -> None:
        code = f"from {APP} import add, flaky; {statement}"
        subprocess.run([sys.executable, "-c", code], env=self._environment, check=True, timeout=60)

    def start_worker(self) -> "subprocess.Popen[bytes]":
        options = ("--loglevel=INFO", "--concurrency=1", "--pool=solo", "--without-mingle")
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", APP, "worker", *options],
                env=self._environment,
                cwd=self._log.parent,
                stdout=log,
                stderr=log,
            )

    def noted(self) -> list[str]:
        return self.notes.read_text().split("\n")[:-1]

    def log_text(self) -> str:
        return self._log.read_text(errors="replace")


@pytest.fixture
def application(server: Server, tmp_path: Path) -> Application:
    return Application(server.http_url, tmp_path)


@pytest.fixture
def worker(application: Application) -> Iterator["subprocess.Popen[bytes]"]:
    running = application.start_worker()
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(10)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def test_tasks_run_once_and_retries_come_back(
    application: Application, worker: "subprocess.Popen[bytes]", server: Server
) -> None:
    application.call("[add.delay(n, 100) for n in range(20)]; flaky.delay('x')")
    wanted = sorted([*(f"add {n + 100}" for n in range(20)), *(f"flaky x {n}" for n in (1, 2, 3))])

    def finished(noted: list[str]) -> bool:
        assert worker.poll() is None, application.log_text()
        return len(noted) >= len(wanted)

    try:
        noted = eventually(application.noted, finished)
    except AssertionError as error:
        raise AssertionError(application.log_text()[-3_000:]) from error
    assert sorted(noted) == wanted
    sqs: Any = connect(server.http_url)
    url = sqs.get_queue_url(QueueName=application.queue)["QueueUrl"]
    counts = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
    eventually(
        lambda: [attribute(sqs, url, name) for name in counts], lambda found: found == ["0", "0"]
    )
