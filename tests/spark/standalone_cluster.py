"""A pipeline on a real Spark standalone cluster: a master and two workers as processes.

Run with `python -m tests.spark.standalone_cluster`. Records go through a query with a shuffle into
a topic, exactly once, while one of the workers is killed in the middle.
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

    def kill_worker(self) -> None:
        self._processes[-1].kill()
        self._processes[-1].wait(30)

    def _start(self, name: str, main: str, *arguments: str) -> Path:
        log_path = self._folder / f"{name}.log"
        home = Path(pyspark.__file__).parent
        java_home = find_java_home()
        environment = os.environ | {"SPARK_LOCAL_IP": HOST, "SPARK_HOME": str(home)}
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


def _goqueue(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "goqueue", "pipeline", *arguments],
        env=os.environ | {"GOQUEUE_PIPELINES": str(folder / "state")},
        capture_output=True,
        text=True,
        timeout=2 * WAIT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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
        path = write_pipeline(folder / "pipeline", DEFINITION.format(bootstrap=bootstrap))
        values = _send(bootstrap, range(RECORDS // 2))
        _goqueue(folder, "run", "--detach", "--master", cluster.master_url, str(path))
        tell("running")
        wait_for(lambda: len(values_of(bootstrap, "seen")) > 0, "first records")
        busy = [each["coresused"] for each in cluster.workers()]
        tell(f"cores in use by worker: {busy}")
        assert busy == [1, 1], "tasks run on both workers"
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
