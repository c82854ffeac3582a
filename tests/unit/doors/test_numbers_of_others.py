"""Numbers in headers, forms and paths that are none, or too long: refused, or passed over."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.doors.http import HttpDoor
from goqueue.doors.registry import RegistryDoor
from goqueue.doors.sqs import SqsDoor
from goqueue.model import header_names
from goqueue.model.broker_config import broker_config
from goqueue.model.queues.sqs_headers import (
    DEDUPLICATION_ID,
    MESSAGE_ID,
    SENT_TIMESTAMP,
    SEQUENCE_NUMBER,
)
from goqueue.model.records import NewRecord
from goqueue.service.broker_service import BrokerService
from tests.access.canaries import sqs
from tests.publishing import publish

pytestmark = pytest.mark.anyio
# Python's int refuses more than 4,300 digits, and digits that are not decimal ones.
NONE_AT_ALL = ["9" * 5_000, "²"]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Node]:
    opened = await Node.open(broker_config({"data.dir": str(tmp_path / "data"), "http.port": "0"}))
    yield opened
    await opened.close()


@pytest.fixture
async def client(broker: Node) -> AsyncIterator[httpx.AsyncClient]:
    service = BrokerService(broker)
    door = HttpDoor(service, broker.config, mounts=[SqsDoor(service), RegistryDoor(service)])
    host, port = await door.start()
    await broker.announce(host, 9092, port)
    url = f"http://{host}:{port}"
    async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as opened:
        yield opened
    await door.stop()


async def _queue(client: httpx.AsyncClient, name: str, **attributes: str) -> str:
    made = await sqs(client, "CreateQueue", QueueName=name, Attributes=attributes)
    url: str = made.json()["QueueUrl"]
    return url


@pytest.mark.parametrize("number", NONE_AT_ALL)
async def test_a_time_that_a_producer_wrote_keeps_no_message(
    client: httpx.AsyncClient, broker: Node, number: str
) -> None:
    url = await _queue(client, "q")
    headers = ((SENT_TIMESTAMP, number.encode()), (header_names.DEAD_LETTER_COUNT, number.encode()))
    await publish(broker, "q", [NewRecord(value=b"x", headers=headers)])

    answer = await sqs(client, "ReceiveMessage", QueueUrl=url, AttributeNames=["All"])

    [message] = answer.json()["Messages"]
    assert message["Body"] == "x"


@pytest.mark.parametrize("number", NONE_AT_ALL)
async def test_a_sequence_number_that_a_producer_wrote_stops_no_queue(
    client: httpx.AsyncClient, broker: Node, number: str
) -> None:
    url = await _queue(client, "q.fifo", FifoQueue="true")
    headers = ((MESSAGE_ID, b"m"), (DEDUPLICATION_ID, b"d"), (SEQUENCE_NUMBER, number.encode()))
    await publish(broker, "q.fifo", [NewRecord(value=b"x", headers=headers)])

    sent = await sqs(
        client,
        "SendMessage",
        QueueUrl=url,
        MessageBody="y",
        MessageGroupId="g",
        MessageDeduplicationId="other",
    )

    assert sent.status_code == 200, sent.text


@pytest.mark.parametrize("number", NONE_AT_ALL)
async def test_dead_letters_are_listed_whatever_their_headers_say(
    client: httpx.AsyncClient, broker: Node, number: str
) -> None:
    await client.post("/topics", json={"name": "orders"})
    await client.post("/topics", json={"name": "orders.dlq"})
    headers = ((header_names.DEAD_LETTER_OFFSET, number.encode()),)
    await publish(broker, "orders.dlq", [NewRecord(value=b"x", headers=headers)])

    listed = await client.get("/topics/orders/dlq")

    assert listed.status_code == 200, listed.text
    assert listed.json()["deadLetters"][0].get("sourceOffset") is None


@pytest.mark.parametrize("number", NONE_AT_ALL)
@pytest.mark.parametrize("field", ["offset", "timestamp"])
async def test_places_to_read_from(client: httpx.AsyncClient, number: str, field: str) -> None:
    await client.post("/topics", json={"name": "orders"})
    answer = await client.get("/topics/orders/partitions/0/messages", params={field: number})
    assert answer.status_code in (400, 422), answer.text


@pytest.mark.parametrize("path", ["/schemas/ids/{}", "/subjects/s/versions/{}"])
async def test_ids_and_versions(client: httpx.AsyncClient, path: str) -> None:
    for number in (*NONE_AT_ALL, "0" * 10 + "1" + "9" * 5_000):
        answer = await client.get(path.format(number))
        assert answer.status_code in (404, 422), answer.text


@pytest.mark.parametrize("number", NONE_AT_ALL)
async def test_attributes_of_queues(client: httpx.AsyncClient, number: str) -> None:
    policy = f'{{"deadLetterTargetArn": "arn:aws:sqs:x:0:dead", "maxReceiveCount": "{number}"}}'
    for name, text in (("DelaySeconds", number), ("RedrivePolicy", policy)):
        answer = await sqs(client, "CreateQueue", QueueName="q", Attributes={name: text})
        assert answer.status_code == 400, answer.text


async def test_a_policy_without_statements_takes_one(client: httpx.AsyncClient) -> None:
    url = await _queue(client, "q", Policy='{"Statement": [1, "a"]}')
    permission = {"Label": "l", "AWSAccountIds": ["1"], "Actions": ["SendMessage"]}
    added = await sqs(client, "AddPermission", QueueUrl=url, **permission)
    assert added.status_code == 200, added.text
    removed = await sqs(client, "RemovePermission", QueueUrl=url, Label="l")
    assert removed.status_code == 200, removed.text


@pytest.mark.parametrize(
    "parameter",
    [
        f"Attribute.{'9' * 5_000}.Name",
        "Attribute.².Name",
        "SendMessageBatchRequestEntry.1." * 20_000 + "Id",
    ],
)
async def test_parameters_of_forms(client: httpx.AsyncClient, parameter: str) -> None:
    await _queue(client, "q")
    form = {"Action": "SendMessageBatch", "QueueUrl": "q", parameter: "x"}
    answer = await client.post(
        "/",
        content=urlencode(form),
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code == 400, answer.text
