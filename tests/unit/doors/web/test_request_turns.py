"""Requests over HTTP begin by party in turn, and no more at a time than the loop can do soon."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.node import Node
from goqueue.doors.http import HttpDoor
from goqueue.doors.http import door as http_door
from goqueue.doors.web import turns as turns_module
from goqueue.doors.web.turns import ALONE, SHARED, ConnectionParty, Pace, Turns, begin_next
from goqueue.model.broker_config import broker_config
from goqueue.model.caller import ANONYMOUS, Caller, Door, Principal
from goqueue.model.fairness.headcount import Headcount
from goqueue.model.fairness.line import Line
from goqueue.service.broker_service import BrokerService
from tests.access.tenant_worlds import AllMay

pytestmark = pytest.mark.anyio

MAKER = Caller(principal=ANONYMOUS, door=Door.HTTP)


def filled(parties: str) -> Line[str]:
    line: Line[str] = Line()
    for number, party in enumerate(parties):
        line.add(party, f"{party}{number}")
    return line


def test_parties_come_one_after_the_other() -> None:
    line = filled("aaabcc")
    assert [line.take() for _ in range(6)] == ["a0", "b3", "c4", "a1", "c5", "a2"]
    assert len(line) == 0
    with pytest.raises(KeyError):
        line.take()


@given(st.text("abc"), st.integers(0, 10))
def test_who_comes_waits_for_one_of_each_other_party(before: str, taken: int) -> None:
    line = filled(before)
    for _ in range(min(taken, len(line))):
        line.take()
    line.add("z", "z")
    ahead = iter(line.take, "z")
    parties = Counter(each[0] for each in ahead)
    assert set(parties.values()) <= {1}


@pytest.mark.parametrize("pace", [ALONE, SHARED])
def test_long_turns_have_fewer_requests_and_short_ones_more(pace: Pace) -> None:
    assert begin_next(pace.begin_max, pace.seconds * 1.1, pace) == pace.begin_max // 2
    assert begin_next(1, 1.0, pace) == 1
    assert begin_next(8, pace.seconds / 2, pace) == 9
    assert begin_next(pace.begin_max, 0.0, pace) == pace.begin_max


@given(st.text("abc", min_size=1), st.data())
def test_who_leaves_is_not_missed(waiting: str, data: st.DataObject) -> None:
    line = filled(waiting)
    left = data.draw(st.integers(0, len(waiting) - 1))
    party = waiting[left]
    line.leave(party, f"{party}{left}")
    line.leave(party, f"{party}{left}")
    assert len(line) == len(waiting) - 1
    assert line.count(party) == waiting.count(party) - 1
    taken = [line.take() for _ in range(len(line))]
    assert sorted(taken) == sorted(f"{p}{n}" for n, p in enumerate(waiting) if n != left)


def test_turns_are_small_as_soon_as_there_are_two() -> None:
    assert begin_next(ALONE.begin_max, 0.0, SHARED) == SHARED.begin_max


async def test_where_nobody_logs_in_everything_begins_at_once() -> None:
    begun: list[int] = []
    turns = Turns(is_on=False)
    for number in range(500):
        turns.take(f"at 10.0.0.{number}", partial(begun.append, number))
    assert begun == list(range(500))


async def test_one_who_comes_waits_for_a_turn_and_not_for_all_of_the_only_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is known of the one who comes, and nothing told that it would."""
    monkeypatch.setattr(turns_module, "SHARED_FOR_SECONDS", 0)
    begun: list[str] = []
    turns = Turns(is_on=True)
    for number in range(1_000):
        turns.take("acme@", partial(begun.append, f"acme {number}"))
    while len(begun) < 300:
        before = len(begun)
        await asyncio.sleep(0)
        assert len(begun) - before <= ALONE.begin_max
    came = len(begun)
    turns.take("at 10.0.0.9", partial(begun.append, "comes"))
    while len(begun) < 1_001:
        await asyncio.sleep(0)
    assert begun.index("comes") <= came + 1


async def test_the_only_request_of_one_is_not_behind_all_of_another() -> None:
    begun: list[str] = []
    turns = Turns(is_on=True)
    for number in range(100):
        turns.take("acme@", partial(begun.append, f"acme {number}"))
    turns.take("zeta@", partial(begun.append, "zeta"))
    assert len(begun) == SHARED.begin_max
    while len(begun) < 101:
        await asyncio.sleep(0)
    assert begun.index("zeta") <= SHARED.begin_max + 1
    # Of a party the order stays.
    begun.remove("zeta")
    assert begun == [f"acme {number}" for number in range(100)]


async def test_after_a_turn_there_is_room_again() -> None:
    begun: list[int] = []
    turns = Turns(is_on=True)
    for number in range(SHARED.begin_max):
        turns.take("acme@", partial(begun.append, number))
    while len(begun) == SHARED.begin_max:
        await asyncio.sleep(0)
        turns.take("zeta@", partial(begun.append, -1))
    assert begun[-1] == -1


async def test_what_waits_when_the_door_closes_never_begins() -> None:
    begun: list[int] = []
    turns = Turns(is_on=True)
    for number in range(SHARED.begin_max + 5):
        turns.take("acme@", partial(begun.append, number))
    turns.stop()
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(begun) == SHARED.begin_max


def test_a_connection_is_of_the_party_that_logged_in_last() -> None:
    parties = Headcount()
    party = ConnectionParty(parties, "10.0.0.9")
    assert party.name == "at 10.0.0.9"
    party.seen(Principal("User", "alice", "acme"))
    party.seen(Principal("User", "bob", "acme"))
    assert (party.name, [*parties], parties.total) == ("acme@", ["acme@"], 1)
    party.seen(Principal("User", "carol"))
    assert (party.name, [*parties], parties.total) == ("carol", ["carol"], 1)
    party.end()
    party.end()
    # A log-in that was under way.
    party.seen(Principal("User", "carol"))
    assert not len(parties)


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[tuple[str, BrokerService]]:
    async with opened_door(tmp_path) as opened:
        yield opened


@asynccontextmanager
async def opened_door(tmp_path: Path) -> AsyncIterator[tuple[str, BrokerService]]:
    texts = {"data.dir": str(tmp_path / "data"), "http.port": "0", "security.enabled": "true"}
    node = await Node.open(broker_config(texts))
    service = BrokerService(node, AllMay())
    for tenant in ("acme", "zeta"):
        await service.tenants.create(MAKER, tenant, {})
        await service.users.create(MAKER, f"{tenant}-boss", "secret", tenant=tenant, is_admin=True)
    opened = HttpDoor(service, node.config)
    host, port = await opened.start()
    await node.announce(host, 9092, port)
    yield f"http://{host}:{port}", service
    await opened.stop()
    await node.close()


async def test_everybody_is_answered_and_forgotten_with_the_connection(
    door: tuple[str, BrokerService],
) -> None:
    url, service = door
    limits = httpx.Limits(max_connections=60, max_keepalive_connections=60)
    for tenant in ("acme", "zeta"):
        async with httpx.AsyncClient(base_url=url, auth=(f"{tenant}-boss", "secret")) as boss:
            made = await boss.post("/topics", json={"name": "orders", "partitions": 1})
            assert made.status_code == 201
    async with (
        httpx.AsyncClient(
            base_url=url, auth=("acme-boss", "secret"), limits=limits, timeout=60
        ) as acme,
        httpx.AsyncClient(base_url=url, auth=("zeta-boss", "secret"), timeout=60) as zeta,
    ):
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(who.post("/topics/orders/messages", json={"value": number}))
                for number in range(120)
                for who in (acme, zeta)[: 2 if number % 10 == 0 else 1]
            ]
        assert {task.result().status_code for task in asked} == {200}
        assert set(service.quotas.parties) == {"acme@", "zeta@"}
        assert service.quotas.parties["acme@"] > 1
    async with asyncio.timeout(60):
        while service.quotas.parties:
            await asyncio.sleep(0.01)


async def test_one_tenants_connections_do_not_keep_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor an administrator, who sees how it stands."""
    monkeypatch.setattr(http_door, "CONNECTIONS_MAX", 8)
    async with opened_door(tmp_path) as (url, service):
        await service.users.create(MAKER, "root", "secret", is_admin=True)
        async with AsyncExitStack() as clients:
            for _ in range(8):
                client = await clients.enter_async_context(httpx.AsyncClient(base_url=url))
                asked = await client.get("/topics", auth=("acme-boss", "secret"))
                assert asked.status_code == 200
            # One more of those who have most is sent away.
            client = await clients.enter_async_context(httpx.AsyncClient(base_url=url))
            with pytest.raises(httpx.TransportError):
                await client.get("/topics", auth=("acme-boss", "secret"))
            for user in ("zeta-boss", "root"):
                async with httpx.AsyncClient(base_url=url, auth=(user, "secret")) as other:
                    for _ in range(3):
                        assert (await other.get("/topics")).status_code == 200
