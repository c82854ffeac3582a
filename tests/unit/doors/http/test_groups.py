"""Members over HTTP in the classic protocol: join, poll, commit, rebalance, leave."""

import asyncio
from typing import Any

import httpx
import pytest

from goqueue.broker.node import Node
from tests.unit.doors.http.answers import error_code, error_message

pytestmark = pytest.mark.anyio

Assignment = dict[str, list[int]]


async def join(client: httpx.AsyncClient, group: str, **body: Any) -> dict[str, Any]:
    body = {"topics": ["orders"], "offsetReset": "earliest", **body}
    response = await client.post(f"/groups/{group}/join", json=body)
    assert response.status_code == 200, response.text
    joined: dict[str, Any] = response.json()
    return joined


def held(member: dict[str, Any]) -> Assignment:
    return {each["topic"]: each["partitions"] for each in member["assignment"]}


async def publish(client: httpx.AsyncClient, *values: str, partition: int = 0) -> None:
    messages = [{"value": value, "partition": partition} for value in values]
    response = await client.post("/topics/orders/messages", json={"messages": messages})
    assert response.status_code == 200, response.text


async def poll(client: httpx.AsyncClient, group: str, member: dict[str, Any], **query: Any) -> Any:
    query = {"memberId": member["memberId"], **query}
    response = await client.get(f"/groups/{group}/poll", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def values(polled: Any) -> list[Any]:
    return [message["value"] for message in polled["messages"]]


async def two_members(client: httpx.AsyncClient) -> tuple[dict[str, Any], dict[str, Any]]:
    first = await join(client, "g")
    second_join = asyncio.create_task(join(client, "g"))
    await until_rebalancing(client, first)
    first = await join(client, "g", memberId=first["memberId"])
    return first, await second_join


async def until_rebalancing(client: httpx.AsyncClient, member: dict[str, Any]) -> None:
    """Heartbeats are fine until another member joins."""
    for _ in range(2_000):
        body = {"memberId": member["memberId"]}
        response = await client.post("/groups/g/heartbeat", json=body)
        if response.status_code == 409:
            assert error_code(response, 409) == "rebalance_in_progress"
            return
    raise AssertionError("no rebalance began")


async def test_a_member_alone_has_all_partitions(client: httpx.AsyncClient, orders: str) -> None:
    member = await join(client, "g")
    assert held(member) == {orders: [0, 1]}
    assert member["isLeader"]
    assert member["assignor"] == "sticky"
    assert member["memberId"].startswith("http-")


async def test_joining_again_at_rest_changes_nothing(
    client: httpx.AsyncClient, orders: str
) -> None:
    member = await join(client, "g")
    assert await join(client, "g", memberId=member["memberId"]) == member


async def test_two_members_share_and_the_first_learns_by_409(
    client: httpx.AsyncClient, orders: str
) -> None:
    first, second = await two_members(client)
    assert first["generation"] == second["generation"] == 2
    assert sorted(held(first)[orders] + held(second)[orders]) == [0, 1]


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
async def test_every_assignor_shares_out_everything(
    client: httpx.AsyncClient, orders: str, assignor: str
) -> None:
    async def settle(**member_id: str) -> dict[str, Any]:
        """Join, and join again whenever a poll says so, until this member has its share."""
        member = await join(client, "g", assignor=assignor, **member_id)
        while len(held(member).get(orders, [])) != 1:
            query = {"memberId": member["memberId"], "timeout": 20_000}
            response = await client.get("/groups/g/poll", params=query)
            assert error_code(response, 409) == "rebalance_in_progress"
            member = await join(client, "g", assignor=assignor, memberId=member["memberId"])
        return member

    member_id = (await join(client, "g", assignor=assignor))["memberId"]
    second_settles = asyncio.create_task(settle())
    await until_rebalancing(client, {"memberId": member_id})
    first, second = await asyncio.gather(settle(memberId=member_id), second_settles)
    assert sorted(held(first)[orders] + held(second)[orders]) == [0, 1]
    assert first["assignor"] == assignor


async def test_poll_delivers_in_order_and_goes_on(client: httpx.AsyncClient, orders: str) -> None:
    member = await join(client, "g")
    await publish(client, "a", "b", "c")
    first = await poll(client, "g", member, max=2)
    assert values(first) == ["a", "b"]
    assert [message["offset"] for message in first["messages"]] == [0, 1]
    assert {message["topic"] for message in first["messages"]} == {orders}
    assert values(await poll(client, "g", member)) == ["c"]
    assert values(await poll(client, "g", member)) == []


async def test_poll_takes_turns_between_partitions(client: httpx.AsyncClient, orders: str) -> None:
    member = await join(client, "g")
    await publish(client, *(["zero"] * 20), partition=0)
    await publish(client, *(["one"] * 20), partition=1)
    seen = {value for _ in range(2) for value in values(await poll(client, "g", member, max=2))}
    assert seen == {"zero", "one"}


async def test_a_waiting_poll_gets_what_is_published_meanwhile(
    client: httpx.AsyncClient, orders: str
) -> None:
    member = await join(client, "g")
    waiting = asyncio.create_task(poll(client, "g", member, timeout=20_000))
    await asyncio.sleep(0)
    await publish(client, "now", partition=1)
    assert values(await waiting) == ["now"]


async def test_a_waiting_poll_ends_when_the_group_rebalances(
    client: httpx.AsyncClient, orders: str
) -> None:
    member = await join(client, "g")
    query = {"memberId": member["memberId"], "timeout": 20_000}
    waiting = asyncio.create_task(client.get("/groups/g/poll", params=query))
    second = asyncio.create_task(join(client, "g"))
    assert error_code(await waiting, 409) == "rebalance_in_progress"
    await join(client, "g", memberId=member["memberId"])
    assert held(await second)


async def test_latest_begins_at_the_end(client: httpx.AsyncClient, orders: str) -> None:
    await publish(client, "old")
    member = await join(client, "g", offsetReset="latest")
    await publish(client, "new")
    assert values(await poll(client, "g", member)) == ["new"]


async def test_committed_offsets_are_where_the_next_member_begins(
    client: httpx.AsyncClient, orders: str
) -> None:
    member = await join(client, "g")
    await publish(client, "a", "b", "c")
    await poll(client, "g", member, max=2)
    body = {"memberId": member["memberId"]}
    committed = (await client.post("/groups/g/offsets", json=body)).json()
    assert {"topic": orders, "partition": 0, "error": None} in committed["offsets"]
    await poll(client, "g", member)
    assert (await client.post("/groups/g/leave", json=body)).status_code == 204

    member = await join(client, "g")
    assert values(await poll(client, "g", member)) == ["c"]


async def test_auto_commit_counts_what_earlier_polls_delivered(
    client: httpx.AsyncClient, orders: str
) -> None:
    member = await join(client, "g", autoCommit=True)
    await publish(client, "a", "b", "c")
    await poll(client, "g", member, max=2)
    await client.post("/groups/g/leave", json={"memberId": member["memberId"]})
    offsets = (await client.get("/groups/g/offsets")).json()["offsets"]
    assert [each["committedOffset"] for each in offsets if each["partition"] == 0] == [2]


async def test_offsets_by_hand_with_a_note_and_lag(client: httpx.AsyncClient, orders: str) -> None:
    await publish(client, "a", "b", "c")
    offset = {"topic": orders, "partition": 0, "offset": 1, "metadata": "half way"}
    response = await client.post("/groups/g/offsets", json={"offsets": [offset]})
    assert response.status_code == 200
    [found] = (await client.get("/groups/g/offsets", params={"topic": orders})).json()["offsets"]
    assert found == {
        "topic": orders,
        "partition": 0,
        "committedOffset": 1,
        "metadata": "half way",
        "logStartOffset": 0,
        "highWatermark": 3,
        "lag": 2,
        "memberId": None,
    }
    described = (await client.get("/groups/g")).json()
    assert (described["state"], described["lag"]) == ("Empty", 2)


async def test_a_stranger_cannot_commit_into_a_group_with_members(
    client: httpx.AsyncClient, orders: str
) -> None:
    await join(client, "g")
    offset = {"topic": orders, "partition": 0, "offset": 1}
    response = await client.post("/groups/g/offsets", json={"offsets": [offset]})
    assert error_code(response, 409) == "unknown_member_id"


async def test_an_old_generation_cannot_commit(client: httpx.AsyncClient, orders: str) -> None:
    first, _ = await two_members(client)
    offset = {"topic": orders, "partition": 0, "offset": 0}
    body = {"offsets": [offset], "memberId": first["memberId"], "generation": 1}
    response = await client.post("/groups/g/offsets", json=body)
    assert error_code(response, 409) == "illegal_generation"


async def test_offsets_of_what_is_not_there_are_refused(
    client: httpx.AsyncClient, orders: str
) -> None:
    offset = {"topic": orders, "partition": 7, "offset": 1}
    response = await client.post("/groups/g/offsets", json={"offsets": [offset]})
    assert error_code(response, 422) == "unknown_topic_or_partition"
    assert "partition 7" in error_message(response)


async def test_new_partitions_reach_the_members(client: httpx.AsyncClient, orders: str) -> None:
    member = await join(client, "g")
    plain = {"config": {"partition.growth": "plain"}}
    await client.patch(f"/topics/{orders}", json=plain)
    await client.patch(f"/topics/{orders}", json={"partitions": 3})
    await until_rebalancing(client, member)
    member = await join(client, "g", memberId=member["memberId"])
    assert held(member) == {orders: [0, 1, 2]}


async def test_a_static_member_comes_back_to_its_partitions(
    client: httpx.AsyncClient, orders: str
) -> None:
    first = await join(client, "g", instanceId="one")
    again = await join(client, "g", instanceId="one")
    assert held(again) == held(first)
    assert again["generation"] == first["generation"]
    body = {"memberId": first["memberId"]}
    response = await client.post("/groups/g/heartbeat", json=body)
    assert error_code(response, 409) == "fenced_instance_id"


async def test_describe_list_and_delete(client: httpx.AsyncClient, orders: str) -> None:
    member = await join(client, "g", clientId="worker")
    found = (await client.get("/groups/g")).json()
    assert (found["type"], found["state"], found["assignor"]) == ("classic", "Stable", "sticky")
    [shown] = found["members"]
    assert shown["clientId"] == "worker"
    assert shown["topics"] == [orders]
    assert held(shown) == held(member)
    assignment = (await client.get("/groups/g/assignment")).json()
    assert held(assignment["members"][0]) == held(member)

    listed = (await client.get("/groups", params={"state": "stable", "type": "classic"})).json()
    assert [each["group"] for each in listed["groups"]] == ["g"]
    assert (await client.get("/groups", params={"state": "Empty"})).json() == {"groups": []}

    assert error_code(await client.delete("/groups/g"), 409) == "non_empty_group"
    await client.post("/groups/g/leave", json={"memberId": member["memberId"]})
    assert (await client.delete("/groups/g")).status_code == 204
    assert error_code(await client.get("/groups/g"), 404) == "group_id_not_found"


async def test_rebalances_are_counted_by_reason(client: httpx.AsyncClient, orders: str) -> None:
    first, second = await two_members(client)
    await client.post("/groups/g/leave", json={"memberId": second["memberId"]})
    await until_rebalancing(client, first)
    await join(client, "g", memberId=first["memberId"])
    found = (await client.get("/groups/g/rebalance/stats")).json()
    assert not found["inProgress"]
    figures = found["rebalances"]
    assert figures["completed"] == 3
    assert figures["byReason"]["member_joined"] == 2
    assert figures["byReason"]["member_left"] == 1
    # Two at first, one to the second member, and that one back.
    assert figures["partitionsMoved"] == 4
    assert 0 <= figures["lastDurationMs"] <= figures["longestDurationMs"]
    assert (await client.get("/rebalance/stats")).json() == {"inProgress": 0, "rebalances": figures}


async def test_hanging_up_in_a_join_leaves_nobody_behind(
    client: httpx.AsyncClient, orders: str
) -> None:
    first = await join(client, "g")
    with pytest.raises(httpx.ReadTimeout):
        await client.post("/groups/g/join", json={"topics": [orders]}, timeout=0.3)
    first = await join(client, "g", memberId=first["memberId"])
    assert held(first) == {orders: [0, 1]}
    assert len((await client.get("/groups/g")).json()["members"]) == 1


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/groups/nobody", None, 404, "group_id_not_found"),
        ("DELETE", "/groups/nobody", None, 404, "group_id_not_found"),
        ("GET", "/groups/nobody/offsets", None, 404, "group_id_not_found"),
        ("GET", "/groups/nobody/assignment", None, 404, "group_id_not_found"),
        ("GET", "/groups/nobody/rebalance/stats", None, 404, "group_id_not_found"),
        ("GET", "/groups/g/poll", None, 422, "invalid_request"),
        ("GET", "/groups/g/poll?memberId=m&topic=t", None, 422, "invalid_request"),
        ("GET", "/groups/g/poll?memberId=m&visibility=5", None, 422, "invalid_request"),
        ("GET", "/groups/g/poll?memberId=m&timeout=30001", None, 400, "invalid_request"),
        ("GET", "/groups/g/poll?memberId=m", None, 409, "unknown_member_id"),
        ("POST", "/groups/g/heartbeat", {"memberId": "m"}, 409, "unknown_member_id"),
        ("POST", "/groups/g/leave", {"memberId": "m"}, 409, "unknown_member_id"),
        ("POST", "/groups/g/offsets", {}, 422, "invalid_request"),
        ("POST", "/groups/g/offsets", {"memberId": "m"}, 409, "unknown_member_id"),
        ("POST", "/groups/g/join", {"topics": []}, 400, "invalid_request"),
        ("POST", "/groups/g/join", {"topics": ["t"], "memberId": "m"}, 409, "unknown_member_id"),
        (
            "POST",
            "/groups/g/join",
            {"topics": ["t"], "sessionTimeoutMs": 1},
            422,
            "invalid_session_timeout",
        ),
        ("POST", "/groups/g/join", {"topics": ["t"], "assignor": "best"}, 400, "invalid_request"),
    ],
)
async def test_bad_requests(
    client: httpx.AsyncClient, method: str, path: str, body: Any, status: int, code: str
) -> None:
    response = await client.request(method, path, **({} if body is None else {"json": body}))
    assert error_code(response, status) == code


async def test_one_poll_at_a_time(client: httpx.AsyncClient, orders: str, broker: Node) -> None:
    member = await join(client, "g")
    waiting = asyncio.create_task(poll(client, "g", member, timeout=20_000))
    query = {"memberId": member["memberId"]}
    while (await client.get("/groups/g/poll", params=query)).status_code == 200:
        pass
    assert error_code(await client.get("/groups/g/poll", params=query), 409) == "conflict"
    await publish(client, "a")
    assert values(await waiting) == ["a"]
