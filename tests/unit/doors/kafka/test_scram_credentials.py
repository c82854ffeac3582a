"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554)."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.state.security.scram import SHA_256, SHA_512
from tests.unit.doors.kafka.sasl_client import log_in
from tests.unit.doors.kafka.secured import Clock, secured_broker
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

SALT = b"a salt of some bytes"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Node]:
    async with secured_broker(tmp_path, {}, Clock()) as opened:
        yield opened


@pytest.fixture
async def alice(client: WireClient) -> WireClient:
    assert (await log_in(client, "alice", "alice's")).error_code is ErrorCode.none
    return client


def upsertion(name: str, password: str, mechanism: int = 1, **changed: Any) -> dict[str, Any]:
    salted = hashlib.pbkdf2_hmac(
        {1: "sha256", 2: "sha512"}.get(mechanism, "md5"), password.encode(), SALT, 4_096
    )
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": 4_096,
        "salt": SALT,
        "salted_password": salted,
        **changed,
    }


async def alter(
    client: WireClient, *, put: tuple[Any, ...] = (), drop: tuple[tuple[str, int], ...] = ()
) -> dict[str, ErrorCode]:
    answer = await client.call(
        "alter_user_scram_credentials",
        deletions=[{"name": name, "mechanism": mechanism} for name, mechanism in drop],
        upsertions=put,
    )
    return {each.user: each.error_code for each in answer.results}


async def described(client: WireClient, *names: str) -> dict[str, Any]:
    users = [{"name": name} for name in names] if names else None
    answer = await client.call("describe_user_scram_credentials", users=users)
    assert answer.error_code is ErrorCode.none
    return {
        each.user: {info.mechanism: info.iterations for info in each.credential_infos}
        or each.error_code
        for each in answer.results
    }


async def test_a_user_is_made_by_a_salted_password(alice: WireClient, door: KafkaDoor) -> None:
    told = await alter(alice, put=(upsertion("dave", "pw"), upsertion("dave", "pw2", 2)))
    assert told == {"dave": ErrorCode.none}
    assert await described(alice, "dave") == {"dave": {1: 4_096, 2: 4_096}}
    for mechanism, password in ((SHA_256, "pw"), (SHA_512, "pw2")):
        client = await WireClient.connect(*door.address)
        answer = await log_in(client, "dave", password, mechanism)
        assert answer.error_code is ErrorCode.none
        client.close()


async def test_all_are_described(alice: WireClient) -> None:
    both = {1: 4_096, 2: 4_096}
    assert await described(alice) == {"alice": both, "bob": both, "carol": both}
    told = await described(alice, "bob", "nobody", "carol", "carol")
    assert told["bob"] == both
    assert told["nobody"] is ErrorCode.resource_not_found
    assert told["carol"] is ErrorCode.duplicate_resource


async def test_credentials_are_removed(alice: WireClient, door: KafkaDoor) -> None:
    assert await alter(alice, drop=(("carol", 1),)) == {"carol": ErrorCode.none}
    assert await described(alice, "carol") == {"carol": {2: 4_096}}
    assert await alter(alice, drop=(("carol", 1),)) == {"carol": ErrorCode.resource_not_found}
    client = await WireClient.connect(*door.address)
    failed = await log_in(client, "carol", "carol's", SHA_256)
    assert failed.error_code is ErrorCode.sasl_authentication_failed
    client.close()
    assert await alter(alice, drop=(("carol", 2),)) == {"carol": ErrorCode.none}
    assert await described(alice, "carol") == {"carol": ErrorCode.resource_not_found}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (upsertion("x", "pw", iterations=4_095), ErrorCode.unacceptable_credential),
        (upsertion("x", "pw", iterations=16_385), ErrorCode.unacceptable_credential),
        (upsertion("x", "pw", salt=b""), ErrorCode.unacceptable_credential),
        (upsertion("x", "pw", salted_password=b"short"), ErrorCode.unacceptable_credential),
        (upsertion("", "pw"), ErrorCode.unacceptable_credential),
        (upsertion("x", "pw", 0), ErrorCode.unsupported_sasl_mechanism),
        (upsertion("x", "pw", 3), ErrorCode.unsupported_sasl_mechanism),
        (upsertion("__brokers__", "pw"), ErrorCode.invalid_request),
    ],
)
async def test_what_is_refused_of_one_user_is_done_for_others(
    alice: WireClient, asked: dict[str, Any], code: ErrorCode
) -> None:
    told = await alter(alice, put=(asked, upsertion("dave", "pw")))
    assert told == {asked["name"]: code, "dave": ErrorCode.none}
    assert asked["name"] not in await described(alice)


async def test_the_same_credential_twice(alice: WireClient) -> None:
    told = await alter(alice, put=(upsertion("carol", "pw"),), drop=(("carol", 1),))
    assert told == {"carol": ErrorCode.duplicate_resource}
    assert await described(alice, "carol") == {"carol": {1: 4_096, 2: 4_096}}


async def test_it_is_for_administrators(client: WireClient) -> None:
    await log_in(client, "carol", "carol's")
    told = await alter(client, put=(upsertion("carol", "pw"), upsertion("dave", "pw")))
    assert set(told.values()) == {ErrorCode.cluster_authorization_failed}
    answer = await client.call("describe_user_scram_credentials", users=None)
    assert answer.error_code is ErrorCode.cluster_authorization_failed
    assert answer.results == ()
