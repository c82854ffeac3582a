"""Backups in an object store with S3's API: MinIO, as a process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.testing.server_process import ServerProcess
from tests.interop.backups import goqueue, goqueue_json, make_topic, produce, read
from tests.interop.test_backup import OPTIONS, values
from tests.spark.minio_server import MinioServer

STORE = "s3://backups/of/goqueue"
pytestmark = pytest.mark.slow


@pytest.fixture
def minio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MinioServer]:
    with MinioServer(tmp_path / "minio") as server:
        server.client.create_bucket(Bucket="backups")
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        yield server


def test_a_backup_in_an_object_store(minio: MinioServer, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", *OPTIONS) as server:
        bootstrap = server.bootstrap_servers
        make_topic(bootstrap, "orders", 1, segment_bytes="1048576")
        produce(bootstrap, "orders", values(6))
        first = goqueue_json("backup", "create", STORE, bootstrap=bootstrap)
        produce(bootstrap, "orders", values(1))
        second = goqueue_json("backup", "create", STORE, bootstrap=bootstrap)
        was = read(bootstrap, "orders")
    assert second["newBytes"] < first["newBytes"] / 2
    assert [each["id"] for each in goqueue_json("backup", "list", STORE)] == [
        first["id"],
        second["id"],
    ]
    pruned = goqueue_json("backup", "prune", STORE, "--keep", "1", "--yes")
    assert pruned["removed"] == [first["id"]]
    assert "is whole" in goqueue("backup", "verify", STORE)
    goqueue("backup", "restore", STORE, "--data-dir", tmp_path / "restored")
    with ServerProcess(tmp_path / "restored", *OPTIONS) as again:
        assert read(again.bootstrap_servers, "orders") == was
    victim = minio.client.list_objects_v2(Bucket="backups", Prefix="of/goqueue/objects")
    minio.client.delete_object(Bucket="backups", Key=victim["Contents"][0]["Key"])
    assert "is missing" in goqueue("backup", "verify", STORE, code=1)


def test_a_bucket_that_is_not_there_says_so(minio: MinioServer) -> None:
    told = goqueue("backup", "prune", "s3://nobody/here", "--keep", "1", "--yes", code=1)
    assert "s3://nobody/here" in told
