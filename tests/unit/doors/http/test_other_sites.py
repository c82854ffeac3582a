"""Web pages of other sites: nothing they make a browser send is read or done."""

import httpx
import pytest

from goqueue.broker.node import Node
from tests.unit.doors.http.answers import error_code, error_message

pytestmark = pytest.mark.anyio

ELSEWHERE = {"sec-fetch-site": "cross-site", "origin": "https://evil.example"}
QUEUE = {"topic": "jobs"}


async def test_a_name_that_is_not_ours_is_refused(client: httpx.AsyncClient, broker: Node) -> None:
    rebound = {"host": "evil.example:8080"}
    for method, path in (("GET", "/topics"), ("GET", "/healthz"), ("GET", "/metrics")):
        answer = await client.request(method, path, headers=rebound)
        assert error_code(answer, 421) == "misdirected"
        assert "http.allowed.hosts" in error_message(answer)
        assert "evil.example" in error_message(answer)
    answer = await client.post("/topics/t/messages", json={"value": 1}, headers=rebound)
    assert error_code(answer, 421) == "misdirected"
    assert not broker.image.topics


class TestFurtherNames:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"advertised.host": "broker.example", "http.allowed.hosts": "one.test, .pods.test"}

    async def test_names_that_were_set(self, client: httpx.AsyncClient) -> None:
        for name in ("broker.example", "one.test:8080", "a.pods.test", "localhost", "10.0.0.1"):
            assert (await client.get("/healthz", headers={"host": name})).status_code == 200
        for name in ("two.test", "x.one.test"):
            assert (await client.get("/healthz", headers={"host": name})).status_code == 421


async def test_nothing_is_done_for_a_page_elsewhere(
    client: httpx.AsyncClient, broker: Node, orders: str
) -> None:
    before = set(broker.image.topics)
    for method, path, body in (
        ("POST", "/topics", {"name": "made"}),
        ("POST", "/topics/made/messages", {"value": 1}),
        ("PATCH", f"/topics/{orders}", {"partitions": 9}),
        ("DELETE", f"/topics/{orders}", None),
        ("POST", "/groups/g/receive", QUEUE),
    ):
        answer = await client.request(method, path, json=body, headers=ELSEWHERE)
        assert error_code(answer, 403) == "cross_site"
    assert set(broker.image.topics) == before
    own = {"sec-fetch-site": "same-origin", "origin": str(client.base_url).rstrip("/")}
    answer = await client.post("/topics/made/messages", json={"value": 1}, headers=own)
    assert answer.status_code == 200


async def test_receiving_is_a_post(client: httpx.AsyncClient) -> None:
    await client.post("/topics/jobs/messages", json={"value": "one", "partition": 0})

    answer = await client.post("/groups/workers/receive", json={**QUEUE, "max": 5})

    [message] = answer.json()["messages"]
    assert message["value"] == "one"
    done = await client.post(
        "/messages/ack", json={"group": "workers", "receipts": [message["receipt"]]}
    )
    assert done.json()["results"][0]["error"] is None


async def test_a_member_reads_by_post_too(client: httpx.AsyncClient, orders: str) -> None:
    await client.post(f"/topics/{orders}/messages", json={"value": "one", "partition": 0})
    joined = await client.post(
        "/groups/g/join", json={"topics": [orders], "offsetReset": "earliest"}
    )
    member = {"memberId": joined.json()["memberId"], "timeout": 30_000}

    answer = await client.post("/groups/g/receive", json=member)

    assert [each["value"] for each in answer.json()["messages"]] == ["one"]
    assert error_code(await client.post("/groups/g/receive", json={}), 422) == "invalid_request"
    both = {**member, **QUEUE}
    assert error_code(await client.post("/groups/g/receive", json=both), 422) == "invalid_request"


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
async def test_a_browser_takes_no_messages_by_get(client: httpx.AsyncClient, site: str) -> None:
    await client.post("/topics/jobs/messages", json={"value": "one", "partition": 0})
    path = "/groups/workers/poll?topic=jobs"

    refused = await client.get(path, headers={"sec-fetch-site": site})
    assert error_code(refused, 403) == "cross_site"
    assert "receive" in error_message(refused)
    assert (await client.head(path)).status_code == 405

    # Nothing was leased: programs, and our own pages, get it as before.
    own = await client.get(path, headers={"sec-fetch-site": "same-origin"})
    [message] = own.json()["messages"]
    assert message["deliveryCount"] == 1
    again = {"group": "workers", "receipts": [message["receipt"]], "timeout": 0}
    await client.post("/messages/visibility", json=again)
    assert len((await client.get(path)).json()["messages"]) == 1
