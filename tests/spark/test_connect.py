"""Spark Connect: a server in a process of its own, and a client in another."""

import json
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from goqueue.spark import spark_session
from goqueue.spark.java_home import find_java_home
from goqueue.spark.shipping.worker_package import write_package
from tests.busy_machine import stretched
from tests.spark.committed_reading import read_committed, values_of
from tests.spark.connect_client import Names
from tests.spark.pipeline_runs import write_pipeline

HOST = "127.0.0.1"
# Java starts within five seconds on a quiet machine.
WAIT_SECONDS = 120.0
_STARTED = re.compile(rf"Spark Connect server started at: {re.escape(HOST)}:(\d+)")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("package") / "package.tar.gz"
    write_package(path)
    return path


@pytest.fixture(params=["installed", "unpacked"])
def server_python(request: pytest.FixtureRequest, package: Path, tmp_path: Path) -> str:
    """One that has GoQueue, or that of a package, as for a server without GoQueue."""
    if request.param == "installed":
        return sys.executable
    with tarfile.open(package) as packed:
        packed.extractall(tmp_path / "unpacked", filter="tar")
    return str(tmp_path / "unpacked" / "bin" / "python")


@pytest.fixture
def connect_url(server_python: str, tmp_path: Path) -> Iterator[str]:
    """A Connect server that is told nothing of GoQueue but its Python."""
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
    environment = os.environ | {"SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": server_python}
    if server_python != sys.executable:
        environment.pop("PYTHONPATH", None)
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
@pytest.mark.timeout(10 * WAIT_SECONDS)
def test_topics_through_spark_connect(
    connect_url: str,
    server_python: str,
    bootstrap: str,
    make_topic: Callable[..., str],
    send: Callable[..., None],
    tmp_path: Path,
) -> None:
    names = Names(tmp_path.name.replace("_", "-")[-20:])
    for topic in (names.source, names.sink, names.batch_sink):
        make_topic(name=topic)
    values = [b"value %d" % number for number in range(100)]
    send(names.source, values)
    command = [sys.executable, "-m", "tests.spark.connect_client"]
    done = subprocess.run(
        [*command, connect_url, bootstrap, str(tmp_path / "checkpoint"), names.run],
        capture_output=True,
        text=True,
        timeout=stretched(WAIT_SECONDS),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    # The launcher of a package runs the Python beside it.
    assert Path(found.pop("worker_python")).parent == Path(server_python).parent
    assert found == {
        "client": "pyspark.sql.connect.session",
        "copied": len(values),
        "committed_offset": len(values),
    }
    assert values_of(bootstrap, names.batch_sink) == [b"VALUE 97", b"VALUE 98", b"VALUE 99"]
    assert values_of(bootstrap, names.sink) == sorted(values)
    everything = read_committed(bootstrap, names.sink, isolation="read_uncommitted")
    assert len(everything) == len(values), "the batch was recognised before it was written"
    _run_pipeline(connect_url, bootstrap, names, tmp_path, make_topic(name=f"{names.sink}-sql"))


def _run_pipeline(remote: str, bootstrap: str, names: Names, folder: Path, sink: str) -> None:
    path = write_pipeline(
        folder,
        f"""name = "{sink}"
kind = "sql"
bootstrap.servers = "{bootstrap}"
[[source]]
name = "words"
topic = "{names.source}"
[sql]
query = "SELECT value FROM words"
[sink]
topic = "{sink}"
""",
    )
    done = subprocess.run(
        [sys.executable, "-m", "goqueue", "pipeline", "run", "--once", "--master", remote, path],
        env=os.environ | {"GOQUEUE_PIPELINES": str(folder / "state")},
        capture_output=True,
        text=True,
        timeout=stretched(WAIT_SECONDS),
    )
    assert done.returncode == 0, done.stderr
    assert values_of(bootstrap, sink) == values_of(bootstrap, names.source)


def test_a_connect_server_is_started_with_its_package() -> None:
    with pytest.raises(spark_session.NoConnect, match="is started with one"):
        spark_session.session(remote="sc://127.0.0.1:1", package="hdfs:///package.tar.gz")


def test_a_connect_server_that_is_down_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "_CONNECT_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(spark_session.NoConnect, match=r"at sc://127\.0\.0\.1:1 within"):
        spark_session.session(remote="sc://127.0.0.1:1/;token=secret")
