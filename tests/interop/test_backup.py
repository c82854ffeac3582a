"""Backups of a broker that runs: what real clients find after a restore, and what kills cost."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from confluent_kafka import Producer

from goqueue.testing.server_process import ServerNotReady, ServerProcess
from tests.busy_machine import stretched
from tests.interop.backups import (
    WAIT_SECONDS,
    commit,
    committed_offsets,
    delayed,
    goqueue,
    goqueue_json,
    launch,
    make_topic,
    produce,
    publish,
    read,
    topic_ids,
)
from tests.interop.servers import KEEPS_OLD_MESSAGES
from tests.interop.sqs_api import connect, new_queue, receive, receive_all

OPTIONS = (
    *KEEPS_OLD_MESSAGES,
    *("--set", "offsets.topic.num.partitions=2"),
    *("--set", "transaction.state.log.num.partitions=2"),
)
SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
# Values that no two logs have alike.
KILOBYTES = 100


def values(megabytes: float) -> list[bytes]:
    return [os.urandom(KILOBYTES * 1000) for _ in range(round(megabytes * 1000 / KILOBYTES))]


def until(is_so: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", *OPTIONS) as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def transactions(bootstrap: str) -> Producer:
    """One that is committed, one that is aborted, and one that is open."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "bookkeeper"})
    producer.init_transactions(stretched(WAIT_SECONDS))
    for value, end in (
        ("booked", producer.commit_transaction),
        ("not booked", producer.abort_transaction),
        ("open", None),
    ):
        producer.begin_transaction()
        producer.produce("books", value, partition=0)
        producer.flush(stretched(WAIT_SECONDS))
        if end is not None:
            end(stretched(WAIT_SECONDS))
    return producer


def test_everything_is_there_after_a_restore(
    server: ServerProcess, store: Path, tmp_path: Path
) -> None:
    bootstrap, http = server.bootstrap_servers, server.http_url
    make_topic(bootstrap, "orders", 2, retention_ms="-1")
    make_topic(bootstrap, "prices", 1, cleanup_policy="compact")
    make_topic(bootstrap, "books", 1)
    for partition in range(2):
        produce(bootstrap, "orders", [b"%04d" % n for n in range(100)], partition)
    produce(bootstrap, "prices", [b"milk", b"milk", b"cake"])
    commit(bootstrap, "readers", "orders", [30, 40])
    open_producer = transactions(bootstrap)
    publish(http, "orders", "in an hour", partition=0, delay=3_600_000)
    soon = publish(http, "orders", "in a moment", partition=1, delay=5_000)
    registered = requests.post(
        f"{http}/subjects/orders-value/versions", json={"schema": SCHEMA}, timeout=WAIT_SECONDS
    ).json()
    sqs = connect(http)
    queue = new_queue(sqs, VisibilityTimeout="3600")
    for body in ("done", "taken", "waiting"):
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    taken = {each["Body"]: each for each in receive_all(sqs, queue, 3)}
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=taken["done"]["ReceiptHandle"])
    sqs.change_message_visibility(
        QueueUrl=queue, ReceiptHandle=taken["waiting"]["ReceiptHandle"], VisibilityTimeout=0
    )
    before = {name: read(bootstrap, name) for name in ("orders", "prices", "books")}
    ids, waiting = topic_ids(http), delayed(http, "orders")
    assert soon["id"] in [each[0] for each in waiting]

    told = goqueue("backup", "create", store, bootstrap=bootstrap)
    assert "topics" in told
    # None of this is in the backup.
    produce(bootstrap, "orders", [b"late"])
    commit(bootstrap, "readers", "orders", [90, 90])
    make_topic(bootstrap, "later", 1)
    open_producer.commit_transaction(stretched(WAIT_SECONDS))
    server.sigkill()

    assert "is whole" in goqueue("backup", "verify", store)
    goqueue("backup", "restore", store, "--data-dir", tmp_path / "restored")
    with ServerProcess(tmp_path / "restored", *OPTIONS) as again:
        bootstrap, http = again.bootstrap_servers, again.http_url
        assert topic_ids(http) == ids
        assert read(bootstrap, "prices") == before["prices"]
        assert read(bootstrap, "books") == before["books"]
        until(lambda: [each[0] for each in delayed(http, "orders")] == [waiting[-1][0]], "delays")
        until(lambda: len(read(bootstrap, "orders")) > len(before["orders"]), "a delivery")
        [delivered] = set(read(bootstrap, "orders")) - set(before["orders"])
        assert (delivered[0], delivered[1], delivered[3]) == (1, 100, b"in a moment")
        assert committed_offsets(bootstrap, "readers", "orders", 2) == [30, 40]
        # Nobody reads past a transaction that is open; its producer's next life aborts it.
        assert [each[3] for each in read(bootstrap, "books", committed=True)] == [b"booked"]
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "bookkeeper"})
        producer.init_transactions(stretched(WAIT_SECONDS))
        produce(bootstrap, "books", [b"afterwards"])
        found = [each[3] for each in read(bootstrap, "books", committed=True)]
        assert found == [b"booked", b"afterwards"]
        schema = requests.get(f"{http}/schemas/ids/{registered['id']}", timeout=WAIT_SECONDS)
        assert schema.json()["schema"].replace(" ", "") == SCHEMA.replace(" ", "")
        sqs = connect(http)
        queue = sqs.get_queue_url(QueueName=queue.rpartition("/")[2])["QueueUrl"]
        # Receipts are as good as before; what was deleted does not come back.
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=taken["taken"]["ReceiptHandle"])
        [left] = receive_all(sqs, queue, 1)
        assert left["Body"] == "waiting"
        assert receive(sqs, queue) == []
        produce(bootstrap, "orders", [b"next"])
        assert read(bootstrap, "orders")[100][1:4:2] == (100, b"next")


def test_backups_of_the_same_broker_share_what_they_have_in_common(
    server: ServerProcess, store: Path, tmp_path: Path
) -> None:
    bootstrap = server.bootstrap_servers
    make_topic(bootstrap, "orders", 1, segment_bytes="1048576")
    produce(bootstrap, "orders", values(6))
    first = goqueue_json("backup", "create", store, bootstrap=bootstrap)
    was_first = read(bootstrap, "orders")
    produce(bootstrap, "orders", values(1))
    second = goqueue_json("backup", "create", store, bootstrap=bootstrap)
    was_second = read(bootstrap, "orders")
    assert first["newBytes"] > 6_000_000
    # The last chunk is made anew; those before it are used again.
    assert second["newBytes"] < 3_200_000
    listed = goqueue_json("backup", "list", store)
    assert [each["id"] for each in listed] == [first["id"], second["id"]]

    # Another life of the same topic, from the first backup on.
    server.sigterm()
    goqueue("backup", "restore", store, first["id"], "--data-dir", tmp_path / "other")
    with ServerProcess(tmp_path / "other", *OPTIONS) as other:
        assert read(other.bootstrap_servers, "orders") == was_first
        produce(other.bootstrap_servers, "orders", values(2))
        third = goqueue_json("backup", "create", store, bootstrap=other.bootstrap_servers)
        was_third = read(other.bootstrap_servers, "orders")
    pruned = goqueue_json("backup", "prune", store, "--keep", "2", "--yes")
    assert pruned["removed"] == [first["id"]]
    assert "no backup" in goqueue("backup", "verify", store, first["id"], code=1)
    for number, (backup, was) in enumerate(((second, was_second), (third, was_third))):
        goqueue("backup", "verify", store, backup["id"])
        target = tmp_path / f"restored-{number}"
        goqueue("backup", "restore", store, backup["id"], "--data-dir", target)
        with ServerProcess(target, *OPTIONS) as again:
            assert read(again.bootstrap_servers, "orders") == was


def test_of_a_stopped_broker(server: ServerProcess, store: Path, tmp_path: Path) -> None:
    bootstrap = server.bootstrap_servers
    make_topic(bootstrap, "orders", 2)
    produce(bootstrap, "orders", values(3), 0)
    produce(bootstrap, "orders", values(1), 1)
    commit(bootstrap, "readers", "orders", [5, 2])
    was = read(bootstrap, "orders")
    assert "in use" in goqueue(
        "backup", "create", store, "--data-dir", server.data_dir, code=1, bootstrap=bootstrap
    )
    goqueue("backup", "create", store, bootstrap=bootstrap)
    server.sigterm()
    folder = {path: path.stat().st_mtime_ns for path in server.data_dir.rglob("*")}
    made = goqueue_json("backup", "create", store, "--data-dir", server.data_dir)
    assert {path: path.stat().st_mtime_ns for path in server.data_dir.rglob("*")} == folder
    # All of it was stored when it ran, but for what a stop changes.
    assert made["newBytes"] < 100_000
    goqueue("backup", "restore", store, "--data-dir", tmp_path / "restored")
    with ServerProcess(tmp_path / "restored", *OPTIONS) as again:
        assert read(again.bootstrap_servers, "orders") == was
        assert committed_offsets(again.bootstrap_servers, "readers", "orders", 2) == [5, 2]
        again.sigkill()
    told = goqueue("backup", "create", store, "--data-dir", tmp_path / "restored", code=1)
    assert "was not stopped in order" in told


def killed(command: "subprocess.Popen[bytes]", when: Callable[[], Any]) -> None:
    """End the process in the middle of its work."""
    until(lambda: when() or command.poll() is not None, "work")
    assert command.poll() is None, "it was done before it could be killed"
    command.send_signal(signal.SIGKILL)
    command.wait()


def test_a_killed_backup_is_none_and_the_next_goes_on_from_there(
    server: ServerProcess, store: Path, tmp_path: Path
) -> None:
    bootstrap = server.bootstrap_servers
    make_topic(bootstrap, "orders", 1, segment_bytes="1048576")
    produce(bootstrap, "orders", values(6))
    was = read(bootstrap, "orders")

    def objects() -> list[Path]:
        return [path for path in store.rglob("objects/*/*") if path.suffix != ".tmp"]

    creating = launch("backup", "create", store, "--rate", "500KB", bootstrap=bootstrap)
    killed(creating, objects)
    assert "no backup" in goqueue("backup", "list", store)
    made = goqueue_json("backup", "create", store, bootstrap=bootstrap)
    assert made["newBytes"] < made["bytes"]
    goqueue("backup", "verify", store)
    server.sigterm()

    target = tmp_path / "restored"
    restoring = launch("backup", "restore", store, "--data-dir", target, "--rate", "500KB")
    killed(restoring, lambda: list(target.rglob("*.log")))
    with pytest.raises(ServerNotReady, match="run `goqueue backup restore` again"):
        ServerProcess(target, *OPTIONS).start()
    goqueue("backup", "restore", store, "--data-dir", target)
    with ServerProcess(target, *OPTIONS) as again:
        assert read(again.bootstrap_servers, "orders") == was
    assert "is not empty" in goqueue("backup", "restore", store, "--data-dir", target, code=1)


def test_damage_is_told_and_never_restored(
    server: ServerProcess, store: Path, tmp_path: Path
) -> None:
    bootstrap = server.bootstrap_servers
    make_topic(bootstrap, "orders", 1)
    produce(bootstrap, "orders", values(1))
    goqueue("backup", "create", store, bootstrap=bootstrap)
    victim = max(store.rglob("objects/*/*"), key=lambda path: path.stat().st_size)
    whole = victim.read_bytes()
    victim.write_bytes(whole[:1000] + b"x" + whole[1001:])
    found = goqueue_json("backup", "verify", store, code=1)
    [problem] = found["problems"]
    assert problem["place"] == "orders-0"
    assert victim.name in problem["problem"]
    told = goqueue("backup", "restore", store, "--data-dir", tmp_path / "restored", code=1)
    assert victim.name in told
    assert not (tmp_path / "restored" / "format.json").exists()
    # What is missing is stored again.
    victim.unlink()
    assert "is missing" in goqueue("backup", "verify", store, code=1)
    goqueue("backup", "create", store, bootstrap=bootstrap)
    assert "is whole" in goqueue("backup", "verify", store)


def test_a_manifest_that_is_damaged_or_too_new(
    server: ServerProcess, store: Path, tmp_path: Path
) -> None:
    bootstrap, target = server.bootstrap_servers, tmp_path / "restored"
    make_topic(bootstrap, "orders", 1)
    produce(bootstrap, "orders", values(0.2))
    first = goqueue_json("backup", "create", store, bootstrap=bootstrap)
    second = goqueue_json("backup", "create", store, bootstrap=bootstrap)
    manifest = store / "backups" / f"{second['id']}.manifest"
    whole = manifest.read_bytes()
    line, _, body = whole.partition(b"\n")
    newer = line.replace(b" 1 ", b" 2 ") + b"\n" + body
    for content, step in (
        (whole[:-10], "use an earlier one"),
        (b"", "use an earlier one"),
        (newer, "use the release that wrote it"),
    ):
        manifest.write_bytes(content)
        for command in (("verify",), ("restore", "--data-dir", target)):
            told = goqueue("backup", command[0], store, *command[1:], code=1)
            assert second["id"] in told
            assert step in told
        assert not target.exists()
        # The others are there as before, and nothing that this one may need is removed.
        listed = goqueue("backup", "list", store, code=1)
        assert first["id"] in listed
        assert second["id"] in listed
        told = goqueue("backup", "prune", store, "--keep", "1", "--yes", code=1)
        assert second["id"] in told
        assert len(list((store / "backups").iterdir())) == 2
        assert "is whole" in goqueue("backup", "verify", store, first["id"])
    # One that cannot be read is of no use to the next, and does not keep it from being made.
    third = goqueue_json("backup", "create", store, bootstrap=bootstrap)
    manifest.unlink()
    goqueue("backup", "prune", store, "--keep", "1", "--yes")
    goqueue("backup", "restore", store, third["id"], "--data-dir", target)
    told = goqueue("backup", "restore", store, "--data-dir", target, code=1)
    assert "is not empty" in told


def test_commands_say_what_to_do_next(store: Path, tmp_path: Path) -> None:
    nobody = "127.0.0.1:1"
    assert "goqueue serve" in goqueue("backup", "create", store, code=1, bootstrap=nobody)
    assert "goqueue backup create" in goqueue("backup", "verify", store, code=1)
    assert "goqueue backup list" in goqueue("backup", "verify", store, "../../x", code=1)
    assert "no backup" in goqueue("backup", "list", store)
    file = tmp_path / "file"
    file.write_text("no folder")
    told = goqueue("backup", "prune", file, "--keep", "1", "--yes", code=1)
    assert "can be reached" in told
