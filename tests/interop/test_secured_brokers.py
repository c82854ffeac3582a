"""`goqueue.testing` with `security=True`: settings that real clients log in by."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from goqueue.testing import EmbeddedBroker, GoQueueCluster, ServerProcess
from goqueue.testing.secured_clients import SecuredClients

ALICE = ("alice", "s3cret")
TIMEOUT_S = 30


@pytest.fixture(params=["embedded", "process"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SecuredClients]:
    if request.param == "embedded":
        with EmbeddedBroker(security=True, num_partitions=1) as embedded:
            yield embedded
        return
    with ServerProcess(tmp_path, "--set", "num.partitions=1", security=True) as process:
        yield process


def first_value(config: Mapping[str, Any], topic: str) -> bytes | None:
    settings: dict[str, Any] = {**config, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        if message.error() is not None:
            raise KafkaException(message.error())
        return message.value()
    finally:
        consumer.close()


def test_clients_of_every_door(broker: SecuredClients) -> None:
    producer = Producer(broker.client_config())
    producer.produce("orders", b"two coffees")
    assert producer.flush(TIMEOUT_S) == 0
    assert first_value(broker.client_config(), "orders") == b"two coffees"
    with httpx.Client(**broker.http_client_kwargs()) as http:
        assert http.get("/whoami").json()["principal"] == "User:admin"
    with httpx.Client(**broker.http_client_kwargs("admin", "wrong")) as http:
        assert http.get("/whoami").status_code == 401
    sqs = boto3.client("sqs", **broker.sqs_client_kwargs())
    url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="work")
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10)["Messages"]
    assert message["Body"] == "work"


def test_users_of_a_test(broker: SecuredClients) -> None:
    admin = AdminClient(broker.client_config())
    admin.create_topics([NewTopic("orders", 1)])["orders"].result()
    rule = {"resource": "topic", "name": "orders", "operation": "write"}
    broker.create_user(*ALICE, rules=(rule,))
    producer = Producer(broker.client_config(*ALICE))
    producer.produce("orders", b"one")
    assert producer.flush(TIMEOUT_S) == 0
    with pytest.raises(KafkaException, match="AUTHORIZATION_FAILED"):
        first_value(broker.client_config(*ALICE), "orders")
    with httpx.Client(**broker.http_client_kwargs(*ALICE)) as http:
        assert http.get("/users").status_code == 403


def test_a_backup_has_users_and_what_tenants_have(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", security=True) as server:
        with httpx.Client(**server.http_client_kwargs()) as http:
            assert http.post("/tenants", json={"name": "acme"}).status_code == 201
            ann = {"name": "ann", "password": "s3cret", "tenant": "acme", "admin": True}
            assert http.post("/users", json=ann).status_code == 201
        producer = Producer(server.client_config("ann", "s3cret"))
        producer.produce("orders", b"of acme")
        assert producer.flush(TIMEOUT_S) == 0
        security = server.client_security()
        command = (sys.executable, "-m", "goqueue", "backup")
        subprocess.run(
            [*command, "create", str(tmp_path / "store"), "--http", server.http_url],
            env={
                **os.environ,
                "GOQUEUE_BOOTSTRAP": server.bootstrap_servers,
                "GOQUEUE_USERNAME": security.username,
                "GOQUEUE_PASSWORD": security.password,
                "GOQUEUE_CA_FILE": security.ca_file,
            },
            check=True,
            timeout=TIMEOUT_S,
        )
    restored = tmp_path / "restored"
    subprocess.run(
        [*command, "restore", str(tmp_path / "store"), "--data-dir", str(restored)],
        check=True,
        timeout=TIMEOUT_S,
    )
    with ServerProcess(restored, security=True) as server:
        assert first_value(server.client_config("ann", "s3cret"), "orders") == b"of acme"


def test_without_security_they_say_where_it_is() -> None:
    with EmbeddedBroker() as plain:
        assert plain.client_config() == {"bootstrap.servers": plain.bootstrap_servers}
        with httpx.Client(**plain.http_client_kwargs()) as http:
            assert http.get("/healthz").status_code == 200
        boto3.client("sqs", **plain.sqs_client_kwargs()).list_queues()


def test_a_fixture_for_everybody(goqueue_secured_broker: EmbeddedBroker) -> None:
    name = goqueue_secured_broker.create_topic()
    found = AdminClient(goqueue_secured_broker.client_config()).list_topics(name, TIMEOUT_S)
    assert found.topics[name].error is None
    goqueue_secured_broker.delete_topic(name)


def test_a_cluster() -> None:
    with GoQueueCluster(brokers=3, security=True) as cluster:
        server = cluster.server(1)
        config = {
            **server.client_config(),
            "bootstrap.servers": cluster.bootstrap_servers,
        }
        producer = Producer({**config, "acks": "all"})
        producer.produce("orders", b"for all")
        assert producer.flush(TIMEOUT_S) == 0
        assert first_value(config, "orders") == b"for all"
        # Of those who started at once, one made the users of the file.
        for node in cluster.node_ids:
            with httpx.Client(**cluster.server(node).http_client_kwargs()) as http:
                assert [each["name"] for each in http.get("/users").json()["users"]] == ["admin"]
        made = [cluster.server(node).log_text.count("made 1 users") for node in cluster.node_ids]
        assert sorted(made) == [0, 0, 1]
