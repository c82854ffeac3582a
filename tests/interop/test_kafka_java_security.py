"""The producer and the consumer of Apache Kafka itself at a broker with TLS, log-ins and rules."""

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Timer

import httpx
import pytest

from bench.artifacts import KAFKA, find_java, maven_class_path
from goqueue.testing import ServerProcess
from goqueue.testing.secured import Secured
from goqueue.testing.secured_clients import ADMIN, ADMIN_PASSWORD
from tests.interop.tls_files import made
from tests.jwt_issuer import AUDIENCE, ISSUER, key_set, public, rsa_key, token

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).parent / "secured_java" / "Clients.java"
# The program's own patience is two minutes.
TIMEOUT_SECONDS = 300
MODULES = "org.apache.kafka.common.security"
BY_PASSWORD = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
BY_COMMON_NAME = r"RULE:^CN=([^,]+).*$/$1/L,DEFAULT"
KEY, OTHER_KEY = rsa_key(), rsa_key()
# The client reads tokens only where its process is allowed to.
TOKENS = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="
PROTOCOLS = ("classic", "consumer")
STRANGER, STRANGERS_PASSWORD = "stranger", "stranger's secret"
READER, READERS_PASSWORD = "reader", "reader's secret"
TOPIC = "orders"
READS = {"resource": "topic", "name": TOPIC, "operation": "read"}
JOINS = {"resource": "group", "name": "*", "operation": "read"}
COUNT = 100
VALUES = " ".join(map(str, range(COUNT)))


def a_topic() -> str:
    return f"java-{uuid.uuid4().hex[:8]}"


class JavaClients:
    """One process that does one task after the other."""

    def __init__(self, folder: Path, server: ServerProcess, secured: Secured) -> None:
        self._folder = folder
        self._server = server
        self._secured = secured
        self._tokens = folder / "token"
        java = [find_java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._process = subprocess.Popen(
            [*java, f"{TOKENS}{self._tokens.as_uri()}", "-cp", maven_class_path(KAFKA), PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def by_password(
        self, mechanism: str, password: str = ADMIN_PASSWORD, name: str = ADMIN
    ) -> dict[str, str]:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        said = f'username="{name}" password="{password}"'
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{MODULES}.{module} required {said};",
        }

    def by_token(self, text: str) -> dict[str, str]:
        self._tokens.write_text(text)
        login = f"{MODULES}.oauthbearer"
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{login}.OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class": f"{login}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": self._tokens.as_uri(),
        }

    def by_certificate(self, name: str) -> dict[str, str]:
        files = made(self._secured.certificates.ca.parent, client=name, renew=True)
        assert files.client is not None
        assert files.client_key is not None
        both = self._folder / f"{name}.pem"
        both.write_text(files.client_key.read_text() + files.client.read_text())
        return {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(both),
        }

    def does(self, task: str, client: dict[str, str], *arguments: object) -> list[str]:
        settings = {
            "bootstrap.servers": self._server.bootstrap_servers,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._secured.ca_file,
            "auto.offset.reset": "earliest",
            **client,
        }
        path = self._folder / "client.properties"
        lines = (f"{name}={value}".replace("\\", "\\\\") for name, value in settings.items())
        path.write_text("\n".join(lines))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(task, path, *arguments, sep="\t", file=self._process.stdin, flush=True)
        ending = Timer(TIMEOUT_SECONDS, self._process.kill)
        ending.start()
        try:
            return self._process.stdout.readline().rstrip("\n").split("\t")
        finally:
            ending.cancel()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClients]:
    folder = tmp_path_factory.mktemp("java")
    secured = Secured.make(folder / "security")
    keys = folder / "keys.json"
    keys.write_text(key_set(public(KEY, "one")))
    settings = {
        "num.partitions": "1",
        "oauth.jwks.file": str(keys),
        "oauth.issuer": ISSUER,
        "oauth.audience": AUDIENCE,
        "tls.client.auth": "requested",
        "tls.principal.mapping.rules": BY_COMMON_NAME,
        "connections.max.reauth.ms": "2000",
    }
    options = [word for item in settings.items() for word in ("--set", "=".join(item))]
    with ServerProcess(folder / "data", *options, security=secured) as server:
        server.create_user(READER, READERS_PASSWORD, rules=(READS,))
        server.create_user(STRANGER, STRANGERS_PASSWORD, rules=(JOINS,))
        with httpx.Client(**server.http_client_kwargs()) as http:
            # Tokens and certificates may mean them.
            for name in (ADMIN, READER, STRANGER):
                http.patch(f"/users/{name}", json={"federated": True}).raise_for_status()
        with closing(JavaClients(folder, server, secured)) as clients:
            yield clients


def goes_through(java: JavaClients, client: dict[str, str]) -> None:
    """Written and read back, by members of both kinds of groups."""
    topic = a_topic()
    assert java.does("send", client, topic, COUNT) == ["sent", str(COUNT)]
    for protocol in PROTOCOLS:
        member = {**client, "group.id": f"{topic}-{protocol}", "group.protocol": protocol}
        assert java.does("read", member, topic, COUNT) == ["read", VALUES]


def is_refused(java: JavaClients, client: dict[str, str], exception: str, topic: str) -> str:
    """By the same exception when it writes and when it reads; returns what they are told."""
    told = [java.does("send", client, topic, 1)]
    for protocol in PROTOCOLS:
        member = {**client, "group.id": f"{topic}-{protocol}", "group.protocol": protocol}
        told.append(java.does("read", member, topic, 1))
    assert [each[:2] for each in told] == [["refused", exception]] * len(told), told
    return " ".join(each[2] for each in told)


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
def test_by_password(java: JavaClients, mechanism: str) -> None:
    goes_through(java, java.by_password(mechanism))


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
@pytest.mark.parametrize("name", [ADMIN, "nobody"])
def test_a_wrong_password(java: JavaClients, mechanism: str, name: str) -> None:
    client = java.by_password(mechanism, "wrong", name)
    told = is_refused(java, client, "SaslAuthenticationException", a_topic())
    assert "invalid credentials" in told


def test_by_token(java: JavaClients) -> None:
    goes_through(java, java.by_token(token(KEY, sub=ADMIN)))


def test_a_token_of_somebody_else(java: JavaClients) -> None:
    client = java.by_token(token(OTHER_KEY, sub=ADMIN))
    is_refused(java, client, "SaslAuthenticationException", a_topic())


def test_by_certificate(java: JavaClients) -> None:
    goes_through(java, java.by_certificate(ADMIN))


def test_neither_certificate_nor_password(java: JavaClients) -> None:
    """TLS alone is nobody; a client that shows nothing is not told, its connection is closed."""
    client = {"security.protocol": "SSL", "max.block.ms": "3000"}
    assert java.does("send", client, a_topic(), 1)[:2] == ["refused", "TimeoutException"]


def test_a_broker_of_another_ca(java: JavaClients, tmp_path: Path) -> None:
    others = made(tmp_path / "others")
    client = {**java.by_password("SCRAM-SHA-512"), "ssl.truststore.location": str(others.ca)}
    is_refused(java, client, "SslAuthenticationException", a_topic())


def test_topics_without_a_right_to_them(java: JavaClients) -> None:
    java.does("send", java.by_password("PLAIN"), TOPIC, 1)
    for topic in (TOPIC, a_topic()):
        client = java.by_password("SCRAM-SHA-512", STRANGERS_PASSWORD, STRANGER)
        is_refused(java, client, "TopicAuthorizationException", topic)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reader_without_a_right_to_its_group(java: JavaClients, protocol: str) -> None:
    java.does("send", java.by_password("PLAIN"), TOPIC, 1)
    reader = java.by_password("SCRAM-SHA-256", READERS_PASSWORD, READER)
    # Who may write nowhere gets no producer id, as with Apache Kafka (KIP-679).
    assert java.does("send", reader, TOPIC, 1)[:2] == ["refused", "ClusterAuthorizationException"]
    plain = {**reader, "enable.idempotence": "false"}
    assert java.does("send", plain, TOPIC, 1)[:2] == ["refused", "TopicAuthorizationException"]
    member = {**reader, "group.id": "no right to it", "group.protocol": protocol}
    assert java.does("read", member, TOPIC, 1)[:2] == ["refused", "GroupAuthorizationException"]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"])
def test_log_ins_are_renewed_on_open_connections(java: JavaClients, mechanism: str) -> None:
    topic = a_topic()
    is_token = mechanism == "OAUTHBEARER"
    client = java.by_token(token(KEY, sub=ADMIN)) if is_token else java.by_password(mechanism)
    member = {**client, "group.id": topic}
    assert java.does("log in again", member, topic, 4) == ["logged in again", "0.0"]
