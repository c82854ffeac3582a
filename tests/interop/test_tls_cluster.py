"""Brokers that reach each other by TLS."""

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_ranges import LATEST, READ_COMMITTED
from goqueue.model.client_security import ClientSecurity
from goqueue.testing import GoQueueCluster, ServerProcess
from tests.interop.tls_files import made, options

DEADLINE_SECONDS = 60
COUNT = 300


def send(bootstrap: str, ca: Path | None, topic: str, count: int) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "acks": "all"}
    if ca is not None:
        settings |= {"security.protocol": "ssl", "ssl.ca.location": str(ca)}
    producer = Producer(settings)
    failures: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    for number in range(count):
        producer.produce(topic, f"{number}".encode(), key=f"{number}", on_delivery=delivered)
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert failures == []


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_three_brokers_replicate_and_elect_by_tls(tmp_path: Path) -> None:
    files = made(tmp_path / "certificates")
    security = ClientSecurity(tls=True, ca_file=str(files.ca))
    topic = "orders"
    with GoQueueCluster(
        *options(files, client_auth="requested"),
        *(
            "--set",
            "default.replication.factor=3",
            "--set",
            "num.partitions=1",
            "--set",
            "topic.min.insync.replicas=2",
            "--set",
            "broker.session.timeout.ms=60000",
        ),
        security=security,
    ) as cluster:
        context = ssl.create_default_context(cafile=str(files.ca))
        for url in cluster.http_urls:
            assert httpx.get(f"{url}/readyz", verify=context).status_code == 200
        send(cluster.bootstrap_servers, files.ca, topic, COUNT)
        until(lambda: cluster.in_sync(topic) == {1, 2, 3})
        first = cluster.leader(topic)
        assert first is not None
        began = time.monotonic()
        cluster.kill(first)
        until(lambda: cluster.leader(topic) not in (first, None))
        # Witnesses saw the end of the process: far sooner than its lease ends.
        assert time.monotonic() - began < 40
        send(cluster.bootstrap_servers, files.ca, topic, COUNT)
        with LogCluster(cluster.bootstrap_servers, security=security) as log:
            ends = log.offsets({(topic, 0): LATEST}, isolation=READ_COMMITTED)
        assert ends == {(topic, 0): 2 * COUNT}


def test_a_cluster_is_switched_broker_by_broker(tmp_path: Path) -> None:
    files = made(tmp_path / "certificates")
    topic, rounds = "orders", 0
    with GoQueueCluster(
        *("--set", "default.replication.factor=2", "--set", "num.partitions=1"),
        *("--set", "topic.min.insync.replicas=1"),
        brokers=2,
    ) as cluster:

        def restart(node: int, *more: str) -> None:
            nonlocal rounds
            server = cluster.server(node)
            server._options = (*server._options, *more)
            cluster.restart(node)
            until(lambda: cluster.in_sync(topic) == {1, 2})
            send(cluster.bootstrap_servers, tls_ca, topic, 10)
            rounds += 1

        tls_ca: Path | None = None
        send(cluster.bootstrap_servers, tls_ca, topic, 10)
        for node in cluster.node_ids:
            restart(node, *options(files, optional="true"))
        # Clients of both kinds are let in at both doors; then they are switched, too.
        server = cluster.server(1)
        context = ssl.create_default_context(cafile=str(files.ca))
        assert httpx.get(f"{server.http_url}/readyz", verify=context).status_code == 200
        plain_url = server.http_url.replace("https:", "http:")
        assert httpx.get(f"{plain_url}/readyz").status_code == 200
        tls_ca = files.ca
        cluster._security = security = ClientSecurity(tls=True, ca_file=str(files.ca))
        for node in cluster.node_ids:
            restart(node, "--set", "tls.optional=false")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{plain_url}/readyz")
        with LogCluster(cluster.bootstrap_servers, security=security) as log:
            ends = log.offsets({(topic, 0): LATEST}, isolation=READ_COMMITTED)
        assert (rounds, ends) == (4, {(topic, 0): 50})
        for node in cluster.node_ids:
            lines = cluster.server(node).log_text.splitlines()
            assert not [each for each in lines if "Kafka connection from" in each]


def test_workers_of_one_machine_by_tls(tmp_path: Path) -> None:
    files = made(tmp_path / "certificates")
    security = ClientSecurity(tls=True, ca_file=str(files.ca))
    with ServerProcess(tmp_path / "data", *options(files), workers=2) as server:
        context = ssl.create_default_context(cafile=str(files.ca))
        with httpx.Client(base_url=server.http_url, verify=context) as http:
            made_topic = http.post("/topics", json={"name": "orders", "partitions": 4})
            assert made_topic.status_code == 201
        send(server.bootstrap_servers, files.ca, "orders", COUNT)
        with LogCluster(server.bootstrap_servers, security=security) as log:
            wanted = {("orders", partition): LATEST for partition in range(4)}
            assert sum(log.offsets(wanted, isolation=READ_COMMITTED).values()) == COUNT
        assert "it does not speak TLS" not in server.log_text
