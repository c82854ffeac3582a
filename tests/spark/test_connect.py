"""Spark Connect: a server in a process of its own, and a client in another."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from goqueue.spark import spark_session
from goqueue.spark.java_home import find_java_home
from tests.spark.committed_reading import read_committed, values_of
from tests.spark.connect_client import BATCH_SINK, SINK, SOURCE

HOST = "127.0.0.1"
# Java starts within five seconds on a quiet machine.
WAIT_SECONDS = 120.0
_STARTED = re.compile(rf"Spark Connect server started at: {re.escape(HOST)}:(\d+)")


@pytest.fixture
def connect_url(tmp_path: Path) -> Iterator[str]:
    """A Connect server whose Python has GoQueue installed, and that is told nothing of it."""
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": HOST,
        "spark.driver.host": HOST,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [part for item in settings.items() for part in ("--conf", "=".join(item))]
    environment = os.environ | {"SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
    java_home = find_java_home()
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    log_path = tmp_path / "connect.log"
    with log_path.open("wb") as log:
        server = subprocess.Popen(
            [*command, "spark-internal"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=tmp_path,
            start_new_session=True,
        )
    try:
        yield f"sc://{HOST}:{_port(server, log_path)}"
    finally:
        server.kill()
        server.wait()


def _port(server: "subprocess.Popen[bytes]", log_path: Path) -> str:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        found = _STARTED.search(log_path.read_text())
        if found is not None:
            return found[1]
        assert server.poll() is None, log_path.read_text()[-3000:]
        assert time.monotonic() < deadline, "the Connect server did not start"
        time.sleep(0.1)


@pytest.mark.slow
def test_topics_through_spark_connect(
    connect_url: str,
    bootstrap: str,
    make_topic: Callable[..., str],
    send: Callable[..., None],
    tmp_path: Path,
) -> None:
    for topic in (SOURCE, SINK, BATCH_SINK):
        make_topic(name=topic)
    values = [b"value %d" % number for number in range(100)]
    send(SOURCE, values)
    command = [sys.executable, "-m", "tests.spark.connect_client"]
    done = subprocess.run(
        [*command, connect_url, bootstrap, str(tmp_path / "checkpoint")],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "client": "pyspark.sql.connect.session",
        "copied": len(values),
        "committed_offset": len(values),
    }
    assert values_of(bootstrap, BATCH_SINK) == [b"VALUE 97", b"VALUE 98", b"VALUE 99"]
    assert values_of(bootstrap, SINK) == sorted(values)
    everything = read_committed(bootstrap, SINK, isolation="read_uncommitted")
    assert len(everything) == len(values), "the batch was recognised before it was written"


def test_a_connect_server_that_is_down_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "_CONNECT_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(spark_session.NoConnect, match=r"at sc://127\.0\.0\.1:1 within"):
        spark_session.session(remote="sc://127.0.0.1:1/;token=secret")
