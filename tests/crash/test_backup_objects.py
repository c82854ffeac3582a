"""Backups in object stores with S3's API: moto, and MinIO where it can be had."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.testing.ports import free_port
from goqueue.testing.server_process import ServerProcess
from tests.interop.backups import goqueue, goqueue_json, launch, make_topic, produce, read
from tests.interop.s3_server import S3Server
from tests.interop.test_backup import OPTIONS, killed, until, values
from tests.spark.minio_server import MinioServer

BUCKET = "backups"
FOLDER = "of/goqueue"
STORE = f"s3://{BUCKET}/{FOLDER}"
# Some seconds for what the broker has, one of them for the first object.
RATE = "1MB"
ObjectServer = S3Server | MinioServer


def variables_of(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def moto() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def s3(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Each test has an empty bucket."""
    variables_of(moto, monkeypatch)
    moto.client.create_bucket(Bucket=BUCKET)
    yield moto
    moto.clear()


@pytest.fixture
def minio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MinioServer]:
    with MinioServer(tmp_path / "minio") as server:
        variables_of(server, monkeypatch)
        server.client.create_bucket(Bucket=BUCKET)
        yield server


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """With a topic of a few chunks."""
    with ServerProcess(tmp_path_factory.mktemp("broker") / "data", *OPTIONS) as server:
        make_topic(server.bootstrap_servers, "orders", 1, segment_bytes="1048576")
        produce(server.bootstrap_servers, "orders", values(3))
        yield server


def there_and_back(server: ObjectServer, broker: ServerProcess, folder: Path) -> None:
    bootstrap = broker.bootstrap_servers
    first = goqueue_json("backup", "create", STORE, bootstrap=bootstrap)
    produce(bootstrap, "orders", values(0.3))
    second = goqueue_json("backup", "create", STORE, bootstrap=bootstrap)
    was = read(bootstrap, "orders")
    assert second["newBytes"] < first["newBytes"]
    ids = [each["id"] for each in goqueue_json("backup", "list", STORE)]
    assert ids == [first["id"], second["id"]]
    pruned = goqueue_json("backup", "prune", STORE, "--keep", "1", "--yes")
    assert pruned["removed"] == [first["id"]]
    assert "is whole" in goqueue("backup", "verify", STORE)
    goqueue("backup", "restore", STORE, "--data-dir", folder)
    with ServerProcess(folder, *OPTIONS) as again:
        assert read(again.bootstrap_servers, "orders") == was
    victim = objects_of(server)[0]
    server.client.delete_object(Bucket=BUCKET, Key=victim)
    assert "is missing" in goqueue("backup", "verify", STORE, code=1)


def objects_of(server: ObjectServer, below: str = "objects") -> list[str]:
    """Without the names of folders, which Arrow leaves behind."""
    found = server.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{FOLDER}/{below}/")
    keys = [each["Key"] for each in found.get("Contents", [])]
    return [key for key in keys if not key.endswith("/")]


def test_a_backup_goes_there_and_back(s3: S3Server, broker: ServerProcess, tmp_path: Path) -> None:
    there_and_back(s3, broker, tmp_path / "restored")


@pytest.mark.slow
def test_the_same_in_minio(minio: MinioServer, broker: ServerProcess, tmp_path: Path) -> None:
    there_and_back(minio, broker, tmp_path / "restored")


def test_a_killed_backup_is_gone_on_with(
    s3: S3Server, broker: ServerProcess, tmp_path: Path
) -> None:
    bootstrap = broker.bootstrap_servers
    creating = launch("backup", "create", STORE, "--rate", RATE, bootstrap=bootstrap)
    killed(creating, lambda: objects_of(s3))
    assert "no backup" in goqueue("backup", "list", STORE)
    made = goqueue_json("backup", "create", STORE, bootstrap=bootstrap)
    assert made["newBytes"] < made["bytes"]
    assert "is whole" in goqueue("backup", "verify", STORE)


def test_what_was_altered_is_told_and_never_restored(
    s3: S3Server, broker: ServerProcess, tmp_path: Path
) -> None:
    bootstrap, target = broker.bootstrap_servers, tmp_path / "restored"
    made = goqueue_json("backup", "create", STORE, bootstrap=bootstrap)
    victim = max(objects_of(s3), key=lambda key: len(stored(s3, key)))
    whole = stored(s3, victim)
    for altered in (whole[:1000] + b"x" + whole[1001:], whole[:-1], whole + b"x", b""):
        s3.client.put_object(Bucket=BUCKET, Key=victim, Body=altered)
        assert victim.rpartition("/")[2] in goqueue("backup", "verify", STORE, code=1)
        told = goqueue("backup", "restore", STORE, "--data-dir", target, code=1)
        assert victim.rpartition("/")[2] in told
        assert "use an earlier one" in told
        assert not (target / "format.json").exists()
    s3.client.put_object(Bucket=BUCKET, Key=victim, Body=whole)
    # The same folder, once the object is right again.
    goqueue("backup", "restore", STORE, made["id"], "--data-dir", target)


def stored(server: ObjectServer, key: str) -> bytes:
    content: bytes = server.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    return content


def test_no_rights_to_it(s3: S3Server, broker: ServerProcess, tmp_path: Path) -> None:
    bootstrap = broker.bootstrap_servers
    s3.forbid(BUCKET, "s3:PutObject")
    told = goqueue("backup", "create", STORE, bootstrap=bootstrap, code=1)
    assert "ACCESS_DENIED" in told
    assert f"check that {STORE} can be reached" in told
    s3.allow(BUCKET)
    assert objects_of(s3, "backups") == []
    goqueue("backup", "create", STORE, bootstrap=bootstrap)
    s3.forbid(BUCKET, "s3:GetObject", "s3:HeadObject")
    target = tmp_path / "restored"
    told = goqueue("backup", "restore", STORE, "--data-dir", target, code=1)
    assert "ACCESS_DENIED" in told
    assert not target.exists()


@pytest.mark.parametrize("command", [("list",), ("verify",), ("prune", "--keep", "1", "--yes")])
def test_a_bucket_that_is_not_there_says_so(s3: S3Server, command: tuple[str, ...]) -> None:
    told = goqueue("backup", command[0], "s3://nobody/here", *command[1:], code=1)
    assert "'nobody'" in told
    assert "check that s3://nobody/here can be reached" in told


def test_addresses_that_lead_nowhere(
    broker: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap = broker.bootstrap_servers
    for address in ("s3://", "s3:///path", "nonsense://bucket/path"):
        told = goqueue("backup", "create", address, bootstrap=bootstrap, code=1)
        assert "s3://bucket/path" in told
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    told = goqueue("backup", "create", STORE, bootstrap=bootstrap, code=1)
    assert f"check that {STORE} can be reached" in told


@pytest.mark.slow  # Arrow tries again for a quarter of a minute
def test_a_store_that_goes_away_in_the_middle(
    broker: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    with S3Server() as server:
        variables_of(server, monkeypatch)
        server.client.create_bucket(Bucket=BUCKET)
        creating = launch(
            *("backup", "create", STORE, "--rate", RATE),
            bootstrap=broker.bootstrap_servers,
            stderr=subprocess.PIPE,
        )
        until(lambda: objects_of(server), "an object")
        server.end()
        _, told = creating.communicate(timeout=120)
    assert creating.returncode == 1
    assert f"check that {STORE} can be reached" in told.decode()
    assert "Traceback" not in told.decode()


@pytest.mark.slow
def test_ctrl_c_leaves_no_backup(s3: S3Server, broker: ServerProcess) -> None:
    creating = launch("backup", "create", STORE, "--rate", RATE, bootstrap=broker.bootstrap_servers)
    until(lambda: objects_of(s3), "an object")
    creating.send_signal(signal.SIGINT)
    assert creating.wait(60) == 130
    assert objects_of(s3, "backups") == []
    # Its mark is gone, so that a prune may remove what it stored.
    assert objects_of(s3, "running") == []
