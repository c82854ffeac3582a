"""What clients show to log in is nowhere else: not in logs, on the disk, in figures or answers."""

import base64
import contextlib
import json
import time
from pathlib import Path

import boto3
import httpx
from botocore.config import Config
from botocore.exceptions import ClientError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from goqueue.testing import ServerProcess
from tests.interop.secured import PATIENCE_S, SECURED, eventually, with_users

PASSWORD = "correct-horse-battery"
WRONG = "wrong-horse-battery"
NEW = "newer-horse-battery"
IN_URL = "token-of-the-receiver"
DEBUG = (
    *("--set", "log.level=debug", "--set", "tracing.sampling.rate=1"),
    *("--set", f"tracing.otlp.endpoint=http://spans:{IN_URL}@127.0.0.1:1/v1/traces?t={IN_URL}"),
    *("--set", "connection.failed.authentication.delay.ms=0"),
)


def test_no_secret_is_written_or_told(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with_users(data, admins={"root": PASSWORD}, others={})
    with ServerProcess(data, *SECURED, *DEBUG) as server:
        secrets = [PASSWORD, WRONG, NEW, IN_URL]
        secrets += [_basic("root", each) for each in (PASSWORD, WRONG)]
        secrets += _over_http(server)
        secrets += _over_sqs(server)
        shown = _over_kafka(server)
        shown += "".join(_answers(server))
        secrets.append((data / "master.key").read_text().strip())
        eventually(lambda: "login" in (data / "audit" / "audit-000000000001.jsonl").read_text())
        assert server.sigterm() == 0
        written = server.log_text
        # It was heard of all of that.
        assert "log-in failed" in written
    places = {"answers": shown.encode(), "log": written.encode()}
    for path in data.rglob("*"):
        if path.is_file() and path.name != "master.key":
            places[str(path)] = path.read_bytes()
    assert any("metadata" in name for name in places)
    found = [
        (name, secret)
        for name, content in places.items()
        for secret in secrets
        if secret.encode() in content
    ]
    assert not found


def _basic(name: str, password: str) -> str:
    return base64.b64encode(f"{name}:{password}".encode()).decode()


def _over_http(server: ServerProcess) -> list[str]:
    """Returns further secrets that the broker made, and what is like one."""
    with httpx.Client(base_url=server.http_url, auth=("root", PASSWORD)) as http:
        made = http.post("/users", json={"name": "alice", "password": PASSWORD})
        assert made.status_code == 201, made.text
        assert PASSWORD not in made.text
        assert http.patch("/users/alice", json={"password": NEW}).status_code == 200
        key = http.post("/users/alice/keys", json={"kind": "api", "label": "ci"}).json()
        assert http.post("/topics", json={"name": "orders"}).status_code == 201
        http.post("/topics/orders/messages", json={"value": "hello"})
        # Malformed, with secrets in it.
        http.post("/users", content=b'{"name": "bob", "password": "' + PASSWORD.encode())
        http.post("/users", json={"name": "bob", "password": PASSWORD, "extra": PASSWORD})
        http.post("/users", json={"name": PASSWORD * 20, "password": PASSWORD})
    url = server.http_url
    for auth in (("root", WRONG), (PASSWORD, WRONG), ("alice", PASSWORD)):
        assert httpx.get(f"{url}/topics", auth=auth).status_code == 401
    token, secret = key["token"], key["secret"]
    for word in (token, f"{token}x", WRONG):
        httpx.get(f"{url}/topics", headers={"authorization": f"Bearer {word}"})
    session = httpx.post(f"{url}/session", json={"name": "root", "password": PASSWORD})
    assert session.status_code in (200, 201), session.text
    httpx.post(f"{url}/session", json={"name": "root", "password": WRONG})
    words = [value for value in session.cookies.values() if value]
    for word in words:
        httpx.get(f"{url}/topics", cookies={"goqueue_session": word})
    registry = {"accept": "application/vnd.schemaregistry.v1+json"}
    httpx.get(f"{url}/subjects", auth=("root", PASSWORD), headers=registry)
    httpx.get(f"{url}/subjects", auth=("root", WRONG), headers=registry)
    return [token, secret, *words]


def _over_sqs(server: ServerProcess) -> list[str]:
    http = httpx.Client(base_url=server.http_url, auth=("root", PASSWORD))
    key = http.post("/users/root/keys", json={"kind": "sqs"}).json()
    for secret in (key["secret"], WRONG):
        client = boto3.client(
            "sqs",
            endpoint_url=server.http_url,
            region_name="eu-central-1",
            aws_access_key_id=key["id"],
            aws_secret_access_key=secret,
            config=Config(retries={"max_attempts": 1}),
        )
        with contextlib.suppress(ClientError):
            client.create_queue(QueueName="tasks")
    return [key["secret"]]


def _over_kafka(server: ServerProcess) -> str:
    """Returns what settings are told, and how failures are."""
    told = ""
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        for name, password in (("root", PASSWORD), ("root", WRONG), (PASSWORD, WRONG)):
            admin = AdminClient(
                {
                    "bootstrap.servers": server.bootstrap_servers,
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": mechanism,
                    "sasl.username": name,
                    "sasl.password": password,
                    "log_level": 0,
                }
            )
            if password != PASSWORD:
                with contextlib.suppress(KafkaException):
                    admin.list_topics(timeout=2)
                continue
            assert admin.list_topics(timeout=PATIENCE_S).topics
            resource = ConfigResource(ResourceType.BROKER, "0")
            [future] = admin.describe_configs([resource]).values()
            entries = future.result(PATIENCE_S)
            endpoint = entries["tracing.otlp.endpoint"]
            assert endpoint.is_sensitive
            assert endpoint.value is None
            told += repr({name: entry.value for name, entry in entries.items()})
    return told


def _answers(server: ServerProcess) -> list[str]:
    with httpx.Client(base_url=server.http_url, auth=("root", PASSWORD)) as http:
        answers = [
            http.get(path).text
            for path in (
                "/metrics",
                "/audit?limit=1000",
                "/cluster/settings?node=0",
                "/users",
                "/keys",
                "/rules",
                "/traces",
                "/cluster/state",
            )
        ]
        told = {each["name"]: each for each in json.loads(answers[2])["settings"]}
        assert told["tracing.otlp.endpoint"]["isSecret"] is True
        deadline = time.monotonic() + PATIENCE_S
        while "spans lost" not in server.log_text and time.monotonic() < deadline:
            time.sleep(0.1)
    return answers
