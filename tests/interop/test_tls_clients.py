"""Every door by TLS, with the clients that people use."""

import asyncio
import socket
import ssl
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kio.schema.metadata.v12.response import MetadataResponse

from goqueue.client.blocking_connection import BlockingConnection
from goqueue.client.questions import metadata_request
from goqueue.model.client_security import ClientSecurity
from goqueue.model.errors import BrokerUnreachable
from goqueue.server.tls.making import MadeCertificates
from goqueue.testing import ServerProcess
from tests.interop.tls_files import made, tls_server


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> MadeCertificates:
    return made(tmp_path_factory.mktemp("certificates"), client="alice")


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, files: MadeCertificates
) -> Iterator[ServerProcess]:
    with tls_server(tmp_path_factory.mktemp("data"), files) as running:
        yield running


@pytest.fixture(scope="module")
def strict_server(
    tmp_path_factory: pytest.TempPathFactory, files: MadeCertificates
) -> Iterator[ServerProcess]:
    """Clients must show certificates."""
    data = tmp_path_factory.mktemp("strict")
    with tls_server(data, files, client_auth="required") as running:
        yield running


def a_topic() -> str:
    return f"tls-{uuid.uuid4().hex[:8]}"


def confluent(server: ServerProcess, ca: Path, **more: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": server.bootstrap_servers,
        "security.protocol": "ssl",
        "ssl.ca.location": str(ca),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def test_confluent_kafka_sends_and_reads_large_answers(
    server: ServerProcess, files: MadeCertificates
) -> None:
    topic = a_topic()
    producer = Producer(confluent(server, files.ca))
    sent = [bytes([number % 251]) * 500_000 for number in range(40)]
    for value in sent:
        producer.produce(topic, value)
        producer.poll(0)
    assert producer.flush(60) == 0
    settings = confluent(server, files.ca) | {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    read: list[bytes] = []
    while len(read) < len(sent):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        read.append(message.value() or b"")
    consumer.close()
    assert sorted(read) == sorted(sent)


def test_confluent_kafka_refuses_a_broker_of_another_ca(
    server: ServerProcess, tmp_path: Path
) -> None:
    others = made(tmp_path / "others")
    failures: list[KafkaError] = []
    settings = {**confluent(server, others.ca), "error_cb": failures.append}
    producer = Producer(settings)
    while not any(each.code() == KafkaError._SSL for each in failures):
        assert producer.poll(30) is not None
    assert "certificate verify failed" in str(failures[0])


def test_kafka_python(server: ServerProcess, files: MadeCertificates) -> None:
    topic = a_topic()
    settings = {
        "bootstrap_servers": server.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_cafile": str(files.ca),
    }
    producer = KafkaProducer(**settings)
    producer.send(topic, b"hello").get(30)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000, **settings
    )
    assert next(consumer).value == b"hello"
    consumer.close()


def test_aiokafka(server: ServerProcess, files: MadeCertificates) -> None:
    asyncio.run(send_and_read_by_aiokafka(server, files))


async def send_and_read_by_aiokafka(server: ServerProcess, files: MadeCertificates) -> None:
    topic = a_topic()
    context = ssl.create_default_context(cafile=str(files.ca))
    async with AIOKafkaProducer(
        bootstrap_servers=server.bootstrap_servers, security_protocol="SSL", ssl_context=context
    ) as producer:
        await producer.send_and_wait(topic, b"hello")
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=server.bootstrap_servers,
        security_protocol="SSL",
        ssl_context=context,
        auto_offset_reset="earliest",
    ) as consumer:
        assert (await consumer.getone()).value == b"hello"


def test_httpx_and_the_registry(server: ServerProcess, files: MadeCertificates) -> None:
    assert server.http_url.startswith("https://")
    context = ssl.create_default_context(cafile=str(files.ca))
    with httpx.Client(base_url=server.http_url, verify=context) as http:
        assert http.get("/readyz").status_code == 200
        body = {"messages": [{"value": "x" * 100_000} for _ in range(8)]}
        topic = a_topic()
        assert http.post(f"/topics/{topic}/messages", json=body).status_code == 200
        answer = http.get(f"/topics/{topic}/partitions/0/messages", params={"offset": 0})
        assert answer.status_code == 200
        schema = {"schema": '{"type": "string"}'}
        assert http.post("/subjects/tls/versions", json=schema).status_code == 200
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(server.http_url + "/readyz")


def test_boto3(server: ServerProcess, files: MadeCertificates) -> None:
    sqs = boto3.client(
        "sqs",
        endpoint_url=server.http_url,
        verify=str(files.ca),
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )
    url = sqs.create_queue(QueueName=a_topic())["QueueUrl"]
    assert url.startswith("https://")
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10)["Messages"]
    assert message["Body"] == "hello"


def test_clients_that_must_show_a_certificate(
    strict_server: ServerProcess, files: MadeCertificates
) -> None:
    assert files.client is not None
    shown = confluent(
        strict_server,
        files.ca,
        ssl_certificate_location=str(files.client),
        ssl_key_location=str(files.client_key),
    )
    assert AdminClient(shown).list_topics(timeout=30).brokers
    context = ssl.create_default_context(cafile=str(files.ca))
    with pytest.raises(httpx.TransportError):
        httpx.get(strict_server.http_url + "/readyz", verify=context)
    assert "it showed no certificate" in strict_server.log_text
    context.load_cert_chain(str(files.client), str(files.client_key))
    assert httpx.get(strict_server.http_url + "/readyz", verify=context).status_code == 200


def test_a_certificate_of_another_ca_is_refused(
    strict_server: ServerProcess, files: MadeCertificates, tmp_path: Path
) -> None:
    others = made(tmp_path / "others", client="mallory")
    context = ssl.create_default_context(cafile=str(files.ca))
    context.load_cert_chain(str(others.client), str(others.client_key))
    with pytest.raises(httpx.TransportError):
        httpx.get(strict_server.http_url + "/readyz", verify=context)
    assert "its certificate is refused" in strict_server.log_text


def test_clients_without_tls_are_told_in_the_log(server: ServerProcess) -> None:
    host, port = server.bootstrap_servers.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 30) as plain:
        # ApiVersions, version 0.
        plain.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        while plain.recv(1_000):
            pass
    assert "Kafka connection from 127.0.0.1 closed: it does not speak TLS" in server.log_text
    with pytest.raises(httpx.TransportError):
        httpx.get(server.http_url.replace("https", "http") + "/readyz")
    assert "HTTP connection from 127.0.0.1 closed: it does not speak TLS" in server.log_text


def test_old_versions_of_tls_are_refused(server: ServerProcess) -> None:
    host, port = server.bootstrap_servers.rsplit(":", 1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection((host, int(port)), 30) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(plain)


def test_clients_by_tls_at_a_port_without(tmp_path: Path, files: MadeCertificates) -> None:
    context = ssl.create_default_context(cafile=str(files.ca))
    with ServerProcess(tmp_path / "data") as server:
        host, port = server.bootstrap_servers.rsplit(":", 1)
        with (
            socket.create_connection((host, int(port)), 30) as plain,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            context.wrap_socket(plain, server_hostname=host)
        assert "connection from 127.0.0.1 closed: it speaks TLS" in server.log_text
        with pytest.raises(BrokerUnreachable, match="does not speak TLS"):
            BlockingConnection(host, int(port), ClientSecurity(tls=True, ca_file=str(files.ca)))


def test_our_own_client_is_told_what_is_wrong(
    server: ServerProcess, strict_server: ServerProcess, files: MadeCertificates, tmp_path: Path
) -> None:
    host, port = server.bootstrap_servers.rsplit(":", 1)
    others = made(tmp_path / "others")
    with pytest.raises(BrokerUnreachable, match="its certificate is refused"):
        BlockingConnection(host, int(port), ClientSecurity(tls=True, ca_file=str(others.ca)))
    with (
        BlockingConnection(host, int(port)) as plain,
        pytest.raises(BrokerUnreachable, match="speaks TLS"),
    ):
        plain.call(metadata_request(()), MetadataResponse)
    host, port = strict_server.bootstrap_servers.rsplit(":", 1)
    with (
        pytest.raises(BrokerUnreachable, match="wants a certificate"),
        BlockingConnection(
            host, int(port), ClientSecurity(tls=True, ca_file=str(files.ca))
        ) as nobody,
    ):
        nobody.call(metadata_request(()), MetadataResponse)
