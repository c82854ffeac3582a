"""A topic as a queue over HTTP: poll, acknowledge, dead letters, figures."""

from typing import Any

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.model.errors import NotLeader
from goqueue.model.queues.settling import Settled

pytestmark = pytest.mark.anyio


async def publish(client: httpx.AsyncClient, *messages: dict[str, Any]) -> None:
    answer = await client.post("/topics/jobs/messages", json={"messages": list(messages)})
    assert answer.status_code == 200, answer.text


async def poll(client: httpx.AsyncClient, **query: str | int) -> list[dict[str, Any]]:
    answer = await client.get("/groups/workers/poll", params={"topic": "jobs", **query})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["messages"]
    return found


async def settle(
    client: httpx.AsyncClient, action: str, receipts: list[str], **more: int
) -> list[str | None]:
    body = {"group": "workers", "receipts": receipts, **more}
    answer = await client.post(f"/messages/{action}", json=body)
    assert answer.status_code == 200, answer.text
    return [result["error"] for result in answer.json()["results"]]


async def test_poll_and_acknowledge(client: httpx.AsyncClient) -> None:
    await publish(client, {"value": "a", "key": "k"}, {"value": "b", "key": "k"})

    first, second = await poll(client)
    assert [first["value"], second["value"]] == ["a", "b"]
    assert first["receipt"].startswith(f"jobs:{first['partition']}:0:1:")
    assert first["deliveryCount"] == 1
    assert first["priority"] == 2

    assert await settle(client, "ack", [first["receipt"]]) == [None]
    assert await settle(client, "visibility", [second["receipt"]], timeout=0) == [None]
    [again] = await poll(client, timeout=5_000)
    assert (again["value"], again["deliveryCount"]) == ("b", 2)


async def test_every_receipt_is_judged_by_itself(client: httpx.AsyncClient) -> None:
    await publish(client, {"value": "a", "key": "k"}, {"value": "b", "key": "k"})
    first, second = await poll(client)
    forged = first["receipt"][:-1] + ("0" if first["receipt"][-1] != "0" else "1")

    assert await settle(client, "ack", [forged, second["receipt"]]) == ["receipt_unknown", None]
    assert await settle(client, "ack", [second["receipt"]]) == ["receipt_settled"]
    assert await settle(client, "nack", [first["receipt"]], delay=0) == [None]
    [again] = await poll(client, timeout=5_000)
    assert await settle(client, "ack", [first["receipt"]]) == ["receipt_redelivered"]
    assert await settle(client, "ack", [again["receipt"]]) == [None]


async def test_receipts_whose_leader_is_away_are_named_beside_those_that_were_answered(
    client: httpx.AsyncClient, broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish(client, {"value": "a", "key": "k"}, {"value": "b", "key": "k"})
    receipts = [message["receipt"] for message in await poll(client)]
    settle_for_real = broker.queues.settle

    async def one_leader_is_away(*given: Any, **options: Any) -> list[Settled]:
        settled = await settle_for_real(*given, **options)
        return [NotLeader("no leader just now"), *settled[1:]]

    monkeypatch.setattr(broker.queues, "settle", one_leader_is_away)
    assert await settle(client, "ack", receipts) == ["not_leader", None]
    answer = await client.post("/messages/ack", json={"group": "workers", "receipts": receipts[:1]})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


async def test_a_critical_message_comes_first(client: httpx.AsyncClient) -> None:
    await publish(client, *({"value": n, "key": "k"} for n in range(500)))
    await publish(client, {"value": "now", "key": "k", "priority": 0})

    [message] = await poll(client, max=1)
    assert (message["value"], message["priority"]) == ("now", 0)
    lanes = (await client.get("/priority/stats")).json()["lanes"]
    critical = [lane for lane in lanes if lane["name"] == "critical" and lane["inFlight"]]
    normal = sum(lane["ready"] for lane in lanes if lane["name"] == "normal")
    assert (len(critical), normal) == (1, 500)


async def test_a_message_past_its_time_is_not_delivered(client: httpx.AsyncClient) -> None:
    await publish(client, {"value": "late", "key": "k", "ttl": 0}, {"value": "fine", "key": "k"})

    assert [message["value"] for message in await poll(client)] == ["fine"]


async def test_dead_letters_are_listed_and_sent_back(client: httpx.AsyncClient) -> None:
    await publish(client, {"value": "poison", "key": "k", "headers": {"who": "me"}})
    [message] = await poll(client)
    assert await settle(client, "reject", [message["receipt"]]) == [None]

    letters: list[dict[str, Any]] = []
    while not letters:
        letters = (await client.get("/topics/jobs/dlq")).json()["deadLetters"]
    [letter] = letters
    assert letter["value"] == "poison"
    assert letter["reason"] == "rejected"
    assert letter["group"] == "workers"
    assert (letter["sourceTopic"], letter["sourceOffset"]) == ("jobs", 0)

    answer = await client.post("/topics/jobs/dlq/redrive", json={})
    assert answer.json() == {"sentBack": 1, "gone": 0, "held": 0}
    [back] = await poll(client, timeout=5_000)
    assert back["value"] == "poison"
    assert [header["name"] for header in back["headers"]] == ["who"]
    assert (await client.get("/topics/jobs/dlq")).json()["deadLetters"] == []


async def test_figures_of_a_queue(client: httpx.AsyncClient) -> None:
    await publish(client, *({"value": n, "key": "k"} for n in range(5)))
    first, *_ = await poll(client, max=3)
    await settle(client, "ack", [first["receipt"]])

    queues = (await client.get("/reliability/stats")).json()["queues"]
    [used] = [queue for queue in queues if queue["delivered"]]
    assert (used["ready"], used["inFlight"], used["acked"]) == (2, 2, 1)
    assert (used["group"], used["topic"]) == ("workers", "jobs")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"group": "workers", "receipts": ["nonsense"]}, 422, "invalid_receipt"),
        ({"group": "workers", "receipts": []}, 400, "invalid_request"),
        ({"group": "", "receipts": ["x"]}, 400, "invalid_request"),
        ({"receipts": ["x"]}, 400, "invalid_request"),
        ({"group": "strangers", "receipts": ["jobs:0:0:1:" + "0" * 16]}, 404, "unknown_group"),
        ({"group": "workers", "receipts": ["nope:0:0:1:" + "0" * 16]}, 404, "unknown_topic"),
    ],
)
async def test_bad_acknowledgements_are_refused(
    client: httpx.AsyncClient, body: dict[str, Any], status: int, code: str
) -> None:
    await publish(client, {"value": "a"})

    answer = await client.post("/messages/ack", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert len(await poll(client)) == 1
