"""How long HTTP members stay members, and how many there may be."""

import asyncio
from typing import Any

import httpx
import pytest

from goqueue.broker.hosted_clients.members import register
from tests.unit.doors.http.answers import error_code

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings() -> dict[str, str]:
    return {"group.min.session.timeout.ms": "100", "group.initial.rebalance.delay.ms": "0"}


async def join(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    response = await client.post("/groups/g/join", json={"topics": ["orders"], **body})
    assert response.status_code == 200, response.text
    joined: dict[str, Any] = response.json()
    return joined


async def poll(
    client: httpx.AsyncClient, member: dict[str, Any], timeout_ms: int
) -> httpx.Response:
    query: dict[str, Any] = {"memberId": member["memberId"], "timeout": timeout_ms}
    return await client.get("/groups/g/poll", params=query)


async def test_a_silent_member_is_out_and_its_partitions_go_to_the_others(
    client: httpx.AsyncClient, orders: str
) -> None:
    first = await join(client)
    silent = asyncio.create_task(join(client, sessionTimeoutMs=200))
    assert error_code(await poll(client, first, 20_000), 409) == "rebalance_in_progress"
    first = await join(client, memberId=first["memberId"])
    gone = await silent

    assert error_code(await poll(client, first, 20_000), 409) == "rebalance_in_progress"
    first = await join(client, memberId=first["memberId"])

    assert first["assignment"] == [{"topic": orders, "partitions": [0, 1]}]
    assert error_code(await poll(client, gone, 0), 409) == "unknown_member_id"
    figures = (await client.get("/groups/g/rebalance/stats")).json()["rebalances"]
    assert figures["byReason"]["member_expired"] == 1


async def test_a_waiting_poll_keeps_its_member_alive(
    client: httpx.AsyncClient, orders: str
) -> None:
    member = await join(client, sessionTimeoutMs=700)
    assert (await poll(client, member, 1_500)).status_code == 200
    described = (await client.get("/groups/g")).json()
    assert [each["memberId"] for each in described["members"]] == [member["memberId"]]


async def test_the_number_of_members_is_bounded_and_those_gone_make_room(
    client: httpx.AsyncClient, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(register, "MEMBERS_MAX", 1)
    member = await join(client, sessionTimeoutMs=100)
    response = await client.post("/groups/other/join", json={"topics": [orders]})
    assert error_code(response, 503) == "overloaded"
    assert response.headers["retry-after"]
    while (await client.get("/groups/g")).json()["members"]:
        pass
    # The group sees it out first: the register counts its session from the end of its join.
    await asyncio.sleep(0.2)
    response = await client.post("/groups/other/join", json={"topics": [orders]})
    assert response.status_code == 200, response.text
    assert error_code(await poll(client, member, 0), 409) == "unknown_member_id"
