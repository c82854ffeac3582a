"""Members over HTTP in the consumer protocol (KIP-848): nobody stops but who must give up."""

from typing import Any

import httpx
import pytest

from tests.unit.doors.http.answers import error_code

pytestmark = pytest.mark.anyio


async def ask(client: httpx.AsyncClient, path: str, **body: Any) -> dict[str, Any]:
    response = await client.post(f"/groups/g/{path}", json=body)
    assert response.status_code == 200, response.text
    answered: dict[str, Any] = response.json()
    return answered


async def join(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    body = {"topics": ["orders"], "offsetReset": "earliest", **body}
    return await ask(client, "join/cooperative", **body)


async def heartbeat(client: httpx.AsyncClient, member: dict[str, Any]) -> dict[str, Any]:
    return await ask(client, "heartbeat/cooperative", memberId=member["memberId"])


def partitions(listed: list[dict[str, Any]]) -> list[int]:
    return [number for each in listed for number in each["partitions"]]


async def test_the_first_member_has_all(client: httpx.AsyncClient, orders: str) -> None:
    member = await join(client, memberId="one")
    assert member["memberId"] == "one"
    assert partitions(member["assignment"]) == [0, 1]
    assert member["revoke"] == []
    assert member["heartbeatIntervalMs"] > 0


async def test_a_partition_moves_after_its_holder_confirmed(
    client: httpx.AsyncClient, orders: str
) -> None:
    first = await join(client)
    second = await join(client)
    assert second["assignment"] == []

    first = await heartbeat(client, first)
    [kept], [moving] = partitions(first["assignment"]), partitions(first["revoke"])
    assert sorted([kept, moving]) == [0, 1]
    assert (await heartbeat(client, second))["assignment"] == []

    first = await ask(client, "revoke", memberId=first["memberId"])
    assert first["revoke"] == []
    second = await heartbeat(client, second)
    assert partitions(second["assignment"]) == [moving]
    assert partitions((await heartbeat(client, first))["assignment"]) == [kept]


async def test_partial_revocation_waits_for_the_rest(client: httpx.AsyncClient) -> None:
    await client.post("/topics", json={"name": "orders", "partitions": 4})
    first = await join(client)
    second = await join(client)
    first = await heartbeat(client, first)
    one, two = partitions(first["revoke"])
    part = [{"topic": "orders", "partitions": [one]}]
    first = await ask(client, "revoke", memberId=first["memberId"], partitions=part)
    assert partitions(first["revoke"]) == [two]
    assert (await heartbeat(client, second))["assignment"] == []
    await ask(client, "revoke", memberId=first["memberId"])
    assert partitions((await heartbeat(client, second))["assignment"]) == [one, two]


async def test_poll_goes_on_while_another_partition_moves(
    client: httpx.AsyncClient, orders: str
) -> None:
    first = await join(client)
    for partition in (0, 1):
        body = {"value": f"p{partition}", "partition": partition}
        await client.post(f"/topics/{orders}/messages", json=body)
    await join(client)
    polled = (await client.get("/groups/g/poll", params={"memberId": first["memberId"]})).json()
    [kept] = {0, 1} - set(partitions(polled["revoke"]))
    assert [message["value"] for message in polled["messages"]] == [f"p{kept}"]
    committed = await client.post("/groups/g/offsets", json={"memberId": first["memberId"]})
    assert committed.json()["offsets"] == [{"topic": orders, "partition": kept, "error": None}]


async def test_describe_assignment_and_stats(client: httpx.AsyncClient, orders: str) -> None:
    first = await join(client, clientId="one")
    await join(client, clientId="two")
    found = (await client.get("/groups/g/cooperative")).json()
    assert found["state"] == "Reconciling"
    assert found["assignor"] == "uniform"
    by_client = {member["clientId"]: member for member in found["members"]}
    assert partitions(by_client["one"]["assignment"]) == [0, 1]
    assert len(partitions(by_client["one"]["target"])) == 1
    assert by_client["two"]["assignment"] == []
    stats = (await client.get("/groups/g/rebalance/stats")).json()
    assert stats["inProgress"]
    assert (await client.get("/rebalance/stats")).json()["inProgress"] == 1

    await heartbeat(client, first)
    await ask(client, "revoke", memberId=first["memberId"])
    two = {"memberId": by_client["two"]["memberId"]}
    await heartbeat(client, two)

    stats = (await client.get("/groups/g/rebalance/stats")).json()
    assert not stats["inProgress"]
    assert stats["rebalances"]["byReason"]["member_joined"] == 2
    assert stats["rebalances"]["partitionsMoved"] == 3
    assert stats["rebalances"]["completed"] == 2
    assignment = (await client.get("/groups/g/assignment", params=two)).json()
    assert len(assignment["members"]) == 1
    assert (await client.get("/groups/g")).json()["type"] == "consumer"

    left = await client.post("/groups/g/leave/cooperative", json=two)
    assert left.status_code == 204
    assert partitions((await heartbeat(client, first))["assignment"]) == [0, 1]
    stats = (await client.get("/groups/g/rebalance/stats")).json()
    assert stats["rebalances"]["byReason"]["member_left"] == 1


async def test_new_partitions_come_without_joining_again(
    client: httpx.AsyncClient, orders: str
) -> None:
    member = await join(client, topics=[], topicRegex="ord.*")
    plain = {"config": {"partition.growth": "plain"}}
    await client.patch(f"/topics/{orders}", json=plain)
    await client.patch(f"/topics/{orders}", json={"partitions": 3})
    assert partitions((await heartbeat(client, member))["assignment"]) == [0, 1, 2]
    stats = (await client.get("/groups/g/rebalance/stats")).json()
    assert stats["rebalances"]["byReason"]["topics_changed"] == 1


async def test_a_static_member_keeps_its_place(client: httpx.AsyncClient, orders: str) -> None:
    member = await join(client, instanceId="one")
    response = await client.post(
        "/groups/g/join/cooperative", json={"topics": [orders], "instanceId": "one"}
    )
    assert error_code(response, 409) == "unreleased_instance_id"
    body = {"memberId": member["memberId"], "keepPlace": True}
    assert (await client.post("/groups/g/leave/cooperative", json=body)).status_code == 204
    again = await join(client, instanceId="one")
    assert again["assignment"] == member["assignment"]


async def test_a_stale_epoch_is_fenced(client: httpx.AsyncClient, orders: str) -> None:
    member = await join(client)
    body = {"memberId": member["memberId"], "memberEpoch": 77}
    response = await client.post("/groups/g/heartbeat/cooperative", json=body)
    assert error_code(response, 409) == "fenced_member_epoch"
    response = await client.get("/groups/g/poll", params={"memberId": member["memberId"]})
    assert error_code(response, 409) == "unknown_member_id"


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("join/cooperative", {}, 422, "invalid_request"),
        ("join/cooperative", {"topicRegex": "("}, 422, "invalid_regular_expression"),
        ("join/cooperative", {"topics": ["t"], "assignor": "best"}, 400, "invalid_request"),
        ("heartbeat/cooperative", {"memberId": "m"}, 409, "unknown_member_id"),
        ("revoke", {"memberId": "m"}, 409, "unknown_member_id"),
        ("leave/cooperative", {"memberId": "m"}, 409, "unknown_member_id"),
    ],
)
async def test_bad_requests(
    client: httpx.AsyncClient, path: str, body: Any, status: int, code: str
) -> None:
    assert error_code(await client.post(f"/groups/g/{path}", json=body), status) == code


async def test_members_of_one_protocol_do_not_use_the_paths_of_the_other(
    client: httpx.AsyncClient, orders: str
) -> None:
    member = await join(client)
    body = {"memberId": member["memberId"]}
    response = await client.post("/groups/g/heartbeat", json=body)
    assert error_code(response, 409) == "inconsistent_group_protocol"
    assert error_code(await client.get("/groups/x/cooperative"), 404) == "group_id_not_found"
