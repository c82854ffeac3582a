"""Quotas with real clients: librdkafka, aiokafka, boto3, HTTP, the registry, the command."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Message, Producer
from typer.testing import CliRunner

from goqueue.cli.main import app
from goqueue.testing.server_process import ServerProcess
from tests.interop.sqs_api import connect, eventually, new_queue, refused

RATE = 400_000
SECONDS = 4.0
VALUE = b"x" * 1_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data"), "--set", "num.partitions=1") as started:
        yield started


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.http_url, timeout=60) as client:
        yield client


def set_quota(http: httpx.Client, entity: dict[str, str], **values: float) -> None:
    change(http, {**entity, "set": values})


def remove_quota(http: httpx.Client, entity: dict[str, str], *names: str) -> None:
    change(http, {**entity, "remove": names})


def change(http: httpx.Client, wanted: dict[str, Any]) -> None:
    """Also while the caller itself is held back."""
    while True:
        answer = http.patch("/quotas", json={"changes": [wanted]})
        if answer.status_code != 429:
            assert answer.status_code == 200, answer.text
            return


def produce_for(producer: Producer, topic: str, seconds: float) -> float:
    """As much as it can; bytes that were acknowledged per second."""
    taken = 0

    def count(error: object, message: Message) -> None:
        nonlocal taken
        assert error is None
        taken += len(message.value() or b"")

    began = time.monotonic()
    while time.monotonic() < began + seconds:
        try:
            producer.produce(topic, VALUE, on_delivery=count)
        except BufferError:
            producer.poll(0.01)
        producer.poll(0)
    rate = taken / (time.monotonic() - began)
    producer.purge()
    return rate


def librdkafka(server: ServerProcess, client_id: str, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": server.bootstrap_servers, "client.id": client_id, **more}


def test_librdkafka_is_held_to_its_quotas_though_it_ignores_throttle_times(
    server: ServerProcess, http: httpx.Client
) -> None:
    held, free, topic = f"held-{uuid4()}", f"free-{uuid4()}", f"topic-{uuid4()}"
    set_quota(http, {"clientId": held}, producer_byte_rate=RATE, consumer_byte_rate=RATE)
    small = {"batch.size": 50_000, "linger.ms": 5}
    # What is free is several times as fast, or the test says nothing.
    assert produce_for(Producer(librdkafka(server, free, **small)), topic, SECONDS) > 2 * RATE
    rate = produce_for(Producer(librdkafka(server, held, **small)), topic, SECONDS)
    # A second's worth at the start, and what is on its way. A busy machine may begin late.
    assert 0.2 * RATE < rate < RATE * (1 + 1 / SECONDS) * 1.15

    # The client fetches ahead from the moment that it is there.
    created = time.monotonic()
    consumer = Consumer(
        librdkafka(server, held, **{"group.id": held, "auto.offset.reset": "earliest"})
    )
    consumer.subscribe([topic])
    first = consumer.poll(60)
    assert first is not None
    read, began = 0, time.monotonic()
    while time.monotonic() < began + SECONDS:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            read += len(message.value() or b"")
    ended = time.monotonic()
    consumer.close()
    assert read > 0.2 * RATE * (ended - began)
    assert read < RATE * (ended - created + 1) * 1.3
    usage = http.get("/quotas/usage").json()["usage"]
    mine = {each["name"]: each for each in usage if each.get("clientId") == held}
    assert mine.keys() == {"producer_byte_rate", "consumer_byte_rate"}
    assert mine["consumer_byte_rate"]["quota"] == RATE
    metrics = http.get("/metrics").text
    assert f'goqueue_quota_usage_ratio{{client_id="{held}"' in metrics
    assert 'goqueue_quota_throttle_seconds_total{quota="producer_byte_rate"}' in metrics


@pytest.mark.anyio
async def test_aiokafka_is_held_and_goes_on(server: ServerProcess, http: httpx.Client) -> None:
    held, topic = f"held-{uuid4()}", f"topic-{uuid4()}"
    set_quota(http, {"clientId": held}, producer_byte_rate=20_000)
    producer = AIOKafkaProducer(bootstrap_servers=server.bootstrap_servers, client_id=held)
    await producer.start()
    began = time.monotonic()
    for _ in range(5):
        await producer.send_and_wait(topic, b"x" * 10_000)
    await producer.stop()
    # 50 KB at 20 KB/s: 20 at once, and the last of them is not waited for.
    assert time.monotonic() - began > 0.8


def test_http_answers_429_and_when_to_come_back(http: httpx.Client) -> None:
    everybody = {"user": "ANONYMOUS"}
    set_quota(http, everybody, producer_byte_rate=2_000, consumer_byte_rate=2_000)
    topic = f"topic-{uuid4()}"
    try:
        # Both are in debt for as long as a busy machine may take.
        big = {"value": "x" * 20_000}
        assert http.post(f"/topics/{topic}/messages", json=big).status_code == 200
        refused_answer = http.post(f"/topics/{topic}/messages", json={"value": "small"})
        assert refused_answer.status_code == 429
        assert 1 <= int(refused_answer.headers["retry-after"]) <= 10
        assert refused_answer.json()["error"]["code"] == "quota_exceeded"
        assert "producer_byte_rate" in refused_answer.json()["error"]["message"]
        messages = f"/topics/{topic}/partitions/0/messages"
        assert http.get(messages, params={"offset": 0}).status_code == 200
        assert http.get(messages, params={"offset": 0}).status_code == 429
        # What is no message may be asked for.
        assert http.get(f"/topics/{topic}").status_code == 200
    finally:
        remove_quota(http, everybody, "producer_byte_rate", "consumer_byte_rate")
    assert http.post(f"/topics/{topic}/messages", json={"value": "small"}).status_code == 200


def is_sent(sqs: Any, url: str, body: str) -> bool:
    try:
        sqs.send_message(QueueUrl=url, MessageBody=body)
    except sqs.exceptions.RequestThrottled:
        return False
    return True


def test_sqs_answers_with_its_throttling_error(server: ServerProcess, http: httpx.Client) -> None:
    sqs, everybody = connect(server.http_url), {"user": "ANONYMOUS"}
    url = new_queue(sqs)
    set_quota(http, everybody, producer_byte_rate=10_000)
    try:
        # Somebody before may have left a debt.
        eventually(lambda: is_sent(sqs, url, "x" * 100_000), bool)
        error = refused(sqs.send_message, QueueUrl=url, MessageBody="x")
        assert error["Code"] == "RequestThrottled"
        assert error["Status"] == 403
    finally:
        remove_quota(http, everybody, "producer_byte_rate")
    assert sqs.send_message(QueueUrl=url, MessageBody="x")["MessageId"]


def test_the_registry_answers_429_in_its_form(http: httpx.Client) -> None:
    everybody = {"user": "ANONYMOUS"}
    http.get("/subjects")
    set_quota(http, everybody, request_percentage=0.01)
    try:
        answers = [http.get("/subjects") for _ in range(20)]
        throttled = [each for each in answers if each.status_code == 429]
        assert throttled
        assert throttled[0].json()["error_code"] == 429
        assert int(throttled[0].headers["retry-after"]) >= 1
    finally:
        remove_quota(http, everybody, "request_percentage")


def test_the_command_sets_lists_and_removes(server: ServerProcess, http: httpx.Client) -> None:
    def goqueue(*words: str) -> str:
        environment = {"GOQUEUE_BOOTSTRAP": server.bootstrap_servers}
        done = CliRunner().invoke(app, ["quotas", *words], env=environment)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    user = f"user-{uuid4().hex[:6]}"
    goqueue("set", "--user", user, "producer_byte_rate=5MB", "request_percentage=12.5")
    goqueue("set", "--user", user, "--client-id", "<default>", "consumer_byte_rate=1000")
    listed = [line.split() for line in goqueue("list").splitlines() if user in line]
    assert [line[-2:] for line in listed] == [
        ["producer_byte_rate", "5000000"],
        ["request_percentage", "12.5"],
        ["consumer_byte_rate", "1000"],
    ]
    assert listed[2][:4] == ["user", f"{user},", "client-id", "<default>"]
    goqueue("remove", "--user", user, "request_percentage")
    goqueue("remove", "--user", user, "--client-id", "<default>")
    quotas = [each for each in http.get("/quotas").json()["quotas"] if each.get("user") == user]
    assert quotas == [{"user": user, "values": {"producer_byte_rate": 5_000_000.0}}]
    goqueue("usage")


def test_refused_changes_name_what_is_wrong(http: httpx.Client) -> None:
    for wrong, says in (
        ({"user": "a", "set": {"no_such": 1}}, "no_such"),
        ({"user": "a", "set": {"producer_byte_rate": 0}}, "greater than 0"),
        ({"ip": "nowhere", "set": {"connection_creation_rate": 1}}, "nowhere"),
        ({"set": {"producer_byte_rate": 1}}, "must name"),
        ({"user": "a", "set": {"request_percentage": 1}, "remove": ["request_percentage"]}, "set"),
    ):
        right = {"user": "never", "set": {"producer_byte_rate": 1}}
        answer = http.patch("/quotas", json={"changes": [right, wrong]})
        assert answer.status_code == 422, answer.text
        assert says in answer.json()["error"]["message"]
    users = [each.get("user") for each in http.get("/quotas").json()["quotas"]]
    assert "never" not in users


def test_quotas_are_there_after_a_restart(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        with httpx.Client(base_url=server.http_url) as http:
            set_quota(http, {"user": "ü/=&", "clientId": ""}, producer_byte_rate=7)
        server.restart()
        found = httpx.get(f"{server.http_url}/quotas").json()["quotas"]
    assert found == [{"user": "ü/=&", "clientId": "", "values": {"producer_byte_rate": 7.0}}]
