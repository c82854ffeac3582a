"""A server process with security on, and real clients with right and wrong credentials."""

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config
from goqueue.service.broker_service import BrokerService
from goqueue.testing.server_process import ServerProcess
from tests.callers import ANYONE
from tests.interop.sqs_api import eventually
from tests.interop.test_sqs_celery import Application

ROOT = ("root", "the password of root")
ALICE = ("alice", "wonderland")
SCHEMA = Schema('{"type": "string"}', "AVRO")


async def _make_users(folder: Path) -> None:
    """While security is off."""
    node = await Node.open(broker_config({"data.dir": str(folder)}))
    service = BrokerService(node)
    await service.users.create(ANYONE, *ROOT, is_admin=True)
    await service.users.create(ANYONE, *ALICE)
    await node.close()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("data")
    asyncio.run(_make_users(folder))
    with ServerProcess(folder, "--set", "security.enabled=true") as running:
        yield running


@pytest.fixture(scope="module")
def root(secured: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=secured.http_url, auth=ROOT, timeout=30) as client:
        yield client


def _key(root: httpx.Client, user: str, kind: str) -> dict[str, str]:
    answer = root.post(f"/users/{user}/keys", json={"kind": kind})
    assert answer.status_code == 201, answer.text
    made: dict[str, str] = answer.json()
    return made


def _sqs(url: str, key_id: str, secret: str) -> Any:
    return boto3.client(
        "sqs",
        region_name="eu-west-1",
        endpoint_url=url,
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}),
    )


def test_the_registry_client_of_confluent(secured: ServerProcess) -> None:
    def client(name: str, password: str) -> SchemaRegistryClient:
        user_info = f"{name}:{password}"
        return SchemaRegistryClient({"url": secured.http_url, "basic.auth.user.info": user_info})

    right = client(*ROOT)
    schema_id = right.register_schema("orders-value", SCHEMA)
    assert right.get_schema(schema_id).schema_str == '"string"'
    with pytest.raises(SchemaRegistryError) as wrong:
        client("root", "x").get_subjects()
    assert (wrong.value.http_status_code, wrong.value.error_code) == (401, 40101)
    with pytest.raises(SchemaRegistryError) as refused:
        client(*ALICE).register_schema("orders-value", SCHEMA)
    assert (refused.value.http_status_code, refused.value.error_code) == (403, 40301)
    assert client(*ALICE).get_subjects() == []


def test_curl_with_a_password_and_with_a_key(secured: ServerProcess, root: httpx.Client) -> None:
    key = _key(root, "alice", "api")

    def whoami(*options: str) -> str:
        command = ["curl", "-sS", *options, f"{secured.http_url}/whoami"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert json.loads(whoami("-u", ":".join(ALICE)))["principal"] == "User:alice"
    bearer = f"Authorization: Bearer {key['token']}"
    assert json.loads(whoami("-H", bearer))["principal"] == "User:alice"
    assert "authentication_failed" in whoami("-u", "alice:x")
    assert 'Basic realm="GoQueue", Bearer' in whoami("-i")


def test_boto3_and_a_restart(secured: ServerProcess, root: httpx.Client) -> None:
    """The secret of a key is not kept: it is made from the master key again."""
    key = _key(root, "root", "sqs")
    sqs = _sqs(secured.http_url, key["id"], key["secret"])
    url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="a")
    wrong = _sqs(secured.http_url, key["id"], key["secret"][::-1])
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        wrong.send_message(QueueUrl=url, MessageBody="b")
    secured.restart()
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    assert message["Body"] == "a"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_who_is_removed_while_it_waits(secured: ServerProcess, root: httpx.Client) -> None:
    root.post("/users", json={"name": "bob", "password": "builder"}).raise_for_status()
    root.post("/topics", json={"name": "waited", "partitions": 1}).raise_for_status()
    rule = {"resource": "topic", "name": "waited", "principal": "User:bob", "operation": "read"}
    root.post("/rules", json={"rules": [rule]}).raise_for_status()
    path = f"{secured.http_url}/topics/waited/partitions/0/messages?offset=0&maxWait=30000"
    command = ["curl", "-sS", "-w", "%{http_code}", "-u", "bob:builder", path]
    waiting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    in_flight = "goqueue_http_requests_in_flight"

    def waits() -> bool:
        lines = root.get("/metrics").text.splitlines()
        # The scrape itself is one of them.
        return any(line.startswith(in_flight) and float(line.split()[-1]) >= 2 for line in lines)

    eventually(waits, bool)
    root.delete("/users/bob").raise_for_status()
    removed = time.monotonic()
    said, _ = waiting.communicate(timeout=60)
    # It would have waited for thirty.
    assert time.monotonic() - removed < 20
    assert said.endswith("401")


def test_celery(secured: ServerProcess, root: httpx.Client, tmp_path: Path) -> None:
    key = _key(root, "root", "sqs")
    application = Application(secured.http_url, tmp_path, f"{key['id']}:{key['secret']}")
    worker = application.start_worker()
    try:
        application.call("[add.delay(n, 100) for n in range(5)]")
        noted = eventually(application.noted, lambda noted: len(noted) >= 5)
    finally:
        worker.terminate()
        worker.wait(20)
    assert sorted(noted) == [f"add {n + 100}" for n in range(5)]


def test_nothing_secret_is_logged(secured: ServerProcess, root: httpx.Client) -> None:
    key = _key(root, "alice", "api")
    root.get("/whoami", headers={"authorization": f"Bearer {key['token']}"})
    httpx.get(f"{secured.http_url}/whoami", auth=("alice", "a secret that is wrong"))
    for secret in (key["secret"], ROOT[1], ALICE[1], "a secret that is wrong"):
        assert secret not in secured.log_text
    assert oct((secured.data_dir / "master.key").stat().st_mode)[-3:] == "600"
