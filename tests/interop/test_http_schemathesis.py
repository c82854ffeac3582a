"""The API document against the server that it describes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from goqueue.testing import ServerProcess

CONFIG = Path(__file__).with_name("schemathesis.toml")
EXAMPLES_PER_OPERATION = 25
# A third of it is enough on a quiet machine; pytest ends the test at 300.
TIMEOUT_SECONDS = 280


@pytest.fixture(scope="module")
def small_topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Topics come by the hundred here, so they stay small."""
    settings = {
        "num.partitions": 1,
        "max.partitions.per.topic": 4,
        # A join waits for members that are gone, but no longer than a request may take here.
        "group.min.session.timeout.ms": 1,
        "group.max.session.timeout.ms": 3_000,
    }
    options = [each for name, value in settings.items() for each in ("--set", f"{name}={value}")]
    with ServerProcess(tmp_path_factory.mktemp("data"), *options) as running:
        yield running


def test_every_operation_does_what_the_document_says(
    small_topics: ServerProcess, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG)]
    command += ["run", f"{small_topics.http_url}/openapi.json", "--seed", "1"]
    command += ["--max-examples", str(EXAMPLES_PER_OPERATION), "--no-color"]

    run = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )

    said = run.stdout[-20_000:] + run.stderr[-2_000:] + small_topics.log_text[-5_000:]
    assert run.returncode == 0, said
    for phase in ("Coverage", "Fuzzing", "Stateful"):
        assert f"✅ {phase}" in run.stdout
    assert "Traceback" not in small_topics.log_text
    ready = httpx.get(f"{small_topics.http_url}/readyz").json()
    assert ready["offlinePartitionCount"] == 0
