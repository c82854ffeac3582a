"""Delayed messages over HTTP: published, listed, cancelled, counted."""

import asyncio
from typing import Any

import httpx
import pytest

from goqueue.broker.node import Node

pytestmark = pytest.mark.anyio

HOUR_MS = 3_600_000


async def publish(client: httpx.AsyncClient, body: dict[str, Any]) -> Any:
    answer = await client.post("/topics/orders/messages", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def pending(client: httpx.AsyncClient, **query: str | int) -> dict[str, Any]:
    answer = await client.get("/topics/orders/delayed", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_delay_passes_and_the_message_arrives(
    client: httpx.AsyncClient, broker: Node, orders: str
) -> None:
    before_ms = broker.clock_ms()
    stored = await publish(client, {"value": "soon", "key": "k", "partition": 1, "delay": 2_000})
    assert stored["offset"] is None
    assert stored["partition"] == 1
    assert stored["timestamp"] >= before_ms + 2_000
    async with asyncio.timeout(60):
        while broker.partition(orders, 1).log_end_offset == 0:
            await asyncio.sleep(0.005)
    assert broker.clock_ms() >= stored["timestamp"]
    [found] = (await client.get("/topics/orders/partitions/1/messages")).json()["messages"]
    assert (found["key"], found["value"]) == ("k", "soon")
    assert found["timestamp"] >= stored["timestamp"]


@pytest.mark.parametrize("when", [{"delay": 0}, {"deliverAt": 0}, {"deliverAt": 1_000}])
async def test_zero_and_past_mean_now(
    client: httpx.AsyncClient, orders: str, when: dict[str, int]
) -> None:
    stored = await publish(client, {"value": "v", **when})
    assert stored["offset"] == 0
    assert "id" not in stored


async def test_list_and_cancel(client: httpx.AsyncClient, broker: Node, orders: str) -> None:
    at_ms = broker.clock_ms() + HOUR_MS
    many = [
        {"value": {"n": 3}, "deliverAt": at_ms + 3, "partition": 0},
        {"value": "now"},
        {"value": "first", "deliverAt": at_ms, "headers": {"h": "x"}, "partition": 1},
        {"value": "second", "deliverAt": at_ms + 1, "partition": 0},
    ]
    stored = (await publish(client, {"messages": many}))["messages"]
    assert [message["offset"] for message in stored] == [None, 0, None, None]

    page = await pending(client, limit=2)
    assert [message["value"] for message in page["messages"]] == ["first", "second"]
    assert page["messages"][0]["id"] == stored[2]["id"]
    assert page["messages"][0]["deliverAt"] == at_ms
    assert page["messages"][0]["headers"] == [{"name": "h", "value": "x", "encoding": "text"}]
    rest = await pending(client, after=page["nextAfter"], encoding="json")
    assert [message["value"] for message in rest["messages"]] == [{"n": 3}]
    assert rest["nextAfter"] is None

    path = f"/topics/orders/delayed/{stored[2]['id']}"
    assert (await client.delete(path)).status_code == 204
    again = await client.delete(path)
    assert (again.status_code, again.json()["error"]["code"]) == (404, "unknown_delayed_message")
    assert len((await pending(client))["messages"]) == 2


async def test_too_late_is_a_conflict(client: httpx.AsyncClient, broker: Node, orders: str) -> None:
    stored = await publish(client, {"value": "v", "partition": 0, "delay": 2_000})
    async with asyncio.timeout(60):
        while broker.partition(orders, 0).log_end_offset == 0:
            await asyncio.sleep(0.005)
    answer = await client.delete(f"/topics/orders/delayed/{stored['id']}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "too_late_to_cancel")


async def test_statistics(client: httpx.AsyncClient, broker: Node, orders: str) -> None:
    nothing = (await client.get("/delay/stats")).json()
    assert (nothing["pending"], nothing["nextDueAt"], nothing["topics"]) == (0, None, [])
    at_ms = broker.clock_ms() + HOUR_MS
    await publish(client, {"value": "v", "deliverAt": at_ms})
    far = await publish(client, {"value": "v", "deliverAt": at_ms + 100 * HOUR_MS})
    await client.delete(f"/topics/orders/delayed/{far['id']}")
    stats = (await client.get("/delay/stats")).json()
    assert (stats["pending"], stats["inMemory"], stats["cancelled"]) == (1, 1, 1)
    assert stats["nextDueAt"] == at_ms
    assert sum(each["count"] for each in stats["lateness"]) == 0
    assert stats["topics"] == [
        {"topic": "orders", "pending": 1, "delivered": 0, "cancelled": 1, "latenessP99Ms": None}
    ]


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"delay": -1}, 400, "delay"),
        ({"delay": "5s"}, 400, "delay"),
        ({"deliverAt": 1.5}, 400, "deliverAt"),
        ({"delay": 1, "deliverAt": 1}, 422, "give one of the two"),
        ({"delay": 5, "partition": 7}, 422, "partition"),
    ],
)
async def test_refusals_name_the_field(
    client: httpx.AsyncClient, orders: str, fields: dict[str, Any], status: int, words: str
) -> None:
    answer = await client.post("/topics/orders/messages", json={"value": "v", **fields})
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert (await pending(client))["messages"] == []


async def test_unknown_topics(client: httpx.AsyncClient) -> None:
    assert (await client.get("/topics/nothing/delayed")).status_code == 404
    assert (await client.delete("/topics/nothing/delayed/1-0-0")).status_code == 404


async def test_a_delayed_message_makes_its_topic(client: httpx.AsyncClient) -> None:
    answer = await client.post("/topics/new/messages", json={"value": "v", "delay": HOUR_MS})
    assert answer.status_code == 200, answer.text
    page = (await client.get("/topics/new/delayed")).json()
    assert len(page["messages"]) == 1
