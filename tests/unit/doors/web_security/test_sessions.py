"""Sessions of browsers: a cookie that no other site's page can use, and that ends in time."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.broker.security.sessions import SESSION_MS
from goqueue.doors.http.security.sessions import LOG_IN_MAX_BYTES
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.allowed_waits import AllowedWaits
from tests.unit.doors.web_security.conftest import ALICE, MAKER, refused_while_waiting

pytestmark = pytest.mark.anyio

BODY = {"name": ALICE[0], "password": ALICE[1]}
SAME_ORIGIN = {"sec-fetch-site": "same-origin"}


async def log_in(client: httpx.AsyncClient, name: str = ALICE[0], password: str = ALICE[1]) -> str:
    """The cookie of a new session."""
    answer = await client.post("/session", json={"name": name, "password": password})
    assert answer.status_code == 201, answer.text
    client.cookies.clear()
    return answer.headers["set-cookie"].partition(";")[0]


async def test_the_cookie_is_strict(nobody: httpx.AsyncClient) -> None:
    answer = await nobody.post("/session", json=BODY)
    assert answer.json()["principal"] == "User:alice"
    word, *parts = answer.headers["set-cookie"].split("; ")
    assert word.startswith("goqueue_session=")
    assert set(parts) == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert answer.headers["cache-control"] == "no-store"
    nobody.cookies.clear()
    shown = (await nobody.get("/session", headers={"cookie": f"other=1; {word}"})).json()
    assert shown == answer.json()


async def test_basic_begins_one_too(nobody: httpx.AsyncClient) -> None:
    answer = await nobody.post("/session", auth=ALICE)
    assert answer.status_code == 201
    assert "set-cookie" in answer.headers


async def test_wrong_passwords_begin_none(nobody: httpx.AsyncClient) -> None:
    wrong = [
        await nobody.post("/session", json={**BODY, "password": "x"}),
        await nobody.post("/session", json={**BODY, "name": "x"}),
        await nobody.post("/session", auth=("alice", "x")),
        await nobody.post("/session", headers={"authorization": "Bearer gqk_a_b"}),
    ]
    for answer in wrong:
        assert answer.status_code == 401
        assert "www-authenticate" in answer.headers
        assert "set-cookie" not in answer.headers
    assert (await nobody.post("/session", json={"name": "alice"})).status_code == 400


async def test_a_log_in_is_no_place_for_large_bodies(nobody: httpx.AsyncClient) -> None:
    """Anybody may send it."""
    too_much = b'{"name": "alice", "password": "%s"}' % (b"x" * LOG_IN_MAX_BYTES)
    kind = {"content-type": "application/json"}
    answer = await nobody.post("/session", content=too_much, headers=kind)
    assert answer.status_code == 413
    assert str(LOG_IN_MAX_BYTES) in answer.json()["error"]["message"]

    async def pieces() -> AsyncIterator[bytes]:
        for begin in range(0, len(too_much), 1_000):
            yield too_much[begin : begin + 1_000]

    answer = await nobody.post("/session", content=pieces(), headers=kind)
    assert answer.status_code == 413
    longest = {"name": "a" * 200, "password": "\U0001f600" * 1_024}
    content = json.dumps(longest).encode()
    assert (await nobody.post("/session", content=content, headers=kind)).status_code == 401
    assert (await nobody.post("/session", headers=kind)).status_code == 400


async def test_a_session_lets_in(nobody: httpx.AsyncClient) -> None:
    headers = {"cookie": await log_in(nobody)}
    assert (await nobody.get("/whoami", headers=headers)).json()["principal"] == "User:alice"
    assert (await nobody.get("/subjects", headers=headers)).status_code == 200
    # SQS has its signatures.
    target = {"x-amz-target": "AmazonSQS.ListQueues", "content-type": "application/x-amz-json-1.0"}
    assert (await nobody.post("/", headers={**headers, **target})).status_code == 403


@pytest.mark.parametrize(
    ("more", "is_let_in"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"origin": "http://{host}"}, True),
        # Nothing says where it comes from.
        ({}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"origin": "http://127.0.0.1:1"}, False),
        ({"origin": "null"}, False),
    ],
)
async def test_only_our_own_page_changes_something_by_a_cookie(
    nobody: httpx.AsyncClient, more: dict[str, str], is_let_in: bool
) -> None:
    host = f"{nobody.base_url.host}:{nobody.base_url.port}"
    headers = {name: value.format(host=host) for name, value in more.items()}
    headers["cookie"] = await log_in(nobody)
    answer = await nobody.post("/users/alice/keys", json={"kind": "api"}, headers=headers)
    assert answer.status_code == (201 if is_let_in else 403), answer.text
    if not is_let_in:
        assert answer.json()["error"]["code"] == "cross_site"


async def test_a_page_at_another_port_reads_nothing(nobody: httpx.AsyncClient) -> None:
    """It is of the same site, so that its requests carry the cookie."""
    headers = {"cookie": await log_in(nobody), "sec-fetch-site": "same-site"}
    assert (await nobody.get("/whoami", headers=headers)).status_code == 403


async def test_a_session_ends_where_it_is_given_back(nobody: httpx.AsyncClient) -> None:
    headers = {"cookie": await log_in(nobody), **SAME_ORIGIN}
    other = {"cookie": await log_in(nobody)}
    gone = await nobody.delete("/session", headers=headers)
    assert gone.status_code == 204
    assert "Max-Age=0" in gone.headers["set-cookie"]
    assert (await nobody.get("/whoami", headers=headers)).status_code == 401
    assert (await nobody.get("/whoami", headers=other)).status_code == 200


async def test_what_a_session_waits_for_ends_with_it(
    nobody: httpx.AsyncClient, admin: httpx.AsyncClient, waits: AllowedWaits
) -> None:
    (await admin.post("/topics", json={"name": "orders", "partitions": 1})).raise_for_status()
    rule = {"resource": "topic", "name": "orders", "principal": "User:alice", "operation": "read"}
    (await admin.post("/rules", json={"rules": [rule]})).raise_for_status()
    headers = {"cookie": await log_in(nobody), **SAME_ORIGIN}
    reads = "/topics/orders/partitions/0/messages?offset=0&maxWait=30000"
    answer = await refused_while_waiting(
        nobody.get(reads, headers=headers),
        lambda: bool(waits._waiting),
        lambda: nobody.delete("/session", headers=headers),
    )
    assert answer.status_code == 401


async def give_back(client: httpx.AsyncClient, cookie: str) -> None:
    headers = {"cookie": cookie, **SAME_ORIGIN}
    assert (await client.delete("/session", headers=headers)).status_code == 204


async def is_good(client: httpx.AsyncClient, cookie: str) -> bool:
    return (await client.get("/whoami", headers={"cookie": cookie})).status_code == 200


async def test_sessions_that_were_given_back_are_kept_while_they_would_last(
    nobody: httpx.AsyncClient, broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        await give_back(nobody, await log_in(nobody))
    assert len(broker.security.image.ended_sessions) == 2
    sessions, now_ms = broker.security.sessions, broker.clock_ms()
    monkeypatch.setattr(sessions, "_clock_ms", lambda: now_ms + SESSION_MS + 60_000)
    await give_back(nobody, await log_in(nobody))
    assert len(broker.security.image.ended_sessions) == 1


@pytest.mark.parametrize("limit", ["ENDED_MAX", "ENDED_PER_USER_MAX"])
async def test_a_session_that_was_given_back_stays_so_however_many_are(
    nobody: httpx.AsyncClient,
    service: BrokerService,
    broker: Node,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
) -> None:
    monkeypatch.setattr(f"goqueue.broker.security.sessions.{limit}", 3)
    await service.users.create(MAKER, "bob", "builder")
    given_back = [await log_in(nobody), await log_in(nobody, "bob", "builder")]
    other = await log_in(nobody, "bob", "builder")
    for cookie in given_back:
        await give_back(nobody, cookie)
    for _ in range(10):
        given_back.append(await log_in(nobody))
        await give_back(nobody, given_back[-1])
        # Four of the users together, or three of one and one of the other; and one for each.
        assert len(broker.security.image.ended_sessions) <= 6
    assert not any([await is_good(nobody, cookie) for cookie in given_back])
    # Neither those of others end with them, nor those that begin later.
    assert await is_good(nobody, other)
    assert await is_good(nobody, await log_in(nobody))


async def test_a_session_ends_with_the_password_and_with_the_user(
    nobody: httpx.AsyncClient, service: BrokerService
) -> None:
    headers = {"cookie": await log_in(nobody)}
    await service.users.set_password(MAKER, "alice", "another")
    assert (await nobody.get("/whoami", headers=headers)).status_code == 401
    await service.users.set_password(MAKER, "alice", ALICE[1])
    headers = {"cookie": await log_in(nobody)}
    await service.users.delete(MAKER, "alice")
    await service.users.create(MAKER, *ALICE)
    assert (await nobody.get("/whoami", headers=headers)).status_code == 401


async def test_a_session_ends_with_its_time(nobody: httpx.AsyncClient, broker: Node) -> None:
    headers = {"cookie": await log_in(nobody)}
    sessions = broker.security.sessions
    now_ms = broker.clock_ms()
    sessions._clock_ms = lambda: now_ms + SESSION_MS + 60_000
    assert (await nobody.get("/whoami", headers=headers)).status_code == 401


async def test_a_changed_word_is_none(nobody: httpx.AsyncClient) -> None:
    cookie = await log_in(nobody)
    name, _, word = cookie.partition("=")
    for wrong in ("", "x", word[:-2], "A" + word[1:], word + "A", "é" * 9, word[:44]):
        headers = [(b"cookie", f"{name}={wrong}".encode("latin-1"))]
        if wrong == word:
            continue
        assert (await nobody.get("/whoami", headers=headers)).status_code == 401, wrong


async def test_nobody_makes_a_session_good_again_that_another_gave_back(
    nobody: httpx.AsyncClient, service: BrokerService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By giving back more of its own than are kept."""
    monkeypatch.setattr("goqueue.broker.security.sessions.ENDED_MAX", 3)
    headers = {"cookie": await log_in(nobody), **SAME_ORIGIN}
    assert (await nobody.delete("/session", headers=headers)).status_code == 204
    await service.users.create(MAKER, "mallory", "secret")
    for _ in range(5):
        begun = await nobody.post("/session", json={"name": "mallory", "password": "secret"})
        nobody.cookies.clear()
        cookie = begun.headers["set-cookie"].partition(";")[0]
        ended = await nobody.delete("/session", headers={"cookie": cookie, **SAME_ORIGIN})
        assert ended.status_code == 204
    assert (await nobody.get("/whoami", headers=headers)).status_code == 401
