"""The audit of a real broker: killed while it writes, without its folder, read by real clients."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from goqueue.broker.audit.line import WRITE_INTERVAL_S
from goqueue.model.topics import AUDIT_TOPIC
from goqueue.testing import GoQueueCluster, ServerProcess
from tests.interop.secured import PATIENCE_S, SECURED, eventually, with_users

ON = ("--set", "audit.enabled=true", "--set", "num.partitions=1")
# What docs say that a killed broker loses at most.
LOST_MAX_S = 1.0


def lines(folder: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted((folder / "audit").glob("*")):
        text = path.read_bytes()
        *whole, _ = text.split(b"\n")
        found += [json.loads(line) for line in whole if line.endswith(b"}")]
    return found


def metric(server: ServerProcess, name: str) -> float:
    text = httpx.get(f"{server.http_url}/metrics").text
    found = [line for line in text.splitlines() if line.startswith(name)]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def test_a_killed_broker_loses_a_second_at_most(tmp_path: Path) -> None:
    """How long the broker itself takes to write is not measured: the machine may be busy."""
    assert WRITE_INTERVAL_S < LOST_MAX_S
    data = tmp_path / "data"
    made: set[str] = set()
    with ServerProcess(data, *ON) as server:
        with httpx.Client(base_url=server.http_url) as http:
            give_up_at = time.monotonic() + PATIENCE_S
            while not (due := {each["name"] for each in lines(data)}):
                assert time.monotonic() < give_up_at, "nothing is written while the broker runs"
                name = f"t{len(made)}"
                assert http.post("/topics", json={"name": name}).status_code == 201
                made.add(name)
            eventually(lambda: AUDIT_TOPIC in _topics(server))
            eventually(lambda: len(_read(server.bootstrap_servers, {})) >= len(due))
            # Killed while it has some to write.
            for _ in range(20):
                name = f"t{len(made)}"
                assert http.post("/topics", json={"name": name}).status_code == 201
                made.add(name)
            server.sigkill()
        server.start()
        told = {each["name"] for each in lines(data)}
        assert due <= told <= made
        # What was told before is known, and what comes now is told behind it.
        with httpx.Client(base_url=server.http_url) as http:
            known = {each["name"] for each in http.get("/audit?limit=1000").json()["events"]}
            assert known == told or len(known) == 1_000
            http.post("/topics", json={"name": "after"})
        eventually(lambda: lines(data)[-1]["name"] == "after")
        stored = _read(server.bootstrap_servers, {})
        assert due <= {each["name"] for each in stored} <= {*made, "after"}
    assert lines(data)[-1]["name"] == "after"


def test_what_cannot_be_written_is_counted_and_holds_up_nobody(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data, *ON) as server:
        server.sigterm()
        for path in (data / "audit").glob("*"):
            path.unlink()
        if (data / "audit").exists():
            (data / "audit").rmdir()
        (data / "audit").write_text("no folder")
        server.start()
        for number in range(20):
            answer = httpx.post(f"{server.http_url}/topics", json={"name": f"t{number}"})
            assert answer.status_code == 201
        eventually(lambda: metric(server, 'goqueue_audit_dropped_total{target="file"}') == 20)
        assert metric(server, 'goqueue_audit_dropped_total{target="topic"}') == 0
        assert metric(server, 'goqueue_audit_events_total{event="topic.create"') == 20
        assert "entries of the audit lost (file)" in server.log_text
        assert server.sigterm() == 0


def test_files_are_rotated_and_few(tmp_path: Path) -> None:
    data = tmp_path / "data"
    small = ("--set", "audit.file.max.bytes=1024", "--set", "audit.file.max.files=2")
    with (
        ServerProcess(data, *ON, *small, "--set", "audit.topic.enabled=false") as server,
        httpx.Client(base_url=server.http_url) as http,
    ):
        for number in range(60):
            http.post("/topics", json={"name": f"t{number}"})
        eventually(lambda: lines(data)[-1]["name"] == "t59")
        assert len(list((data / "audit").iterdir())) <= 2
        topics = {each["name"] for each in http.get("/topics").json()["topics"]}
        assert AUDIT_TOPIC not in topics


def test_administrators_read_the_topic_and_others_do_not_see_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with_users(data, admins={"root": "root-word"}, others={"alice": "alice-word"})
    with ServerProcess(data, *SECURED) as server:
        root = _kafka("root", "root-word")
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, **root})
        for future in admin.create_topics([NewTopic("orders", 1)]).values():
            future.result(PATIENCE_S)
        alice = _kafka("alice", "alice-word")
        with httpx.Client(base_url=server.http_url, auth=("alice", "alice-word")) as http:
            assert http.delete("/topics/orders").status_code == 403
            assert http.get("/audit").status_code == 403
            assert http.get("/topics").json()["topics"] == []
        with httpx.Client(base_url=server.http_url, auth=("root", "wrong")) as http:
            assert http.get("/audit").status_code == 401
        eventually(lambda: len(lines(data)) >= 5)
        stored = _read(server.bootstrap_servers, root)
        told = {(each["event"], each["outcome"], each["principal"]) for each in stored}
        assert {
            ("login", "success", "User:root"),
            ("login", "success", "User:alice"),
            ("login", "failure", "User:root"),
            ("topic.create", "success", "User:root"),
            ("access", "refused", "User:alice"),
        } <= told
        [created] = [each for each in stored if each["event"] == "topic.create"]
        assert (created["door"], created["address"]) == ("kafka", "127.0.0.1")
        stranger = AdminClient({"bootstrap.servers": server.bootstrap_servers, **alice})
        assert AUDIT_TOPIC not in stranger.list_topics(timeout=PATIENCE_S).topics
        asked = stranger.list_topics(AUDIT_TOPIC, timeout=PATIENCE_S).topics[AUDIT_TOPIC]
        assert asked.error is not None
        assert asked.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_command_lists_them(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", *ON) as server:
        httpx.post(f"{server.http_url}/topics", json={"name": "orders"})
        httpx.post(f"{server.http_url}/topics", json={"name": "orders"})
        command = [sys.executable, "-m", "goqueue", "audit", "--http", server.http_url]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        heading, made, again = shown.splitlines()
        assert heading.split()[:2] == ["Time", "Event"]
        assert made.split()[1:3] == ["topic.create", "success"]
        assert "failure (topic_exists)" in again
        options = ["-o", "json", "--event", "topic", "--principal", "User:ANONYMOUS", "-n", "1"]
        shown = subprocess.run([*command, *options], capture_output=True, text=True).stdout
        [last] = json.loads(shown)
        assert (last["name"], last["error"]) == ("orders", "topic_exists")
        none = subprocess.run([*command, "-o", "json", "--event", "login"], capture_output=True)
        assert json.loads(none.stdout) == []


def _kafka(name: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": name,
        "sasl.password": password,
    }


def _topics(server: ServerProcess) -> dict[str, Any]:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    found: dict[str, Any] = admin.list_topics(timeout=PATIENCE_S).topics
    return found


def _consumer(bootstrap: str, credentials: dict[str, str]) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "auditors",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **credentials,
        }
    )


def _read(bootstrap: str, credentials: dict[str, str]) -> list[dict[str, Any]]:
    consumer = _consumer(bootstrap, credentials)
    consumer.subscribe([AUDIT_TOPIC])
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            break
        assert error is None, error
        value = message.value()
        assert value is not None
        found.append(json.loads(value))
    consumer.close()
    return found


def test_a_cluster_tells_what_all_of_its_brokers_noted() -> None:
    with GoQueueCluster(*ON, "--set", "default.replication.factor=2", brokers=2) as cluster:
        urls = {node: cluster.server(node).http_url for node in (1, 2)}
        for node, url in urls.items():
            answer = httpx.post(f"{url}/topics", json={"name": f"t{node}"}, timeout=PATIENCE_S)
            assert answer.status_code == 201, answer.text
        for url in urls.values():
            told = httpx.get(f"{url}/audit", timeout=PATIENCE_S).json()["events"]
            assert {(each["name"], each["node"]) for each in told} == {("t1", 1), ("t2", 2)}
        eventually(
            lambda: {each["name"] for each in _read(cluster.bootstrap_servers, {})} == {"t1", "t2"}
        )
