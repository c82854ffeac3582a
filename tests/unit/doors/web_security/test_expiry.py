"""Requests that wait when what they logged in by ends by itself: refused, and given nothing."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config
from goqueue.model.security.keys import TOKEN_PREFIX, KeyKind
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.allowed_waits import AllowedWaits
from tests.jwt_issuer import AUDIENCE, ISSUER, key_set, public, rsa_key, token
from tests.unit.doors.kafka.secured import Clock
from tests.unit.doors.web_security.conftest import ADMIN, MAKER, refused_while_waiting

pytestmark = pytest.mark.anyio

POLL = "/groups/workers/poll?topic=orders&timeout=30000"
KEY = rsa_key()
HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> Clock:
    return Clock(time.time_ns() // 1_000_000)


@pytest.fixture
async def broker(tmp_path: Path, clock: Clock) -> AsyncIterator[Node]:
    path = tmp_path / "keys.json"
    path.write_text(key_set(public(KEY, "one")))
    texts = {
        "data.dir": str(tmp_path / "data"),
        "security.enabled": "true",
        "super.users": "User:maker",
        "oauth.jwks.file": str(path),
        "oauth.issuer": ISSUER,
        "oauth.audience": AUDIENCE,
    }
    opened = await Node.open(broker_config(texts), clock_ms=clock)
    yield opened
    await opened.close()


async def by_key(service: BrokerService, _: httpx.AsyncClient) -> dict[str, str]:
    made = await service.keys.create(MAKER, "root", KeyKind.API, expires_in_ms=HOUR_MS)
    return {"authorization": f"Bearer {TOKEN_PREFIX}{made.key.id}_{made.secret}"}


async def by_token(service: BrokerService, _: httpx.AsyncClient) -> dict[str, str]:
    await service.users.set_federated(MAKER, "root", True)
    return {"authorization": f"Bearer {token(KEY, 'one', sub='root')}"}


async def by_session(_: BrokerService, client: httpx.AsyncClient) -> dict[str, str]:
    begun = await client.post("/session", auth=ADMIN)
    client.cookies.clear()
    return {
        "cookie": begun.headers["set-cookie"].partition(";")[0],
        "sec-fetch-site": "same-origin",
    }


@pytest.mark.parametrize("log_in", [by_key, by_token, by_session])
async def test_a_long_poll_ends_with_its_log_in(
    admin: httpx.AsyncClient,
    nobody: httpx.AsyncClient,
    service: BrokerService,
    waits: AllowedWaits,
    clock: Clock,
    log_in: Any,
) -> None:
    (await admin.post("/topics", json={"name": "orders", "partitions": 1})).raise_for_status()
    headers = await log_in(service, nobody)

    async def time_passes() -> None:
        clock.now_ms += 24 * HOUR_MS

    refused = await refused_while_waiting(
        nobody.get(POLL, headers=headers), lambda: bool(waits._waiting), time_passes
    )
    assert refused.status_code == 401
    assert "has ended" in refused.text
