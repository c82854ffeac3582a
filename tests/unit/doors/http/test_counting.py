"""Messages counted by offsets, as a reader of the same isolation would get them."""

from typing import Any

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.model.records import NewRecord
from tests.publishing import publish
from tests.unit.doors.http.answers import error_code, error_message

pytestmark = pytest.mark.anyio

PATH = "/topics/orders/partitions/0/count"


async def count(client: httpx.AsyncClient, **query: object) -> dict[str, Any]:
    response = await client.get(PATH, params=httpx.QueryParams(**query))
    assert response.status_code == 200, response.text
    answered: dict[str, Any] = response.json()
    return answered


@pytest.fixture
async def ten(broker: Node, orders: str) -> None:
    for number in range(5):
        records = [NewRecord(value=b"%d" % number), NewRecord(value=b"again")]
        await publish(broker, orders, records, partition=0)


@pytest.mark.usefixtures("orders")
async def test_an_empty_partition(client: httpx.AsyncClient) -> None:
    answered = await count(client)
    topic_id = answered.pop("topicId")
    assert answered == {"count": 0, "from": 0, "to": 0, "nextOffset": 0}
    assert len(topic_id) == 36


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize(
    ("query", "counted"),
    [
        ({}, (10, 0, 10)),
        ({"from": 3}, (7, 3, 10)),
        ({"to": 9}, (9, 0, 9)),
        ({"from": 3, "to": 4}, (1, 3, 4)),
        ({"from": 10}, (0, 10, 10)),
        ({"from": 4, "to": 4}, (0, 4, 4)),
    ],
)
async def test_ranges(
    client: httpx.AsyncClient, query: dict[str, int], counted: tuple[int, int, int]
) -> None:
    for _ in range(2):
        answered = await count(client, **query)
        assert (answered["count"], answered["from"], answered["to"]) == counted
        assert answered["nextOffset"] == answered["to"]


async def test_counting_is_no_traffic(client: httpx.AsyncClient, broker: Node, ten: None) -> None:
    await count(client)
    counts = broker.led.find("orders", 0).counts
    assert (counts.bytes_out, counts.messages_out) == (0, 0)


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize(
    ("query", "status", "code", "said"),
    [
        ("from=11", 416, "offset_out_of_range", "offset 11 is outside 0 to 10"),
        ("to=11", 416, "offset_out_of_range", "offset 11 is outside 0 to 10"),
        ("from=5&to=4", 422, "invalid_request", "5 is above 4"),
        ("from=-1", 400, "invalid_request", "from"),
        ("from=x", 400, "invalid_request", "from"),
        ("isolation=some", 400, "invalid_request", "isolation"),
    ],
)
async def test_refusals(
    client: httpx.AsyncClient, query: str, status: int, code: str, said: str
) -> None:
    response = await client.get(f"{PATH}?{query}")
    assert error_code(response, status) == code
    assert said in error_message(response)


async def test_what_is_not_there(client: httpx.AsyncClient, orders: str) -> None:
    missing = await client.get("/topics/nothing/partitions/0/count")
    assert error_code(missing, 404) == "unknown_topic"
    missing = await client.get(f"/topics/{orders}/partitions/9/count")
    assert error_code(missing, 404) == "unknown_partition"


async def test_deleted_records_are_out_of_range(
    client: httpx.AsyncClient, broker: Node, ten: None
) -> None:
    await broker.led.find("orders", 0).delete_records(3)

    assert (await count(client))["count"] == 7
    assert (await client.get(f"{PATH}?from=2")).status_code == 416


async def test_transactions_committed_aborted_and_open(
    client: httpx.AsyncClient, orders: str
) -> None:
    async def ask(path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        answered: dict[str, Any] = answer.json()
        return answered

    producer = await ask("/producers/init", {"transactionalId": "tx"})
    for how in ("commit", "abort", "open"):
        identity = {name: producer[name] for name in ("transactionalId", "producerId", "epoch")}
        await ask("/transactions/begin", identity)
        messages = [{"value": value, "partition": 0} for value in "abc"]
        await ask("/transactions/publish", {**identity, "topic": orders, "messages": messages})
        if how != "open":
            producer = await ask(f"/transactions/{how}", identity)

    # Of 3 records and a marker, 3 that are void and a marker, 3 that are not decided.
    for _ in range(2):
        committed = await count(client)
        assert (committed["count"], committed["to"]) == (3, 8)
        everything = await count(client, isolation="read_uncommitted")
        assert (everything["count"], everything["to"]) == (9, 11)
        assert (await count(client, **{"from": 2, "to": 6}))["count"] == 1
    assert (await client.get(f"{PATH}?to=9")).status_code == 416
