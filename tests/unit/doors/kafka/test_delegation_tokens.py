"""Delegation tokens (KIP-48): made, used, renewed, ended, seen."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.state.security.scram import HASHES, SHA_256
from tests.callers import ANYONE
from tests.unit.doors.kafka.sasl_client import choose, log_in, prove
from tests.unit.doors.kafka.secured import Clock, secured_broker, without_rules
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

DAY_MS = 86_400_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def settings() -> dict[str, str]:
    return {"delegation.token.expiry.check.interval.ms": "100"}


@pytest.fixture
async def broker(tmp_path: Path, settings: dict[str, str], clock: Clock) -> AsyncIterator[Node]:
    async with secured_broker(tmp_path, settings, clock) as opened:
        yield opened


async def of(door: KafkaDoor, name: str) -> WireClient:
    client = await WireClient.connect(*door.address)
    assert (await log_in(client, name, f"{name}'s")).error_code is ErrorCode.none
    return client


async def by_token(door: KafkaDoor, token: Any, mechanism: str = SHA_256) -> tuple[Any, WireClient]:
    client = await WireClient.connect(*door.address)
    await choose(client, mechanism)
    password = base64.b64encode(token.hmac).decode()
    answer = await prove(client, token.token_id, password, mechanism, extensions="tokenauth=true")
    return answer, client


async def create(client: WireClient, *renewers: str, **fields: Any) -> Any:
    named = [{"principal_type": "User", "principal_name": name} for name in renewers]
    fields = {
        "max_lifetime": -1,
        "owner_principal_type": None,
        "owner_principal_name": None,
    } | fields
    return await client.call("create_delegation_token", renewers=named, **fields)


async def renew(client: WireClient, token: Any, period_ms: int = -1) -> Any:
    return await client.call("renew_delegation_token", hmac=token.hmac, renew_period=period_ms)


async def expire(client: WireClient, token: Any, period_ms: int = -1) -> Any:
    return await client.call(
        "expire_delegation_token", hmac=token.hmac, expiry_time_period=period_ms
    )


async def seen(client: WireClient, *owners: str) -> list[Any]:
    named = [{"principal_type": "User", "principal_name": name} for name in owners] or None
    answer = await client.call("describe_delegation_token", owners=named)
    assert answer.error_code is ErrorCode.none
    return list(answer.tokens)


def ms(time: Any) -> int:
    return int(time.timestamp() * 1000)


@pytest.mark.parametrize("mechanism", list(HASHES))
async def test_who_has_a_token_acts_as_its_owner(door: KafkaDoor, mechanism: str) -> None:
    carol = await of(door, "carol")
    token = await create(carol)
    assert token.error_code is ErrorCode.none
    assert (token.principal_type, token.principal_name) == ("User", "carol")
    answer, client = await by_token(door, token, mechanism)
    assert answer.error_code is ErrorCode.none
    assert answer.session_lifetime.total_seconds() == DAY_MS / 1000
    (mine,) = await seen(carol)
    assert mine.token_id == token.token_id
    assert mine.hmac == token.hmac
    assert (await client.call("metadata", 12, topics=[])).cluster_id is not None


async def test_who_has_a_token_has_no_say_about_tokens(door: KafkaDoor, clock: Clock) -> None:
    """Who was given a short one would see the secrets of the others, and make it last."""
    carol = await of(door, "carol")
    await create(carol)
    short = await create(carol, max_lifetime=60_000)
    _, client = await by_token(door, short)
    told = await client.call("describe_delegation_token", owners=None)
    assert told.error_code is ErrorCode.delegation_token_request_not_allowed
    assert told.tokens == ()
    before = await seen(carol)
    clock.now_ms += 10_000
    for refused in (
        await create(client),
        await renew(client, short),
        await expire(client, short),
    ):
        assert refused.error_code is ErrorCode.delegation_token_request_not_allowed
    assert await seen(carol) == before


async def test_a_token_with_another_secret_or_without_the_word_is_none(door: KafkaDoor) -> None:
    token = await create(await of(door, "carol"))
    client = await WireClient.connect(*door.address)
    await choose(client, SHA_256)
    wrong = await prove(client, token.token_id, "wrong", extensions="tokenauth=true")
    assert wrong.error_code is ErrorCode.sasl_authentication_failed
    client = await WireClient.connect(*door.address)
    password = base64.b64encode(token.hmac).decode()
    as_user = await log_in(client, token.token_id, password)
    assert as_user.error_code is ErrorCode.sasl_authentication_failed


async def test_it_lives_as_long_as_is_set_or_asked_for(door: KafkaDoor, clock: Clock) -> None:
    carol = await of(door, "carol")
    token = await create(carol)
    assert ms(token.issue_timestamp) == clock.now_ms
    assert ms(token.expiry_timestamp) == clock.now_ms + DAY_MS
    assert ms(token.max_timestamp) == clock.now_ms + 7 * DAY_MS
    short = await create(carol, max_lifetime=60_000)
    assert ms(short.expiry_timestamp) == ms(short.max_timestamp) == clock.now_ms + 60_000
    long = await create(carol, max_lifetime=30 * DAY_MS)
    assert ms(long.max_timestamp) == clock.now_ms + 7 * DAY_MS


async def test_owner_and_renewers_renew_it_and_nobody_else(door: KafkaDoor, clock: Clock) -> None:
    carol, alice, bob = [await of(door, name) for name in ("carol", "alice", "bob")]
    token = await create(carol, "bob")
    clock.now_ms += DAY_MS - 1
    answer = await renew(bob, token)
    assert ms(answer.expiry_timestamp) == clock.now_ms + DAY_MS
    answer = await renew(carol, token, 1_000)
    assert ms(answer.expiry_timestamp) == clock.now_ms + 1_000
    for ask in (renew, expire):
        refused = await ask(alice, token)
        assert refused.error_code is ErrorCode.delegation_token_owner_mismatch
    for _ in range(7):
        answer = await renew(carol, token)
        clock.now_ms += DAY_MS - 1
    assert ms(answer.expiry_timestamp) == ms(token.max_timestamp)
    clock.now_ms += DAY_MS
    gone = (await renew(carol, token)).error_code
    assert gone in (ErrorCode.delegation_token_expired, ErrorCode.delegation_token_not_found)


async def test_an_unknown_secret(door: KafkaDoor) -> None:
    carol = await of(door, "carol")
    token = await create(carol)
    await expire(carol, token)
    for ask in (renew, expire):
        assert (await ask(carol, token)).error_code is ErrorCode.delegation_token_not_found


async def test_one_that_is_ended_ends_its_connections(door: KafkaDoor, clock: Clock) -> None:
    carol = await of(door, "carol")
    token = await create(carol)
    _, client = await by_token(door, token)
    answer = await expire(carol, token)
    assert answer.error_code is ErrorCode.none
    assert ms(answer.expiry_timestamp) == clock.now_ms
    async with asyncio.timeout(1):
        assert await client.is_closed_by_broker()
    assert await seen(carol) == []


async def test_one_that_ended_is_refused_and_removed(
    door: KafkaDoor, broker: Node, clock: Clock
) -> None:
    carol = await of(door, "carol")
    token = await create(carol)
    _, client = await by_token(door, token)
    await expire(carol, token, 10_000)
    clock.now_ms += 10_000
    answer, _ = await by_token(door, token)
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert await client.is_closed_by_broker()
    async with asyncio.timeout(10):
        while broker.security.image.tokens:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("settings", [{"delegation.token.expiry.check.interval.ms": "3600000"}])
async def test_one_that_is_made_to_end_sooner_ends_its_log_ins_sooner(
    door: KafkaDoor, clock: Clock
) -> None:
    """Not only when those that ended are removed, which may take an hour."""
    carol = await of(door, "carol")
    token = await create(carol)
    _, client = await by_token(door, token)
    await expire(carol, token, 10_000)
    clock.now_ms += 9_999
    assert (await client.call("metadata", 12, topics=[])).cluster_id is not None
    clock.now_ms += 1
    client.send("metadata", 12, topics=[])
    assert await client.is_closed_by_broker()


async def test_a_token_ends_with_its_owner(door: KafkaDoor, broker: Node) -> None:
    token = await create(await of(door, "carol"))
    _, client = await by_token(door, token)
    await without_rules(broker).users.delete(ANYONE, "carol")
    async with asyncio.timeout(1):
        assert await client.is_closed_by_broker()
    await without_rules(broker).users.create(ANYONE, "carol", "other")
    answer, _ = await by_token(door, token)
    assert answer.error_code is ErrorCode.sasl_authentication_failed


async def test_who_sees_which_tokens(door: KafkaDoor) -> None:
    carol, alice, bob = [await of(door, name) for name in ("carol", "alice", "bob")]
    await create(carol, "bob")
    await create(alice)
    assert [each.principal_name for each in await seen(carol)] == ["carol"]
    # Administrators may see all.
    assert {each.principal_name for each in await seen(bob)} == {"alice", "carol"}
    assert [each.principal_name for each in await seen(bob, "alice")] == ["alice"]
    assert await seen(carol, "alice") == []


async def test_a_token_for_somebody_else(door: KafkaDoor) -> None:
    carol, alice = [await of(door, name) for name in ("carol", "alice")]
    owner = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    refused = await create(carol, **owner)
    assert refused.error_code is ErrorCode.delegation_token_authorization_failed
    made = await create(alice, **owner)
    assert made.error_code is ErrorCode.none
    assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")
    owner["owner_principal_type"] = "Group"
    refused = await create(alice, **owner)
    assert refused.error_code is ErrorCode.invalid_principal_type
