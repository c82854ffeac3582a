"""Groups of transactions over HTTP: all members or none, and every sequence once."""

from typing import Any

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.model.transactions.group_names import group_key
from tests.unit.doors.http.answers import error_code, error_message
from tests.unit.doors.http.test_transactions import (
    Identity,
    ask,
    begin,
    identity,
    publish,
    values,
)

pytestmark = pytest.mark.anyio


async def member(client: httpx.AsyncClient, name: str, *written: str) -> Identity:
    body = {"transactionalId": f"goqueue.group/copy/{name}"}
    producer = identity(await ask(client, "/producers/init", body))
    if written:
        await begin(client, producer)
        await publish(client, producer, *written)
    return producer


async def end(client: httpx.AsyncClient, how: str, sequence: int, **body: Any) -> str:
    path = f"/transactions/groups/copy/{how}"
    answered = await ask(client, path, {"sequence": sequence, **body})
    assert (answered["group"], answered["sequence"]) == ("copy", sequence)
    outcome: str = answered["outcome"]
    return outcome


async def status(client: httpx.AsyncClient) -> dict[str, Any]:
    answered: dict[str, Any] = (await client.get("/transactions/groups/copy")).json()
    return answered


async def test_members_commit_together_and_the_rest_is_aborted(
    client: httpx.AsyncClient, orders: str
) -> None:
    first, second = await member(client, "0", "a"), await member(client, "1", "b")
    await member(client, "0.retried", "from an attempt that failed")
    open_ids = [each["transactionalId"] for each in (await status(client))["openMembers"]]
    assert open_ids == [f"goqueue.group/copy/{name}" for name in ("0", "0.retried", "1")]
    assert await values(client) == []

    assert await end(client, "commit", 7, members=[first, second]) == "committed"

    assert await values(client) == ["a", "b"]
    found = await status(client)
    assert (found["lastCommitted"], found["openMembers"]) == (7, [])
    assert found["committedAt"] > 0


async def test_a_sequence_is_committed_once(client: httpx.AsyncClient, orders: str) -> None:
    first = await member(client, "0", "a")
    assert await end(client, "commit", 0, members=[first]) == "committed"
    assert await end(client, "commit", 0, members=[first]) == "alreadyCommitted"

    again = await member(client, "0", "a")
    assert await end(client, "commit", 0, members=[again]) == "alreadyCommitted"
    assert (await status(client))["openMembers"] == []
    assert await end(client, "abort", 0) == "alreadyCommitted"
    assert await values(client) == ["a"]

    following = await member(client, "0", "b")
    assert await end(client, "commit", 1, members=[following]) == "committed"
    assert await values(client) == ["a", "b"]


async def test_one_lost_member_refuses_the_whole_commit(
    client: httpx.AsyncClient, orders: str
) -> None:
    first, lost = await member(client, "0", "a"), await member(client, "1", "b")
    await ask(client, "/transactions/abort", lost)
    body = {"sequence": 0, "members": [first, lost]}
    response = await client.post("/transactions/groups/copy/commit", json=body)
    assert error_code(response, 409) == "producer_fenced"
    assert "goqueue.group/copy/1" in error_message(response)
    assert (await status(client))["lastCommitted"] is None

    assert await end(client, "abort", 0) == "aborted"
    assert await values(client) == []
    assert (await status(client))["openMembers"] == []


async def test_an_abort_can_name_whom_it_means(client: httpx.AsyncClient, orders: str) -> None:
    first, second = await member(client, "0", "a"), await member(client, "1", "b")
    assert await end(client, "abort", 0, members=[first]) == "aborted"
    assert await end(client, "commit", 0, members=[second]) == "committed"
    assert await values(client) == ["b"]


async def test_a_member_cannot_commit_by_itself(client: httpx.AsyncClient, orders: str) -> None:
    producer = await member(client, "0", "a")
    response = await client.post("/transactions/commit", json=producer)
    assert error_code(response, 409) == "invalid_txn_state"


@pytest.mark.parametrize("name", ["goqueue.group/copy", "goqueue.group/a/b/c", "goqueue.group/ä/0"])
async def test_a_reserved_name_must_be_whole(client: httpx.AsyncClient, name: str) -> None:
    response = await client.post("/producers/init", json={"transactionalId": name})
    assert error_code(response, 422) == "invalid_request"


async def test_members_of_other_groups_are_refused(client: httpx.AsyncClient, orders: str) -> None:
    producer = await member(client, "0", "a")
    body = {"sequence": 0, "members": [producer]}
    response = await client.post("/transactions/groups/other/commit", json=body)
    assert error_code(response, 422) == "invalid_request"
    response = await client.post("/transactions/groups/a%20b/commit", json=body)
    assert error_code(response, 400) == "invalid_request"


async def test_one_coordinator_for_the_whole_group(broker: Node) -> None:
    shard = broker.transactions.state.partition_for
    for group in ("a", "b", "spark-query.x"):
        members = {shard(f"goqueue.group/{group}/{number}") for number in range(20)}
        assert members == {shard(group_key(group))}
