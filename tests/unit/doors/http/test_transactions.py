"""Producers and transactions over HTTP: what readers see, fencing, retries."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.doors.http import HttpDoor
from goqueue.model.broker_config import broker_config
from goqueue.service.broker_service import BrokerService
from tests.busy_machine import stretched
from tests.unit.doors.http.answers import error_code, error_message

pytestmark = pytest.mark.anyio

Identity = dict[str, Any]


async def ask(client: httpx.AsyncClient, path: str, body: Any) -> dict[str, Any]:
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    answered: dict[str, Any] = response.json()
    return answered


def identity(answered: dict[str, Any]) -> Identity:
    return {name: answered[name] for name in ("transactionalId", "producerId", "epoch")}


async def init(client: httpx.AsyncClient, **body: Any) -> Identity:
    return await ask(client, "/producers/init", {"transactionalId": "tx", **body})


async def begin(client: httpx.AsyncClient, producer: Identity) -> None:
    assert (await ask(client, "/transactions/begin", producer))["state"] == "Ongoing"


async def publish(client: httpx.AsyncClient, producer: Identity, *values: str, **body: Any) -> Any:
    messages = [{"value": value, "partition": 0} for value in values]
    given = {**producer, "topic": "orders", "messages": messages, **body}
    return await ask(client, "/transactions/publish", given)


async def end(client: httpx.AsyncClient, producer: Identity, how: str) -> Identity:
    ended = await ask(client, f"/transactions/{how}", producer)
    assert ended["state"] == f"Complete{how.capitalize()}"
    return identity(ended)


async def values(client: httpx.AsyncClient, partition: int = 0) -> list[str]:
    page = (await client.get(f"/topics/orders/partitions/{partition}/messages")).json()
    return [message["value"] for message in page["messages"]]


def offsets(stored: Any) -> list[int]:
    return [each["offset"] for each in stored["messages"]]


async def test_a_transaction_is_seen_as_a_whole_and_only_when_committed(
    client: httpx.AsyncClient, orders: str
) -> None:
    producer = await init(client)
    await begin(client, producer)
    stored = await publish(client, producer, "a", "b")
    assert [each["offset"] for each in stored["messages"]] == [0, 1]
    await publish(client, producer, "c")
    await publish(client, producer, messages=[{"value": "other", "partition": 1}])
    assert await values(client) == []

    following = await end(client, producer, "commit")

    assert await values(client) == ["a", "b", "c"]
    assert await values(client, 1) == ["other"]
    assert following["epoch"] == producer["epoch"] + 1


async def test_an_aborted_transaction_is_never_seen(client: httpx.AsyncClient, orders: str) -> None:
    producer = await init(client)
    await begin(client, producer)
    await publish(client, producer, "no")
    producer = await end(client, producer, "abort")
    await begin(client, producer)
    await publish(client, producer, "yes")
    await end(client, producer, "commit")
    assert await values(client) == ["yes"]


@pytest.mark.parametrize("how", ["commit", "abort"])
async def test_delayed_messages_are_scheduled_by_the_commit(
    client: httpx.AsyncClient, orders: str, how: str
) -> None:
    async def pending() -> list[Any]:
        found: list[Any] = (await client.get(f"/topics/{orders}/delayed")).json()["messages"]
        return found

    due_ms = 4_000_000_000_000
    producer = await init(client)
    await begin(client, producer)
    messages = [
        {"value": "now", "partition": 0},
        {"value": "later", "partition": 0, "deliverAt": due_ms},
        {"value": "also later", "partition": 0, "delay": 3_600_000},
    ]
    stored = (await publish(client, producer, messages=messages))["messages"]
    assert [each["offset"] for each in stored] == [0, None, None]
    assert stored[1]["timestamp"] == due_ms
    assert await pending() == []
    await end(client, producer, how)
    assert await values(client) == (["now"] if how == "commit" else [])
    assert len(await pending()) == (2 if how == "commit" else 0)


async def test_a_repeated_request_delays_its_message_once(
    client: httpx.AsyncClient, orders: str
) -> None:
    producer = await ask(client, "/producers/init", {})
    body = {
        "epoch": producer["epoch"],
        "topic": orders,
        "messages": [{"value": "later", "partition": 0, "delay": 3_600_000}],
        "sequence": 0,
    }
    for _ in range(2):
        stored = await ask(client, f"/producers/{producer['producerId']}/messages", body)
        assert offsets(stored) == [None]
    found = (await client.get(f"/topics/{orders}/delayed")).json()["messages"]
    assert len(found) == 1


async def test_commit_and_begin_may_be_repeated(client: httpx.AsyncClient, orders: str) -> None:
    producer = await init(client)
    await begin(client, producer)
    await begin(client, producer)
    await publish(client, producer, "a")
    assert await end(client, producer, "commit") == await end(client, producer, "commit")
    response = await client.post("/transactions/abort", json=producer)
    assert error_code(response, 409) == "invalid_txn_state"


async def test_a_transaction_must_be_begun(client: httpx.AsyncClient, orders: str) -> None:
    producer = await init(client)
    body = {**producer, "topic": orders, "messages": [{"value": "a"}]}
    response = await client.post("/transactions/publish", json=body)
    assert error_code(response, 409) == "invalid_txn_state"
    assert "begin" in error_message(response)
    response = await client.post("/transactions/commit", json=producer)
    assert error_code(response, 409) == "invalid_txn_state"
    await begin(client, producer)
    await publish(client, producer, "a")
    response = await client.post("/transactions/begin", json=producer)
    assert error_code(response, 409) == "invalid_txn_state"


async def test_a_new_producer_fences_the_old_and_aborts_its_transaction(
    client: httpx.AsyncClient, orders: str
) -> None:
    old = await init(client)
    await begin(client, old)
    await publish(client, old, "zombie")
    new = await init(client)
    assert new["producerId"] == old["producerId"]
    assert new["epoch"] > old["epoch"]
    for path, body in (
        ("/transactions/publish", {"topic": orders, "messages": [{"value": "x"}]}),
        ("/transactions/commit", {}),
        ("/transactions/begin", {}),
    ):
        response = await client.post(path, json={**old, **body})
        assert error_code(response, 409) == "producer_fenced"
    path = f"/producers/{old['producerId']}/heartbeat"
    body = {"transactionalId": "tx", "epoch": old["epoch"]}
    assert error_code(await client.post(path, json=body), 409) == "producer_fenced"
    body["epoch"] = new["epoch"]
    assert (await ask(client, path, body))["state"] == "Empty"
    assert await values(client) == []


async def test_a_repeated_sequence_is_stored_once(client: httpx.AsyncClient, orders: str) -> None:
    producer = await init(client)
    await begin(client, producer)
    first = await publish(client, producer, "a", "b", sequence=0)
    assert offsets(await publish(client, producer, "a", "b", sequence=0)) == offsets(first)
    gap = {**producer, "topic": orders, "sequence": 7, "messages": [{"value": "x", "partition": 0}]}
    response = await client.post("/transactions/publish", json=gap)
    assert error_code(response, 409) == "out_of_order_sequence"
    await publish(client, producer, "c", sequence=2)
    await end(client, producer, "commit")
    assert await values(client) == ["a", "b", "c"]


async def test_requests_at_the_same_time_get_sequences_of_their_own(
    client: httpx.AsyncClient, orders: str
) -> None:
    producer = await init(client)
    await begin(client, producer)
    sent = [f"m{number}" for number in range(20)]
    await asyncio.gather(*(publish(client, producer, value) for value in sent))
    await end(client, producer, "commit")
    assert sorted(await values(client)) == sorted(sent)


async def test_an_idempotent_producer_without_transactions(
    client: httpx.AsyncClient, orders: str
) -> None:
    producer = await ask(client, "/producers/init", {})
    assert producer["transactionalId"] is None
    path = f"/producers/{producer['producerId']}/messages"
    body = {"epoch": 0, "topic": orders, "messages": [{"value": "a", "partition": 0}]}
    first = await ask(client, path, {**body, "sequence": 0})
    assert offsets(await ask(client, path, {**body, "sequence": 0})) == offsets(first)
    await ask(client, path, body)
    assert await values(client) == ["a", "a"]


async def test_offsets_commit_with_the_transaction(client: httpx.AsyncClient, orders: str) -> None:
    producer = await init(client)
    given = {"group": "g", "offsets": [{"topic": orders, "partition": 0, "offset": 5}]}

    async def committed() -> list[int]:
        response = await client.get("/groups/g/offsets")
        if response.status_code == 404:
            return []
        return [each["committedOffset"] for each in response.json()["offsets"]]

    await begin(client, producer)
    status = await ask(client, "/transactions/offsets", {**producer, **given})
    assert status["includesOffsets"]
    assert await committed() == []
    producer = await end(client, producer, "abort")
    assert await committed() == []
    await begin(client, producer)
    await ask(client, "/transactions/offsets", {**producer, **given})
    await end(client, producer, "commit")
    assert await committed() == [5]


async def test_list_and_stats(client: httpx.AsyncClient, orders: str) -> None:
    producer = await init(client)
    await init(client, transactionalId="idle")
    await begin(client, producer)
    await ask(client, "/transactions/add-partition", {**producer, "topic": orders, "partition": 1})
    listed = (await client.get("/transactions")).json()
    assert [each["transactionalId"] for each in listed["transactions"]] == ["idle", "tx"]
    [ongoing] = (await client.get("/transactions", params={"state": "Ongoing"})).json()[
        "transactions"
    ]
    assert ongoing["partitions"] == [{"topic": orders, "partitions": [1]}]
    assert ongoing["timeoutMs"] == 60_000
    stats = (await client.get("/transactions/stats")).json()
    assert (stats["total"], stats["open"], stats["byState"]["Empty"]) == (2, 1, 1)
    assert stats["oldestOpenMs"] >= 0


async def test_the_broker_s_own_topics_are_in_no_transaction(
    client: httpx.AsyncClient, orders: str
) -> None:
    producer = await init(client)
    await begin(client, producer)
    body = {**producer, "topic": "__transaction_state", "partition": 0}
    response = await client.post("/transactions/add-partition", json=body)
    assert error_code(response, 403) == "policy_violation"


async def test_a_transaction_that_takes_too_long_is_aborted(
    client: httpx.AsyncClient, orders: str
) -> None:
    # Long enough to publish before it is over.
    producer = await init(client, transactionTimeoutMs=int(stretched(0.1) * 1_000))
    await begin(client, producer)
    await publish(client, producer, "late")
    while (await client.get("/transactions/stats")).json()["byState"]["CompleteAbort"] == 0:
        pass
    response = await client.post("/transactions/commit", json=producer)
    assert error_code(response, 409) == "invalid_txn_state"
    assert "timed out" in error_message(response)
    producer = await end(client, producer, "abort")
    await begin(client, producer)
    assert await values(client) == []


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/producers/init", {"transactionalId": ""}, 400, "invalid_request"),
        ("/producers/init", {"producerId": 1}, 422, "invalid_request"),
        (
            "/producers/init",
            {"transactionalId": "t", "transactionTimeoutMs": 86_400_000},
            422,
            "invalid_transaction_timeout",
        ),
        (
            "/transactions/begin",
            {"transactionalId": "nobody", "producerId": 1, "epoch": 0},
            404,
            "transactional_id_not_found",
        ),
        ("/transactions/begin", {"transactionalId": "t"}, 400, "invalid_request"),
        (
            "/producers/1/messages",
            {"epoch": 0, "topic": "orders", "messages": [{"value": 1}], "sequence": 0},
            422,
            "invalid_record",
        ),
        (
            "/producers/1/messages",
            {"epoch": 0, "topic": "orders", "messages": [{"value": 1, "partition": 9}]},
            422,
            "unknown_partition",
        ),
        (
            "/producers/1/messages",
            {
                "epoch": 0,
                "topic": "orders",
                "messages": [{"value": 1, "delay": 5, "deliverAt": 5}],
            },
            422,
            "invalid_request",
        ),
        (
            "/producers/1/messages",
            {"epoch": 0, "topic": "__consumer_offsets", "messages": [{"value": 1}]},
            403,
            "policy_violation",
        ),
    ],
)
async def test_bad_requests(
    client: httpx.AsyncClient, orders: str, path: str, body: Any, status: int, code: str
) -> None:
    await client.post(
        "/groups/g/offsets", json={"offsets": [{"topic": orders, "partition": 0, "offset": 0}]}
    )
    assert error_code(await client.post(path, json=body), status) == code


async def test_a_restart_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    async def run(work: Any) -> Any:
        config = broker_config({"data.dir": str(tmp_path / "data"), "http.port": "0"})
        broker = await Node.open(config)
        door = HttpDoor(BrokerService(broker), config)
        host, port = await door.start()
        try:
            url = f"http://{host}:{port}"
            async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
                return await work(client)
        finally:
            await door.stop()
            await broker.close()

    async def first(client: httpx.AsyncClient) -> Identity:
        await ask_topic(client)
        producer = await init(client)
        await begin(client, producer)
        await publish(client, producer, "before")
        return producer

    async def second(client: httpx.AsyncClient) -> list[str]:
        assert await values(client) == []
        await publish(client, producer, "after")
        await end(client, producer, "commit")
        return await values(client)

    producer = await run(first)
    assert await run(second) == ["before", "after"]


async def ask_topic(client: httpx.AsyncClient) -> None:
    response = await client.post("/topics", json={"name": "orders", "partitions": 2})
    assert response.status_code == 201, response.text
