"""Real clients that log in, with right and wrong credentials."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import admin as admin_module
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokens

from goqueue.testing.server_process import ServerProcess
from tests.jwt_issuer import AUDIENCE, ISSUER, key_set, public, rsa_key, token
from tests.secured_server import ADMIN, PASSWORD, secured_server

admin_api: Any = admin_module

TIMEOUT_SECONDS = 60
KEY, OTHER_KEY = rsa_key(), rsa_key()
BY_PASSWORD = ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("sasl")
    keys = folder / "keys.json"
    keys.write_text(key_set(public(KEY, "one")))
    settings = {
        "num.partitions": "1",
        "oauth.jwks.file": str(keys),
        "oauth.issuer": ISSUER,
        "oauth.audience": AUDIENCE,
    }
    options = [each for item in settings.items() for each in ("--set", "=".join(item))]
    with secured_server(folder / "data", *options) as started:
        yield started


def confluent(
    server: ServerProcess, mechanism: str, password: str = PASSWORD, name: str = ADMIN
) -> dict[str, Any]:
    return {
        "bootstrap.servers": server.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
    }


def confluent_token(server: ServerProcess, make: Callable[[], str]) -> dict[str, Any]:
    return {
        "bootstrap.servers": server.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (make(), time.time() + 3_600),
    }


def round_trip(settings: dict[str, Any], topic: str) -> None:
    failures: list[KafkaError | None] = []
    producer = Producer(settings)
    for number in range(100):
        producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(TIMEOUT_SECONDS) == 0
    assert failures == [None] * 100
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while len(found) < 100 and time.monotonic() < deadline:
        found += [m.value() for m in consumer.consume(100, 0.2) if m.error() is None]
    consumer.close()
    assert found == [b"%d" % number for number in range(100)]


def refusal(settings: dict[str, Any]) -> str:
    """What a client of librdkafka is told that cannot log in."""
    told: list[KafkaError] = []
    client = Producer({**settings, "error_cb": told.append, "log_level": 0})
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not any(each.code() == KafkaError._AUTHENTICATION for each in told):
        assert time.monotonic() < deadline, told
        with pytest.raises(KafkaException):
            client.list_topics(timeout=0.2)
        client.poll(0.05)
    return " ".join(each.str() for each in told)


# --- librdkafka ---------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
def test_librdkafka_with_a_password(server: ServerProcess, mechanism: str) -> None:
    round_trip(confluent(server, mechanism), f"librdkafka-{mechanism}")


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
@pytest.mark.parametrize("name", [ADMIN, "nobody"])
def test_librdkafka_with_a_wrong_password(server: ServerProcess, mechanism: str, name: str) -> None:
    told = refusal(confluent(server, mechanism, "wrong", name))
    assert "invalid credentials" in told


def test_librdkafka_with_a_token(server: ServerProcess) -> None:
    round_trip(confluent_token(server, lambda: token(KEY, sub=ADMIN)), "librdkafka-token")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: token(OTHER_KEY, sub=ADMIN), id="key"),
        pytest.param(lambda: token(KEY, sub=ADMIN, aud="others"), id="audience"),
        pytest.param(lambda: token(KEY, sub=ADMIN, exp=int(time.time()) - 60), id="expired"),
    ],
)
def test_librdkafka_with_a_wrong_token(server: ServerProcess, wrong: Callable[[], str]) -> None:
    assert "OAUTHBEARER" in refusal(confluent_token(server, wrong))


def test_users_are_administered_by_librdkafka(server: ServerProcess) -> None:
    admin = admin_api.AdminClient(confluent(server, "SCRAM-SHA-256"))
    info = admin_api.ScramCredentialInfo(admin_api.ScramMechanism.SCRAM_SHA_256, 8_192)
    made = admin_api.UserScramCredentialUpsertion("dave", info, b"dave's secret")
    for done in admin.alter_user_scram_credentials([made]).values():
        done.result(TIMEOUT_SECONDS)
    described = admin.describe_user_scram_credentials(["dave"])["dave"].result(TIMEOUT_SECONDS)
    assert [each.iterations for each in described.scram_credential_infos] == [8_192]
    dave = admin_api.AdminClient(confluent(server, "SCRAM-SHA-256", "dave's secret", "dave"))
    assert dave.list_topics(timeout=TIMEOUT_SECONDS).topics == {}
    gone = admin_api.UserScramCredentialDeletion("dave", admin_api.ScramMechanism.SCRAM_SHA_256)
    for done in admin.alter_user_scram_credentials([gone]).values():
        done.result(TIMEOUT_SECONDS)
    refusal(confluent(server, "SCRAM-SHA-256", "dave's secret", "dave"))


# --- kafka-python -------------------------------------------------------------------------


class PythonTokens(KafkaPythonTokens):  # type: ignore[misc]
    def token(self) -> str:
        return token(KEY, sub=ADMIN)


def kafka_python(server: ServerProcess, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    settings = {
        "bootstrap_servers": server.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return {**settings, "sasl_oauth_token_provider": PythonTokens()}
    return {**settings, "sasl_plain_username": ADMIN, "sasl_plain_password": password}


@pytest.mark.parametrize("mechanism", [*BY_PASSWORD, "OAUTHBEARER"])
def test_kafka_python(server: ServerProcess, mechanism: str) -> None:
    settings, topic = kafka_python(server, mechanism), f"kafka-python-{mechanism}"
    producer = KafkaProducer(**settings)
    sent = [producer.send(topic, b"%d" % number) for number in range(100)]
    producer.flush(TIMEOUT_SECONDS)
    assert [each.get(TIMEOUT_SECONDS).offset for each in sent] == list(range(100))
    producer.close()
    consumer = KafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000, **settings
    )
    # In this order: a consumer that comes first is asked for one more, and waits for it.
    found = [record.value for _, record in zip(range(100), consumer, strict=False)]
    assert found == [b"%d" % number for number in range(100)]
    consumer.close()


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
def test_kafka_python_with_a_wrong_password(server: ServerProcess, mechanism: str) -> None:
    with pytest.raises(PythonKafkaError):
        KafkaAdminClient(
            **kafka_python(server, mechanism, "wrong"), api_version_auto_timeout_ms=3_000
        )


# --- aiokafka -----------------------------------------------------------------------------


class AioTokens(AbstractTokenProvider):  # type: ignore[misc]
    async def token(self) -> str:
        return token(KEY, sub=ADMIN)


def aiokafka(server: ServerProcess, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    settings = kafka_python(server, mechanism, password)
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = AioTokens()
    return settings


@pytest.mark.parametrize("mechanism", [*BY_PASSWORD, "OAUTHBEARER"])
def test_aiokafka(server: ServerProcess, mechanism: str) -> None:
    topic = f"aiokafka-{mechanism}"

    async def run() -> None:
        settings = aiokafka(server, mechanism)
        async with AIOKafkaProducer(**settings) as producer:
            for number in range(20):
                await producer.send_and_wait(topic, b"%d" % number)
        async with AIOKafkaConsumer(
            topic, group_id=topic, auto_offset_reset="earliest", **settings
        ) as consumer:
            found = [(await consumer.getone()).value for _ in range(20)]
        assert found == [b"%d" % number for number in range(20)]

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_SECONDS))


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
def test_aiokafka_with_a_wrong_password(server: ServerProcess, mechanism: str) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(**aiokafka(server, mechanism, "wrong"))
        try:
            with pytest.raises(AioKafkaError):
                await producer.start()
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_SECONDS))


# --- the server ---------------------------------------------------------------------------


def test_users_outlive_a_kill(tmp_path: Path) -> None:
    with secured_server(tmp_path) as server:
        admin = admin_api.AdminClient(confluent(server, "SCRAM-SHA-512"))
        info = admin_api.ScramCredentialInfo(admin_api.ScramMechanism.SCRAM_SHA_512, 4_096)
        made = admin_api.UserScramCredentialUpsertion("dave", info, b"dave's secret")
        for done in admin.alter_user_scram_credentials([made]).values():
            done.result(TIMEOUT_SECONDS)
        server.sigkill()
        server.start()
        for name, password in (("dave", "dave's secret"), (ADMIN, PASSWORD)):
            client = admin_api.AdminClient(confluent(server, "SCRAM-SHA-512", password, name))
            assert client.list_topics(timeout=TIMEOUT_SECONDS).cluster_id
        refusal(confluent(server, "SCRAM-SHA-512", "wrong", "dave"))


def test_no_secret_is_written_anywhere(server: ServerProcess) -> None:
    round_trip(confluent(server, "PLAIN"), "written")
    refusal(confluent(server, "PLAIN", "a wrong secret"))
    made = token(OTHER_KEY, sub=ADMIN)
    refusal(confluent_token(server, lambda: made))
    log = server.log_text
    assert "log-in failed" in log
    for secret in (PASSWORD, "a wrong secret", made):
        assert secret not in log
    for path in server.data_dir.rglob("*"):
        if path.is_file():
            stored = path.read_bytes()
            assert PASSWORD.encode() not in stored, path
            assert json.dumps(PASSWORD).encode() not in stored, path
