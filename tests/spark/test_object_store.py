"""Archives and checkpoints in an object store: MinIO, a broker and a pipeline as processes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from goqueue.spark.archive.delta_table import create_table, open_table, table_target
from goqueue.spark.archive.table import archive_target, next_offsets, open_archive
from tests.busy_machine import stretched
from tests.spark.committed_reading import values_of
from tests.spark.minio_server import CACHE, MinioServer
from tests.spark.pipeline_runs import write_pipeline

# Of the Hadoop that comes with PySpark 4.3; it brings Amazon's client, 690 MB in all.
HADOOP_AWS = "org.apache.hadoop:hadoop-aws:3.5.0"
# The first run fetches it.
RUN_SECONDS = 600.0

DEFINITION = """name = "{name}"
kind = "archive"
bootstrap.servers = "{bootstrap}"
[archive]
topic = "{topic}"
table = "s3://streams/{topic}"
retention = "wait"
compactEvery = 2
[run]
trigger = "available-now"
master = "local[2]"
checkpoint = "s3://streams/checkpoints/{name}"
[run.conf]
{conf}
"""


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MinioServer]:
    with MinioServer(tmp_path_factory.mktemp("minio") / "server") as server:
        server.client.create_bucket(Bucket="streams")
        yield server


def in_a_process(
    folder: Path, arguments: list[str], variables: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Spark takes jars for its first session only, and the other tests have had that."""
    ours = {
        "GOQUEUE_PIPELINES": str(folder / "state"),
        # Ivy would also look into Maven's local repository, and stop at what is half there.
        "SPARK_SUBMIT_OPTS": f"-Duser.home={CACHE}",
    }
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | ours | variables,
        capture_output=True,
        text=True,
        timeout=stretched(RUN_SECONDS),
    )


@pytest.mark.slow
@pytest.mark.timeout(4 * RUN_SECONDS)
@pytest.mark.parametrize("how", ["variables", "spark"])
def test_an_archive_in_an_object_store(
    how: str,
    minio: MinioServer,
    bootstrap: str,
    make_topic: Callable[..., str],
    send: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = make_topic(partitions=1, name=f"objects-{how}")
    conf = {"spark.jars.packages": HADOOP_AWS}
    conf |= {} if how == "variables" else minio.spark_settings
    variables = minio.variables if how == "variables" else {}
    text = "\n".join(f'"{name}" = {json.dumps(value)}' for name, value in conf.items())
    path = write_pipeline(
        tmp_path,
        DEFINITION.format(name=f"archive-{how}", bootstrap=bootstrap, topic=topic, conf=text),
    )
    values: list[bytes] = []
    for number in range(3):
        more = [b"%d" % each for each in range(number * 10, number * 10 + 10)]
        send(topic, more)
        values += more
        done = in_a_process(tmp_path, ["-m", "goqueue", "pipeline", "run", str(path)], variables)
        assert done.returncode == 0, done.stdout + done.stderr

    # delta-rs alone, by its own variables, sees all offsets, and that small files became one.
    for name, value in minio.variables.items():
        monkeypatch.setenv(name, value)
    table = open_archive(archive_target(f"s3://streams/{topic}"))
    assert next_offsets(table, [0]) == {0: len(values)}
    assert "OPTIMIZE" in [each["operation"] for each in table.history()]
    assert len(table.file_uris()) < 3
    kept = minio.client.list_objects_v2(Bucket="streams", Prefix=f"checkpoints/archive-{how}/")
    assert any("/offsets/2" in each["Key"] for each in kept["Contents"])

    # Archive and log as one, in a session of its own.
    send(topic, [b"live"])
    program = ["-m", "tests.spark.object_store_reader", f"s3://streams/{topic}", bootstrap]
    done = in_a_process(tmp_path, [*program, json.dumps(conf)], variables)
    assert done.returncode == 0, done.stderr
    found = sorted(json.loads(done.stdout.splitlines()[-1]))
    assert found == sorted(each.decode() for each in [*values, b"live"])
    assert len(values_of(bootstrap, topic)) == len(found)


@pytest.mark.slow
def test_of_two_writers_of_a_commit_the_store_refuses_one(
    minio: MinioServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in minio.variables.items():
        monkeypatch.setenv(name, value)
    target = table_target("s3://streams/shared")
    rows = pa.table({"number": [1]})
    create_table(target, rows.schema)

    def append(_number: int) -> None:
        write_deltalake(
            target.uri, rows, mode="append", storage_options=dict(target.storage_options)
        )

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(append, range(40)))
    table = open_table(target)
    assert table is not None
    # A commit that replaced another's would be missing here.
    assert table.version() == 40
    assert table.to_pyarrow_table().num_rows == 40
