"""`goqueue serve --workers`: several processes that clients take for one broker."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import requests
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from prometheus_client.parser import text_string_to_metric_families

from goqueue.testing import ServerProcess
from goqueue.testing.ports import free_port, free_ports
from tests.busy_machine import stretched
from tests.interop import backups as backup
from tests.interop.sqs_api import connect, new_name
from tests.interop.test_cli import COMMAND, TIMEOUT_SECONDS

WAIT_SECONDS = 60.0
# A worker is back in about a second on an idle machine.
READY = re.compile(r"worker (\d+) is ready: process (\d+)")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("two") / "data", workers=2) as server:
        yield server


@pytest.fixture
def topic(two: ServerProcess) -> str:
    return made_topic(two)


@pytest.fixture(scope="module")
def folder_of_mortals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("mortal") / "data", workers=2) as server:
        yield server


@pytest.fixture
def mortal(folder_of_mortals: ServerProcess) -> ServerProcess:
    """Two workers that tests kill, on one folder for all of these tests."""
    if not folder_of_mortals.is_running:
        folder_of_mortals.start()
    return folder_of_mortals


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def workers_of(server: ServerProcess) -> dict[int, int]:
    """The process of each worker, as of its last start."""
    return {int(worker): int(pid) for worker, pid in READY.findall(server.log_text)}


def come_back(server: ServerProcess, worker: int, before: dict[int, int]) -> None:
    """Waits for a worker that was killed."""
    until(lambda: workers_of(server)[worker] != before[worker])


def is_alive(pid: int) -> bool:
    """A dead one that nobody waited for yet is no process any more."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def made_topic(server: ServerProcess, partitions: int = 4, name: str | None = None) -> str:
    name = name or f"orders-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic(name, num_partitions=partitions)])[name].result(WAIT_SECONDS)
    return name


def leaders(server: ServerProcess, topic: str) -> Counter[int]:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    found = admin.list_topics(topic, timeout=WAIT_SECONDS).topics[topic]
    return Counter(partition.leader for partition in found.partitions.values())


def send(
    server: ServerProcess,
    topic: str,
    count: int,
    start: int = 0,
    keys: Sequence[bytes] | None = None,
) -> None:
    failures: list[object] = []

    def delivered(error: object, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": server.bootstrap_servers})
    for number in range(start, start + count):
        key = b"%d" % number if keys is None else keys[number]
        producer.produce(topic, b"%d" % number, key=key, on_delivery=delivered)
    assert producer.flush(WAIT_SECONDS) == 0
    assert not failures


def received(server: ServerProcess, topic: str, group: str, count: int) -> set[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: set[int] = set()
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    try:
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} came"
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.add(int(message.value() or b""))
    finally:
        consumer.close()
    return found


def serve(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, "serve", *arguments], capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )


# --- as clients see them ------------------------------------------------------------------


def test_partitions_are_spread_and_stored_once(two: ServerProcess, topic: str) -> None:
    assert leaders(two, topic) == {0: 2, 1: 2}
    admin = AdminClient({"bootstrap.servers": two.bootstrap_servers})
    brokers = admin.list_topics(timeout=WAIT_SECONDS).brokers
    first, second = two.bootstrap_servers.split(",")
    assert {node: f"{b.host}:{b.port}" for node, b in brokers.items()} == {0: first, 1: second}


@pytest.mark.parametrize("asked", [0, 1])
def test_any_of_them_can_be_asked_first(two: ServerProcess, topic: str, asked: int) -> None:
    addresses = two.bootstrap_servers.split(",")
    producer = Producer({"bootstrap.servers": addresses[asked]})
    for number in range(40):
        producer.produce(topic, b"%d" % number, partition=number % 4)
    assert producer.flush(WAIT_SECONDS) == 0
    assert received(two, topic, f"group-{asked}", 40) == set(range(40))


def test_a_group_reads_from_all_workers(two: ServerProcess, topic: str) -> None:
    send(two, topic, 200)
    assert received(two, topic, "readers", 200) == set(range(200))
    send(two, topic, 20, start=200)
    # What was read before is committed, whichever worker coordinates the group.
    assert received(two, topic, "readers", 20) == set(range(200, 220))


def test_transactions_span_workers(two: ServerProcess, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": two.bootstrap_servers, "transactional.id": f"tx-{topic}"}
    )
    producer.init_transactions(WAIT_SECONDS)
    for commits in (True, False, True):
        producer.begin_transaction()
        for partition in range(4):
            value = partition if commits else 1_000
            producer.produce(topic, b"%d" % value, partition=partition)
        if commits:
            producer.commit_transaction(WAIT_SECONDS)
        else:
            producer.abort_transaction(WAIT_SECONDS)
    assert received(two, topic, f"of-{topic}", 4) == {0, 1, 2, 3}


def test_http_has_one_port_and_every_answer(two: ServerProcess, topic: str) -> None:
    """Each request on a connection of its own, so that both workers are asked."""
    for number in range(40):
        answer = requests.post(
            f"{two.http_url}/topics/{topic}/messages",
            json={"key": str(number), "value": str(number)},
            headers={"connection": "close"},
            timeout=WAIT_SECONDS,
        )
        assert answer.status_code == 200, answer.text
    found: set[str] = set()
    while len(found) < 40:
        answer = requests.post(
            f"{two.http_url}/groups/kitchen/receive",
            json={"topic": topic, "timeout": 1_000},
            headers={"connection": "close"},
            timeout=WAIT_SECONDS,
        )
        assert answer.status_code == 200, answer.text
        messages = answer.json()["messages"]
        found |= {message["value"] for message in messages}
        receipts = [message["receipt"] for message in messages]
        if receipts:
            settled = requests.post(
                f"{two.http_url}/messages/ack",
                json={"group": "kitchen", "receipts": receipts},
                headers={"connection": "close"},
                timeout=WAIT_SECONDS,
            )
            assert settled.status_code == 200, settled.text
    assert found == {str(number) for number in range(40)}


def test_sqs_at_the_same_port(two: ServerProcess) -> None:
    url = connect(two.http_url).create_queue(QueueName=new_name())["QueueUrl"]
    sent = {f"job {number}" for number in range(30)}
    for body in sent:
        connect(two.http_url).send_message(QueueUrl=url, MessageBody=body)
    found: set[str] = set()
    while len(found) < len(sent):
        got = connect(two.http_url).receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5
        )
        for message in got.get("Messages", []):
            found.add(message["Body"])
            connect(two.http_url).delete_message(
                QueueUrl=url, ReceiptHandle=message["ReceiptHandle"]
            )
    assert found == sent


def test_metrics_are_those_of_all_workers(two: ServerProcess, topic: str) -> None:
    send(two, topic, 100)

    def scraped() -> dict[tuple[str, ...], float]:
        text = requests.get(f"{two.http_url}/metrics", timeout=WAIT_SECONDS).text
        return {
            (sample.name, sample.labels["worker"], sample.labels.get("topic", "")): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    # Whichever is asked, and as soon as both have loaded what it takes to answer.
    until(lambda: scraped()["goqueue_worker_up", "0", ""] == 1)
    until(lambda: scraped()["goqueue_worker_up", "1", ""] == 1)
    for _ in range(5):
        found = scraped()
        assert {worker for name, worker, _ in found if name == "goqueue_build_info"} == {"0", "1"}
        assert found["goqueue_brokers", "0", ""] == found["goqueue_brokers", "1", ""] == 2
        assert found["process_cpu_seconds_total", "0", ""] > 0
        assert found["goqueue_leaders", "0", ""] > 0
        assert found["goqueue_leaders", "1", ""] > 0


def test_the_cluster_commands_know_them(two: ServerProcess) -> None:
    state = requests.get(f"{two.http_url}/cluster/state", timeout=WAIT_SECONDS).json()
    assert {node["status"] for node in state["nodes"]} == {"alive"}
    until(
        lambda: (
            requests.get(f"{two.http_url}/cluster/health", timeout=WAIT_SECONDS).json()["status"]
            == "healthy"
        )
    )


def test_a_backup_of_all_workers_is_restored_to_one_broker(
    two: ServerProcess, topic: str, tmp_path: Path
) -> None:
    send(two, topic, 100)
    assert received(two, topic, "readers", 100) == set(range(100))
    store, restored = tmp_path / "store", tmp_path / "restored"
    backup.goqueue("backup", "create", store, bootstrap=two.bootstrap_servers)
    assert "is whole" in backup.goqueue("backup", "verify", store)
    backup.goqueue("backup", "restore", store, "--data-dir", restored)
    was = backup.read(two.bootstrap_servers, topic)
    with ServerProcess(restored) as one:
        assert backup.read(one.bootstrap_servers, topic) == was
        send(one, topic, 10, start=100)
        assert received(one, topic, "readers", 10) == set(range(100, 110))
    told = backup.goqueue("backup", "create", store, "--data-dir", two.data_dir, code=1)
    assert "make the backup while it runs" in told


def test_a_split_spreads_new_partitions_over_workers(two: ServerProcess, topic: str) -> None:
    keys = [b"key-%d" % (number % 20) for number in range(400)]
    send(two, topic, 200, keys=keys)
    told = backup.goqueue(
        *("topics", "split", topic, "--partitions", "8"), bootstrap=two.bootstrap_servers
    )
    assert "into 8 partitions" in told
    assert leaders(two, topic) == {0: 4, 1: 4}
    send(two, topic, 200, start=200, keys=keys)
    found = {int(value) for *_, value, _ in backup.read(two.bootstrap_servers, topic) if value}
    assert found == set(range(400))
    layout = requests.get(f"{two.http_url}/topics/{topic}/layout", timeout=WAIT_SECONDS).json()
    assert layout["epochs"][-1]["partitions"] == 8


def test_log_lines_name_their_worker(two: ServerProcess) -> None:
    for worker in (0, 1):
        assert f"INFO [worker {worker}] " in two.log_text
    assert "Traceback" not in two.log_text


# --- ends ---------------------------------------------------------------------------------


def test_a_killed_worker_comes_back_and_nothing_is_lost(mortal: ServerProcess) -> None:
    topic = made_topic(mortal)
    send(mortal, topic, 100)
    assert received(mortal, topic, "readers", 100) == set(range(100))
    before = workers_of(mortal)
    os.kill(before[1], signal.SIGKILL)
    come_back(mortal, 1, before)
    # The other one is the same, and all is where it was.
    assert workers_of(mortal)[0] == before[0]
    assert leaders(mortal, topic) == {0: 2, 1: 2}
    send(mortal, topic, 100, start=100)
    assert received(mortal, topic, "all", 200) == set(range(200))
    assert received(mortal, topic, "readers", 100) == set(range(100, 200))
    assert "was ended by SIGKILL; it is started again" in mortal.log_text
    assert "Traceback" not in mortal.log_text


def test_one_signal_ends_all_and_the_folder_keeps_everything(mortal: ServerProcess) -> None:
    topic = made_topic(mortal)
    send(mortal, topic, 60)
    pids, stops = workers_of(mortal), mortal.log_text.count("stopped cleanly")
    # As systemd does, which tells every process of a service.
    for pid in (mortal.pid, *pids.values()):
        os.kill(pid, signal.SIGTERM)
    assert mortal.wait_ended() == 0
    assert not any(is_alive(pid) for pid in pids.values())
    assert mortal.log_text.count("stopped cleanly") == stops + 2
    mortal.start()
    assert leaders(mortal, topic) == {0: 2, 1: 2}
    assert received(mortal, topic, "readers", 60) == set(range(60))
    folders = sorted(path.name for path in mortal.data_dir.iterdir())
    assert folders == ["broker.lock", "store", "worker-0", "worker-1", "workers.json"]


def test_who_does_not_want_to_wait_ends_all_at_once(mortal: ServerProcess) -> None:
    pids = workers_of(mortal)
    mortal.send_signal(signal.SIGTERM)
    mortal.send_signal(signal.SIGINT)
    assert mortal.wait_ended() in (128 + signal.SIGTERM, 128 + signal.SIGINT)
    until(lambda: not any(is_alive(pid) for pid in pids.values()))


@pytest.mark.slow
def test_a_worker_that_dies_over_and_over_is_given_up(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data, workers=2) as server:
        # Its next starts fail: somebody broke its folder.
        (data / "worker-1" / "format.json").write_text("nonsense")
        os.kill(workers_of(server)[1], signal.SIGKILL)
        until(lambda: not server.is_running)
        assert server.wait_ended() == 1
        text = server.log_text
        assert "worker 1 died 10 times in a row" in text
        assert "the checksum in its first line" in text
        assert "[worker 0] server.process: stopped cleanly" in text


# --- starts -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_folder_of_one_broker_goes_on_with_several(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as alone:
        topic = made_topic(alone, partitions=3)
        send(alone, topic, 30)
        assert received(alone, topic, "readers", 30) == set(range(30))
        alone.sigterm()
    with ServerProcess(data, workers=2) as server:
        assert leaders(server, topic) == {0: 3}
        send(server, topic, 10, start=30)
        assert received(server, topic, "readers", 10) == set(range(30, 40))
        # New ones are spread; the one with less comes first.
        assert leaders(server, made_topic(server, partitions=4)) == {0: 2, 1: 2}
        server.sigterm()
    # And not back to one, for the other has partitions.
    refused = serve("--data-dir", str(data), "--kafka-port", "0", "--http-port", "0")
    assert refused.returncode == 1
    assert "on worker 1); start it with --workers 2" in refused.stderr


@pytest.mark.slow
def test_more_workers_later_and_fewer_once_they_are_drained(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data, workers=2) as server:
        topic = made_topic(server)
        send(server, topic, 40)
    with ServerProcess(data, workers=3) as server:
        wide = made_topic(server, partitions=6)
        assert leaders(server, wide) == {0: 2, 1: 2, 2: 2}
        send(server, wide, 60)
        assert received(server, topic, "readers", 40) == set(range(40))
    refused = serve("--data-dir", str(data), "--workers", "2", "--kafka-port", "0")
    assert refused.returncode == 1
    assert " on worker 2); start it with --workers 3" in refused.stderr
    assert "`goqueue cluster drain 2 --wait`" in refused.stderr
    with ServerProcess(data, workers=3) as server:
        drain = ("cluster", "drain", "2", "--wait", "--yes")
        backup.goqueue(*drain, bootstrap=server.bootstrap_servers)
        until(lambda: 2 not in leaders(server, wide))
    with ServerProcess(data, workers=2) as server:
        assert received(server, wide, "all", 60) == set(range(60))
        assert received(server, topic, "all", 40) == set(range(40))


def test_what_is_wrong_is_said_before_anything_is_started(tmp_path: Path) -> None:
    data, kafka = tmp_path / "data", free_ports(2)
    ports = ("--kafka-port", str(kafka), "--http-port", str(free_port()))
    with socket.create_server(("127.0.0.1", kafka + 1)):
        done = serve("--data-dir", str(data), "--workers", "2", *ports)
    assert done.returncode == 1
    assert f"Kafka port {kafka + 1} on 127.0.0.1 is in use" in done.stderr
    # Nothing was made of the folder.
    assert [path.name for path in data.iterdir()] == ["broker.lock"]
    for arguments, words in (
        (("--workers", "2", "--node-id", "3"), "node.id: 3"),
        (("--workers", "2", "--cluster", "etcd://127.0.0.1:1"), "of a cluster is one process"),
        (("--workers", "65"), "workers: 65 is above the maximum 64"),
    ):
        done = serve("--data-dir", str(data), *ports, *arguments)
        assert done.returncode == 1
        assert words in done.stderr


def test_a_second_one_on_the_same_ports_is_refused(two: ServerProcess, tmp_path: Path) -> None:
    """The kernel would let them share it, and clients would get to either."""
    port = two.http_url.rpartition(":")[2]
    done = serve(
        *("--data-dir", str(tmp_path / "other"), "--workers", "2"),
        *("--kafka-port", "0", "--http-port", port),
    )
    assert done.returncode == 1
    assert f"HTTP port {port} on 127.0.0.1 is in use" in done.stderr


def test_the_ready_file_tells_all_addresses(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    process = subprocess.Popen(
        [
            *COMMAND,
            *("serve", "--data-dir", str(tmp_path / "data"), "--workers", "2"),
            *("--kafka-port", "0", "--http-port", "0", "--ready-file", str(ready)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        until(ready.exists)
        facts = json.loads(ready.read_text())
        addresses = facts["bootstrap_servers"].split(",")
        assert len(set(addresses)) == 2
        assert len(facts["worker_pids"]) == 2
        for address in addresses:
            host, _, port = address.rpartition(":")
            with contextlib.closing(socket.create_connection((host, int(port)), timeout=10)):
                pass
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        assert f"Kafka  {facts['bootstrap_servers']}\n" in said
        assert f"HTTP   {facts['http_url']}\n" in said
        assert "Workers 2\n" in said
        assert process.returncode == 0
        assert not ready.exists()
    finally:
        process.kill()
        process.communicate()
