"""Requests that wait when a right or a user is taken away: refused, and given nothing."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from goqueue.service.security.allowed_waits import AllowedWaits
from tests.unit.doors.web_security.conftest import ALICE, refused_while_waiting

pytestmark = pytest.mark.anyio

READS = "/topics/orders/partitions/0/messages?offset=0&maxWait=30000"
QUEUE = "/groups/workers/poll?topic=orders&timeout=30000"


def rule(resource: str, name: str, operation: str) -> dict[str, str]:
    return {
        "resource": resource,
        "name": name,
        "principal": "User:alice",
        "operation": operation,
    }


@pytest.fixture
async def orders(admin: httpx.AsyncClient) -> None:
    (await admin.post("/topics", json={"name": "orders", "partitions": 1})).raise_for_status()
    rules = [rule("topic", "orders", "read"), rule("group", "workers", "read")]
    (await admin.post("/rules", json={"rules": rules})).raise_for_status()


Revoke = Callable[[httpx.AsyncClient], Awaitable[Any]]


def _user(admin: httpx.AsyncClient) -> Awaitable[Any]:
    return admin.delete("/users/alice")


def _topic(admin: httpx.AsyncClient) -> Awaitable[Any]:
    return admin.delete("/rules?resource=topic&name=orders")


def _group(admin: httpx.AsyncClient) -> Awaitable[Any]:
    return admin.delete("/rules?resource=group")


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("path", "revoke", "status"),
    [
        (READS, _user, 401),
        (READS, _topic, 403),
        (QUEUE, _user, 401),
        (QUEUE, _topic, 403),
        (QUEUE, _group, 403),
    ],
)
async def test_a_long_poll_is_refused(
    admin: httpx.AsyncClient,
    nobody: httpx.AsyncClient,
    waits: AllowedWaits,
    path: str,
    revoke: Revoke,
    status: int,
) -> None:
    refused = await refused_while_waiting(
        nobody.get(path, auth=ALICE), lambda: bool(waits._waiting), lambda: revoke(admin)
    )
    assert refused.status_code == status, refused.text


@pytest.mark.usefixtures("orders")
async def test_what_waits_by_a_session_ends_when_it_is_given_back(
    nobody: httpx.AsyncClient, waits: AllowedWaits
) -> None:
    begun = await nobody.post("/session", auth=ALICE)
    nobody.cookies.clear()
    cookie = begun.headers["set-cookie"].partition(";")[0]
    headers = {"cookie": cookie, "sec-fetch-site": "same-origin"}
    answers: list[int] = []

    async def log_out() -> None:
        answers.append((await nobody.delete("/session", headers=headers)).status_code)

    refused = await refused_while_waiting(
        nobody.get(QUEUE, headers=headers), lambda: bool(waits._waiting), log_out
    )
    assert (refused.status_code, answers) == (401, [204])


@pytest.mark.usefixtures("orders")
async def test_another_change_leaves_it_waiting(
    admin: httpx.AsyncClient, nobody: httpx.AsyncClient, waits: AllowedWaits
) -> None:

    async def change() -> None:
        (await admin.post("/users", json={"name": "bob"})).raise_for_status()
        assert waits._waiting
        sent = await admin.post("/topics/orders/messages", json={"value": "a"})
        sent.raise_for_status()

    answer = await refused_while_waiting(
        nobody.get(READS, auth=ALICE), lambda: bool(waits._waiting), change
    )
    assert [each["value"] for each in answer.json()["messages"]] == ["a"]


@pytest.mark.usefixtures("orders")
async def test_a_member_that_may_read_less_is_given_less(
    admin: httpx.AsyncClient, nobody: httpx.AsyncClient, waits: AllowedWaits
) -> None:
    joined = await nobody.post(
        "/groups/workers/join", json={"topics": ["orders"]}, auth=ALICE, timeout=60
    )
    member = joined.json()["memberId"]

    async def change() -> None:
        (await _topic(admin)).raise_for_status()
        sent = await admin.post("/topics/orders/messages", json={"value": "a"})
        sent.raise_for_status()

    with pytest.raises(TimeoutError):
        await refused_while_waiting(
            nobody.get(f"/groups/workers/poll?memberId={member}&timeout=30000", auth=ALICE),
            lambda: bool(waits._waiting),
            change,
        )
    refused = await refused_while_waiting(
        nobody.get(f"/groups/workers/poll?memberId={member}&timeout=30000", auth=ALICE),
        lambda: bool(waits._waiting),
        lambda: _group(admin),
    )
    assert refused.status_code == 403


async def test_who_ends_its_own_log_in_is_answered(
    admin: httpx.AsyncClient, nobody: httpx.AsyncClient
) -> None:
    key = (await admin.post("/users/alice/keys", json={"kind": "api"})).json()
    bearer = {"authorization": f"Bearer {key['token']}"}
    answer = await nobody.delete(f"/keys/{key['id']}", headers=bearer)
    assert answer.status_code == 204, answer.text
    name, password = ALICE
    begun = await nobody.post("/session", json={"name": name, "password": password})
    nobody.cookies.clear()
    session = {
        "cookie": begun.headers["set-cookie"].partition(";")[0],
        "sec-fetch-site": "same-origin",
    }
    changed = await nobody.patch("/users/alice", json={"password": "another"}, headers=session)
    assert changed.json() == {"name": "alice"}
    (await admin.patch("/users/alice", json={"admin": True})).raise_for_status()
    answer = await nobody.delete("/users/alice", auth=(name, "another"))
    assert answer.status_code == 204, answer.text
    for shown in (bearer, session):
        assert (await nobody.get("/whoami", headers=shown)).status_code == 401
