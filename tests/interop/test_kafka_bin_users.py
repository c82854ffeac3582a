"""Apache Kafka's own tools for users and delegation tokens, logged in by SCRAM."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from goqueue.testing.server_process import ServerProcess
from tests.interop.kafka_bin.commands import Commands, Ended
from tests.secured_server import ADMIN, PASSWORD, USER, USERS_PASSWORD, secured_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("users")
    with secured_server(folder, "--set", "num.partitions=1") as started:
        yield started


@pytest.fixture(scope="module")
def tools(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Tools"]:
    folder = tmp_path_factory.mktemp("files")
    with closing(Commands(folder)) as commands:
        yield Tools(commands, folder, server.bootstrap_servers)


class Tools:
    def __init__(self, commands: Commands, folder: Path, bootstrap: str) -> None:
        self._commands = commands
        self._folder = folder
        self._bootstrap = bootstrap

    def client(
        self, name: str, password: str, mechanism: str = "SCRAM-SHA-512", more: str = ""
    ) -> str:
        """A file with what a client needs to log in."""
        path = self._folder / f"client-{len(list(self._folder.iterdir()))}.properties"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={LOGIN} required username="{name}" password="{password}"{more};\n'
        )
        return str(path)

    def run(self, name: str, client: str, *arguments: str, stdin: str = "") -> Ended:
        server = ("--bootstrap-server", self._bootstrap, "--command-config", client)
        self._commands.begin(name, [*server, *arguments], stdin)
        return self._commands.ended()


@pytest.fixture
def admin(tools: Tools) -> str:
    return tools.client(ADMIN, PASSWORD)


def test_kafka_topics_logs_in(tools: Tools, admin: str) -> None:
    made = tools.run("kafka-topics", admin, "--create", "--topic", "orders")
    assert made.code == 0, made.output
    assert "orders" in tools.run("kafka-topics", admin, "--list").output
    refused = tools.run("kafka-topics", tools.client(ADMIN, "wrong"), "--list")
    assert refused.code == 1
    assert (
        "SaslAuthenticationException" in refused.output or "invalid credentials" in refused.output
    )


def test_kafka_configs_makes_and_removes_users(tools: Tools, admin: str) -> None:
    user = ("--entity-type", "users", "--entity-name", "dave")
    added = "SCRAM-SHA-256=[iterations=8192,password=pw],SCRAM-SHA-512=[password=pw2]"
    made = tools.run("kafka-configs", admin, "--alter", "--add-config", added, *user)
    assert (made.code, "Completed updating" in made.output) == (0, True), made.output
    for mechanism, password in (("SCRAM-SHA-256", "pw"), ("SCRAM-SHA-512", "pw2")):
        dave = tools.client("dave", password, mechanism)
        assert tools.run("kafka-topics", dave, "--list").code == 0
    gone = tools.run(
        "kafka-configs", admin, "--alter", "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512", *user
    )
    assert gone.code == 0, gone.output
    assert tools.run("kafka-topics", tools.client("dave", "pw2"), "--list").code == 1
    refused = tools.run(
        "kafka-configs", tools.client(USER, USERS_PASSWORD), "--alter", "--add-config", added, *user
    )
    assert refused.code == 1
    assert "ClusterAuthorization" in refused.output


def test_kafka_delegation_tokens(tools: Tools, admin: str) -> None:
    carol = tools.client(USER, USERS_PASSWORD)
    name = "kafka-delegation-tokens"
    made = tools.run(
        name,
        carol,
        "--create",
        "--max-life-time-period",
        "-1",
        "--renewer-principal",
        f"User:{ADMIN}",
    )
    assert made.code == 0, made.output
    row = next(line for line in made.output.splitlines() if f"User:{USER}" in line)
    token_id, hmac = row.split()[:2]
    by_token = tools.client(token_id, hmac, more=" tokenauth=true")
    assert tools.run("kafka-topics", by_token, "--list").code == 0
    described = tools.run(name, carol, "--describe", "--owner-principal", f"User:{USER}")
    assert described.code == 0
    assert token_id in described.output
    renewed = tools.run(name, admin, "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    assert renewed.code == 0, renewed.output
    assert re.search("Completed renew operation", renewed.output)
    ended = tools.run(name, carol, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert ended.code == 0, ended.output
    assert tools.run("kafka-topics", by_token, "--list").code == 1
