"""Clients that are known by their certificates, and brokers that know each other."""

import base64
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka import admin as admin_module
from confluent_kafka.admin import AdminClient

from goqueue.client.http_api import HttpApi, HttpRefused
from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_ranges import LATEST, READ_COMMITTED
from goqueue.model.client_security import ClientSecurity
from goqueue.model.errors import BrokerUnreachable
from goqueue.model.security.errors import AuthenticationFailed
from goqueue.server.tls.making import MadeCertificates
from goqueue.testing import GoQueueCluster, ServerProcess
from tests.interop.tls_files import made, options

# Its names are re-exports that the type checker does not see.
admin_api: Any = admin_module

DEADLINE_SECONDS = 60
SECURED = (
    *("--set", "security.enabled=true"),
    *("--set", "super.users=User:alice"),
)
BY_COMMON_NAME = r"RULE:^CN=([^,]+).*$/$1/L,DEFAULT"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def files(folder: Path) -> MadeCertificates:
    return made(folder, client="Alice")


@pytest.fixture(scope="module")
def bobs(files: MadeCertificates) -> MadeCertificates:
    return made(files.ca.parent, client="bob", renew=True)


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, files: MadeCertificates, bobs: MadeCertificates
) -> Iterator[ServerProcess]:
    assert bobs.ca == files.ca
    settings = options(files, client_auth="requested", principal_mapping_rules=BY_COMMON_NAME)
    with ServerProcess(tmp_path_factory.mktemp("data"), *settings, *SECURED) as running:
        yield running


def confluent(server: ServerProcess | GoQueueCluster, of: MadeCertificates) -> dict[str, Any]:
    return {
        "bootstrap.servers": server.bootstrap_servers,
        "security.protocol": "ssl",
        "ssl.ca.location": str(of.ca),
        "ssl.certificate.location": str(of.client),
        "ssl.key.location": str(of.client_key),
    }


def own(of: MadeCertificates, **more: str) -> ClientSecurity:
    return ClientSecurity(
        tls=True,
        ca_file=str(of.ca),
        certificate_file=str(of.client),
        key_file=str(of.client_key),
        **more,
    )


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_certificate_is_a_user_for_kafka_clients(
    server: ServerProcess, files: MadeCertificates, bobs: MadeCertificates
) -> None:
    alice = AdminClient(confluent(server, files))
    alice.create_topics([admin_api.NewTopic("orders", 1, 1)])["orders"].result(30)
    assert "orders" in alice.list_topics(timeout=30).topics
    bob = AdminClient(confluent(server, bobs))
    assert "orders" not in bob.list_topics(timeout=30).topics
    with pytest.raises(KafkaException, match=r"AUTHORIZATION_FAILED|not allowed"):
        bob.create_topics([admin_api.NewTopic("others", 1, 1)])["others"].result(30)


def test_a_certificate_is_a_user_over_http(
    server: ServerProcess, files: MadeCertificates, bobs: MadeCertificates
) -> None:
    def whoami(of: MadeCertificates | None) -> httpx.Response:
        context = ssl.create_default_context(cafile=str(files.ca))
        if of is not None:
            context.load_cert_chain(str(of.client), str(of.client_key))
        return httpx.get(server.http_url + "/whoami", verify=context)

    assert whoami(files).json()["principal"] == "User:alice"
    assert whoami(bobs).json()["principal"] == "User:bob"
    assert whoami(None).status_code == 401
    context = ssl.create_default_context(cafile=str(files.ca))
    context.load_cert_chain(str(files.client), str(files.client_key))
    # A page of somebody else, in a browser that has the certificate.
    refused = httpx.post(
        server.http_url + "/topics",
        json={"name": "x"},
        verify=context,
        headers={"origin": "https://evil.example"},
    )
    assert refused.status_code == 403


def test_a_certificate_means_a_user_only_where_it_is_federated(
    server: ServerProcess, files: MadeCertificates, bobs: MadeCertificates
) -> None:
    api, bob = (HttpApi(server.http_url, security=own(each)) for each in (files, bobs))
    api.post("tenants", body={"name": "acme"})
    # A tenant's, of the same name.
    api.post("users", body={"name": "bob", "tenant": "acme"})
    assert bob.get("whoami")["tenant"] == ""
    api.delete("users", "bob")
    api.post("users", body={"name": "bob", "password": "sea horse 9"})
    with pytest.raises(HttpRefused, match="authentication failed"):
        bob.get("whoami")
    with (
        pytest.raises(BrokerUnreachable),
        LogCluster(server.bootstrap_servers, security=own(bobs), patience_seconds=0) as log,
    ):
        log.topics()
    assert "its name is that of a user who is not federated" in server.log_text
    # By its password it is who it says, whatever the certificate tells.
    by_password = own(bobs, username="bob", password="sea horse 9")
    with LogCluster(server.bootstrap_servers, security=by_password) as log:
        log.topics()
    api.patch("users", "bob", body={"federated": True})
    assert bob.get("whoami") == {"principal": "User:bob", "tenant": "", "door": "http"}
    with LogCluster(server.bootstrap_servers, security=own(bobs)) as log:
        log.topics()
    api.delete("users", "bob")


def test_our_own_client_by_certificate_by_password_and_by_nothing(
    server: ServerProcess, files: MadeCertificates
) -> None:
    api = HttpApi(server.http_url, security=own(files))
    api.post("users", body={"name": "carol", "password": "sea horse 7", "admin": True})
    ca_only: dict[str, Any] = {"tls": True, "ca_file": str(files.ca)}
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"):
        carol = ClientSecurity(
            **ca_only, mechanism=mechanism, username="carol", password="sea horse 7"
        )
        with LogCluster(server.bootstrap_servers, security=carol) as log:
            assert "topics" not in log.topics()
        wrong = ClientSecurity(**ca_only, mechanism=mechanism, username="carol", password="other")
        with (
            pytest.raises(AuthenticationFailed),
            LogCluster(server.bootstrap_servers, security=wrong) as log,
        ):
            log.topics()
    carol = ClientSecurity(**ca_only, username="carol", password="sea horse 7")
    assert HttpApi(server.http_url, security=carol).get("whoami")["principal"] == "User:carol"
    nobody = ClientSecurity(**ca_only)
    with pytest.raises(HttpRefused):
        HttpApi(server.http_url, security=nobody).get("topics")
    with (
        pytest.raises(BrokerUnreachable),
        LogCluster(server.bootstrap_servers, security=nobody, patience_seconds=0) as log,
    ):
        log.topics()
    assert "sea horse" not in repr(carol)


def test_bearer_tokens_over_http(server: ServerProcess, files: MadeCertificates) -> None:
    api = HttpApi(server.http_url, security=own(files))
    api.post("users", body={"name": "dave", "password": "sea horse 8"})
    key = api.post("users", "dave", "keys", body={"kind": "api"})
    bearer = ClientSecurity(tls=True, ca_file=str(files.ca), token=key["token"])
    assert HttpApi(server.http_url, security=bearer).get("whoami")["principal"] == "User:dave"


def write(bootstrap: str, security: ClientSecurity, topic: str, count: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "ssl",
            "ssl.ca.location": security.ca_file,
            "ssl.certificate.location": security.certificate_file,
            "ssl.key.location": security.key_file,
            "acks": "all",
        }
    )
    for number in range(count):
        producer.produce(topic, f"{number}".encode())
    assert producer.flush(DEADLINE_SECONDS) == 0


def test_brokers_of_a_secured_cluster_log_in_to_each_other(
    tmp_path: Path, files: MadeCertificates
) -> None:
    key = tmp_path / "master.key"
    key.touch(0o600)
    key.write_bytes(base64.b64encode(bytes(range(32))))
    with GoQueueCluster(
        *options(files, client_auth="requested", principal_mapping_rules=BY_COMMON_NAME),
        *SECURED,
        *("--set", f"security.master.key.file={key}"),
        *("--set", "default.replication.factor=3", "--set", "num.partitions=1"),
        *("--set", "topic.min.insync.replicas=2", "--set", "sasl.login.timeout.ms=2000"),
        security=own(files),
    ) as cluster:
        write(cluster.bootstrap_servers, own(files), "orders", 200)
        until(lambda: cluster.in_sync("orders") == {1, 2, 3})
        first = cluster.leader("orders")
        assert first is not None
        cluster.kill(first)
        until(lambda: cluster.leader("orders") not in (first, None))
        write(cluster.bootstrap_servers, own(files), "orders", 200)
        with LogCluster(cluster.bootstrap_servers, security=own(files)) as log:
            ends = log.offsets({("orders", 0): LATEST}, isolation=READ_COMMITTED)
        assert ends == {("orders", 0): 400}
        logs = "".join(cluster.server(node).log_text for node in cluster.node_ids)
        # Also witnesses, who say nothing, have logged in.
        assert "nobody logged in" not in logs


def test_secured_workers_share_a_master_key(tmp_path: Path, files: MadeCertificates) -> None:
    settings = options(files, client_auth="requested", principal_mapping_rules=BY_COMMON_NAME)
    with ServerProcess(tmp_path / "data", *settings, *SECURED, workers=2) as server:
        HttpApi(server.http_url, security=own(files)).post(
            "topics", body={"name": "orders", "partitions": 4}
        )
        write(server.bootstrap_servers, own(files), "orders", 200)
        with LogCluster(server.bootstrap_servers, security=own(files)) as log:
            wanted = {("orders", partition): LATEST for partition in range(4)}
            assert sum(log.offsets(wanted, isolation=READ_COMMITTED).values()) == 200
    assert [path.name for path in (tmp_path / "data").rglob("master.key")] == ["master.key"]
    assert (tmp_path / "data" / "master.key").stat().st_mode & 0o777 == 0o600
