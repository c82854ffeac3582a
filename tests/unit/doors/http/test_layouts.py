"""POST /topics/{name}/split and GET /topics/{name}/layout."""

import asyncio

import httpx
import pytest

from tests.unit.doors.http.answers import error_code, error_message

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings() -> dict[str, str]:
    return {"scale.drain.ms": "200"}


@pytest.fixture
async def orders(client: httpx.AsyncClient) -> str:
    await client.post("/topics", json={"name": "orders", "partitions": 2})
    message = {"value": "x", "partition": 1}
    await client.post("/topics/orders/messages", json=message)
    return "orders"


async def test_a_split_is_told_while_it_drains_and_when_it_is_over(
    client: httpx.AsyncClient, orders: str
) -> None:
    split = await client.post(f"/topics/{orders}/split", json={"partitions": 4})
    assert split.status_code == 200
    told = split.json()
    assert told["epochs"][0].pop("since") > 0
    assert told == {
        "topic": orders,
        "epoch": 1,
        "partitionCount": 4,
        "state": "draining",
        "epochs": [
            {
                "epoch": 1,
                "partitions": 4,
                "parents": 2,
                "ordered": True,
                "state": "draining",
                "drainMs": 200,
            }
        ],
        "partitions": [
            {"partition": 0, "epoch": 0, "parent": None, "parentEnd": None},
            {"partition": 1, "epoch": 0, "parent": None, "parentEnd": None},
            {"partition": 2, "epoch": 1, "parent": 0, "parentEnd": None},
            {"partition": 3, "epoch": 1, "parent": 1, "parentEnd": None},
        ],
    }
    again = await client.post(f"/topics/{orders}/split", json={"partitions": 8})
    assert error_code(again, 409) == "conflict"
    async with asyncio.timeout(20):
        while (layout := (await client.get(f"/topics/{orders}/layout")).json())[
            "state"
        ] != "settled":
            await asyncio.sleep(0.02)
    assert [each["parentEnd"] for each in layout["partitions"]] == [None, None, 0, 1]
    assert (await client.get(f"/topics/{orders}")).json()["partitionCount"] == 4


async def test_a_topic_that_was_never_split(client: httpx.AsyncClient, orders: str) -> None:
    layout = (await client.get(f"/topics/{orders}/layout")).json()
    assert (layout["epoch"], layout["epochs"], layout["state"]) == (0, [], "settled")


@pytest.mark.parametrize("total", [1, 2, 3, 5])
async def test_only_multiples_are_taken(client: httpx.AsyncClient, orders: str, total: int) -> None:
    refused = await client.post(f"/topics/{orders}/split", json={"partitions": total})
    assert error_code(refused, 422) == "invalid_partitions"
    if total > 2:
        assert "such as 4" in error_message(refused)


async def test_what_is_not_there_is_not_split(client: httpx.AsyncClient) -> None:
    refused = await client.post("/topics/nothing/split", json={"partitions": 4})
    assert error_code(refused, 404) == "unknown_topic"
    assert error_code(await client.get("/topics/nothing/layout"), 404) == "unknown_topic"
