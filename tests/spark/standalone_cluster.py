"""A pipeline on a real Spark standalone cluster: a master and two workers as processes.

Run with `python -m tests.spark.standalone_cluster`. The workers' own Python is another one, which
has no GoQueue: that is told in a line, and a package helps. Records then go through a query with a
shuffle into a topic, exactly once, while one of the workers is killed in the middle.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.request import urlopen

import pyspark
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from goqueue.spark.java_home import find_java_home
from goqueue.testing import ServerProcess
from tests.spark.committed_reading import values_of
from tests.spark.pipeline_runs import write_pipeline

HOST = "127.0.0.1"
# Two Java processes per worker start on the cores that all others use as well.
WAIT_SECONDS = 180.0
RECORDS = 20_000

DEFINITION = """name = "cluster"
kind = "sql"
bootstrap.servers = "{bootstrap}"
[[source]]
name = "numbers"
topic = "numbers"
format = "string"
options = {{ maxOffsetsPerTrigger = 2000, minPartitions = 4 }}
[sql]
query = "SELECT /*+ REPARTITION(4) */ value AS key, value FROM numbers"
[sink]
topic = "seen"
partitions = 2
[run]
trigger = "200 ms"
conf = {{ spark.driver.host = "127.0.0.1", spark.driver.bindAddress = "127.0.0.1", \
spark.ui.enabled = false, spark.executor.memory = "512m", spark.sql.shuffle.partitions = 4 }}
"""
PRETENDED_VERSION = """import collections, sys
names = ("major", "minor", "micro", "releaselevel", "serial")
sys.version_info = collections.namedtuple("version_info", names)({version}, 0, "final", 0)
"""


class StandaloneCluster:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master_url = ""
        self._page_url = ""

    def __enter__(self) -> Self:
        log = self._start("master", "master.Master", "--port", "0", "--webui-port", "0")
        port = _find(log, r"service 'sparkMaster' on port (\d+)")
        self._page_url = _find(log, r"started at (http://[^ \s]+)")
        self.master_url = f"spark://{HOST}:{port}"
        for name in ("one", "two"):
            self._start(
                name, "worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0",
                "--work-dir", str(self._folder / f"work-{name}"), self.master_url,
            )  # fmt: skip
        wait_for(lambda: len(self.workers()) == 2, "two workers")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(30)

    def workers(self) -> list[dict[str, Any]]:
        with urlopen(f"{self._page_url}/json") as answer:
            found = json.load(answer)
        return [each for each in found["workers"] if each["state"] == "ALIVE"]

    @property
    def work_folders(self) -> list[Path]:
        return [self._folder / f"work-{name}" for name in ("one", "two")]

    def kill_worker(self) -> None:
        self._processes[-1].kill()
        self._processes[-1].wait(30)

    def _start(self, name: str, main: str, *arguments: str) -> Path:
        log_path = self._folder / f"{name}.log"
        home = Path(pyspark.__file__).parent
        java_home = find_java_home()
        environment = os.environ | {"SPARK_LOCAL_IP": HOST, "SPARK_HOME": str(home)}
        # A node of its own does not know where GoQueue is on the driver.
        environment.pop("PYTHONPATH", None)
        if java_home is not None:
            environment["JAVA_HOME"] = str(java_home)
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}"]
        with log_path.open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [*command, "--host", HOST, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                )
            )
        return log_path


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.3)


def _find(log_path: Path, pattern: str) -> str:
    wait_for(
        lambda: re.search(pattern, log_path.read_text()) is not None, f"{pattern} in {log_path}"
    )
    found = re.search(pattern, log_path.read_text())
    assert found is not None
    return found[1]


def _goqueue(folder: Path, *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "goqueue", "pipeline", *arguments],
        cwd=folder,
        env=os.environ | {"GOQUEUE_PIPELINES": str(folder / "state")},
        capture_output=True,
        text=True,
        timeout=2 * WAIT_SECONDS,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def _bare_python(folder: Path, version: str | None = None) -> Path:
    """A Python at another path that has no packages, and may say that it is another version."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    if version is not None:
        site = next(folder.glob("lib/python*/site-packages"))
        (site / "sitecustomize.py").write_text(PRETENDED_VERSION.format(version=version))
    return folder / "bin" / "python"


def _check_refusals(cluster: "StandaloneCluster", folder: Path, definition: str) -> None:
    """Workers that cannot run GoQueue's tasks: one line says so, and what to do."""
    bare = _bare_python(folder / "bare")
    for python, expected in (
        (folder / "nowhere", f"workers have no Python at {folder / 'nowhere'}"),
        (
            bare,
            f"({bare}) on {os.uname().nodename}: ModuleNotFoundError: No module named 'goqueue'",
        ),
        (_bare_python(folder / "newer", "3, 99"), "workers run Python 3.99"),
    ):
        conf = f'spark.pyspark.python = "{python}", spark.driver.host'
        path = write_pipeline(folder / "refused", definition.replace("spark.driver.host", conf))
        said = _goqueue(folder, "run", "--master", cluster.master_url, str(path), code=1)
        assert expected in said, said
        assert "goqueue pipeline package" in said, said
        assert said.count("\n") == 1, said


def _send(bootstrap: str, numbers: range) -> list[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    values = [str(number).encode() for number in numbers]
    for value in values:
        producer.produce("numbers", value)
        producer.poll(0)
    assert producer.flush(30) == 0
    return values


def main() -> None:
    started = time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {text}", flush=True)

    with (
        tempfile.TemporaryDirectory() as name,
        ServerProcess(Path(name) / "broker") as broker,
        StandaloneCluster(Path(name)) as cluster,
    ):
        folder, bootstrap = Path(name), broker.bootstrap_servers
        tell(f"cluster at {cluster.master_url} with {len(cluster.workers())} workers")
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("numbers", 4)])["numbers"].result()
        definition = DEFINITION.format(bootstrap=bootstrap)
        _check_refusals(cluster, folder, definition)
        tell("workers that cannot run GoQueue are told of in a line")
        tell(
            _goqueue(folder, "package", "--target", "package.tar.gz").replace("\n", "\n          ")
        )
        path = write_pipeline(folder / "pipeline", definition)
        values = _send(bootstrap, range(RECORDS // 2))
        master = ("--master", cluster.master_url, "--package", "package.tar.gz")
        _goqueue(folder, "run", "--detach", *master, str(path))
        tell("running")
        wait_for(lambda: len(values_of(bootstrap, "seen")) > 0, "first records")
        busy = [each["coresused"] for each in cluster.workers()]
        tell(f"cores in use by worker: {busy}")
        assert busy == [1, 1], "tasks run on both workers"
        assert all(any(each.glob("app-*/*/goqueue-env")) for each in cluster.work_folders)
        values += _send(bootstrap, range(RECORDS // 2, RECORDS))
        cluster.kill_worker()
        tell("one worker killed")
        wait_for(lambda: len(values_of(bootstrap, "seen")) >= RECORDS, "all records")
        tell(_goqueue(folder, "status", "cluster").splitlines()[-1].strip())
        assert _goqueue(folder, "stop", "cluster") == "cluster: stopped\n"
        found = values_of(bootstrap, "seen")
        assert found == sorted(values), f"{len(found)} records, {len(set(found))} different"
        tell(f"{len(found)} records, each once")


if __name__ == "__main__":
    main()
