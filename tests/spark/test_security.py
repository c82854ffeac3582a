"""Spark at a broker with TLS and log-ins: by options, by a profile, and refused."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.client.profiles import Profile, ProfilesFile
from goqueue.testing import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALICE, PASSWORD = "alice", "s3cret"
RULES = (
    {"resource": "topic", "name": "orders", "operation": "all"},
    {"resource": "group", "name": "*", "operation": "all"},
    {"resource": "transactional_id", "name": "*", "operation": "all"},
)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("secured"), security=True) as running:
        running.create_user(ALICE, PASSWORD, rules=RULES)
        yield running


def options_of(server: ServerProcess, password: str = PASSWORD) -> Mapping[str, str]:
    assert server.secured is not None
    return {
        "bootstrap.servers": server.bootstrap_servers,
        "topic": "orders",
        "goqueue.username": ALICE,
        "goqueue.password": password,
        "goqueue.ca.file": server.secured.ca_file,
        # Brokers tell it to those who may describe the settings of the cluster.
        "http.url": server.http_url,
    }


def test_written_and_read_by_options(spark: "SparkSession", secured: ServerProcess) -> None:
    options = dict(options_of(secured))
    rows = spark.createDataFrame([("k", "one"), ("k", "two")], "key string, value string")
    rows.write.format("goqueue").options(**options).mode("append").save()
    del options["http.url"]
    found = spark.read.format("goqueue").options(**options).load()
    assert sorted(bytes(row.value) for row in found.collect()) == [b"one", b"two"]


def test_read_by_a_file_with_the_password(
    spark: "SparkSession", secured: ServerProcess, tmp_path: Path
) -> None:
    assert secured.secured is not None
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    options = {
        "bootstrap.servers": secured.bootstrap_servers,
        "topic": "orders",
        "username": ALICE,
        "password.file": str(secret),
        "kafka.security.protocol": "SASL_SSL",
        "ca.file": secured.secured.ca_file,
    }
    assert spark.read.format("goqueue").options(**options).load().count() == 2


def test_who_is_not_let_in(spark: "SparkSession", secured: ServerProcess) -> None:
    options = dict(options_of(secured, "wrong"))
    del options["http.url"]
    with pytest.raises(Exception, match="authentication failed"):
        spark.read.format("goqueue").options(**options).load().collect()
    hidden = {**options, "goqueue.password": PASSWORD, "topic": "hidden"}
    with pytest.raises(Exception, match="authorization failed"):
        spark.read.format("goqueue").options(**hidden).load().collect()


def test_the_profile_in_use_counts_for_its_own_broker(
    secured: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from goqueue.client.log_cluster import LogCluster
    from goqueue.client.profiles import security_at

    assert secured.secured is not None
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = ProfilesFile()
    profile = Profile(
        bootstrap=secured.bootstrap_servers,
        ca_file=secured.secured.ca_file,
        username=ALICE,
        password=PASSWORD,
    )
    file.put("mine", profile)
    file.use("mine")
    security = security_at(secured.bootstrap_servers)
    with LogCluster(secured.bootstrap_servers, security=security) as cluster:
        assert set(cluster.topics()) == {"orders"}
    assert not security_at("elsewhere:9092").username
