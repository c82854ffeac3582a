"""API keys: made, shown once, let in by, ended."""

import asyncio

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.broker.security import keys as key_limits
from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.errors import PolicyViolation
from goqueue.model.security.errors import UnknownKey
from goqueue.model.security.keys import KeyKind
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.allowed_waits import AllowedWaits
from tests.unit.doors.web_security.conftest import ALICE, MAKER, refused_while_waiting

pytestmark = pytest.mark.anyio


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def made_key(
    client: httpx.AsyncClient, user: str = "alice", **body: object
) -> dict[str, str]:
    answer = await client.post(f"/users/{user}/keys", json={"kind": "api", **body})
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    made: dict[str, str] = answer.json()
    return made


async def test_a_key_lets_in_as_its_user(
    admin: httpx.AsyncClient, nobody: httpx.AsyncClient, broker: Node
) -> None:
    made = await made_key(admin, label="nightly")
    assert made["token"] == f"gqk_{made['id']}_{made['secret']}"
    answer = await nobody.get("/whoami", headers=bearer(made["token"]))
    assert answer.json()["principal"] == "User:alice"
    # The scheme's name may be written in any case (RFC 9110, 11.1).
    headers = {"authorization": f"bearer {made['token']}"}
    assert (await nobody.get("/whoami", headers=headers)).status_code == 200
    for wrong in (made["token"][:-1] + "x", f"gqk_{made['id']}_", f"gqk_{made['id']}"):
        assert (await nobody.get("/whoami", headers=bearer(wrong))).status_code == 401
    listed = (await admin.get("/keys", params={"user": "alice"})).json()["keys"]
    assert [each["label"] for each in listed] == ["nightly"]
    assert "secret" not in listed[0]
    assert made["secret"] not in str(broker.security.image)
    assert made["secret"].encode() not in broker.security.image.keys[made["id"]].digest


async def test_a_key_that_was_removed_lets_nobody_in(
    admin: httpx.AsyncClient, nobody: httpx.AsyncClient
) -> None:
    made = await made_key(admin)
    assert (await admin.delete(f"/keys/{made['id']}")).status_code == 204
    assert (await nobody.get("/whoami", headers=bearer(made["token"]))).status_code == 401
    assert (await admin.delete(f"/keys/{made['id']}")).status_code == 404


async def test_a_key_ends_with_its_time(admin: httpx.AsyncClient, broker: Node) -> None:
    made = await made_key(admin, expiresIn=60_000)
    assert int(made["expiresMs"]) == int(made["createdMs"]) + 60_000
    keys = broker.security.keys
    assert keys.holder(made["id"], KeyKind.API) is not None
    keys._clock_ms = lambda: int(made["expiresMs"])
    assert keys.holder(made["id"], KeyKind.API) is None


async def test_a_key_ends_with_its_user_and_is_none_of_the_next_one(
    admin: httpx.AsyncClient, nobody: httpx.AsyncClient, service: BrokerService, broker: Node
) -> None:
    made = await made_key(admin)
    await service.users.delete(MAKER, "alice")
    assert made["id"] not in broker.security.image.keys
    assert (await nobody.get("/whoami", headers=bearer(made["token"]))).status_code == 401
    await service.users.create(MAKER, *ALICE)
    assert (await nobody.get("/whoami", headers=bearer(made["token"]))).status_code == 401


async def test_everyone_has_its_own_keys_in_hand(
    admin: httpx.AsyncClient, nobody: httpx.AsyncClient
) -> None:
    of_root = await made_key(admin, "root")
    mine = (await nobody.post("/users/alice/keys", json={"kind": "api"}, auth=ALICE)).json()
    listed = (await nobody.get("/keys", auth=ALICE)).json()["keys"]
    assert [each["id"] for each in listed] == [mine["id"]]
    assert len((await admin.get("/keys")).json()["keys"]) == 2
    others = await nobody.post("/users/root/keys", json={"kind": "api"}, auth=ALICE)
    assert others.status_code == 403
    # Whether it is there is not told.
    for other in (of_root["id"], "none"):
        assert (await nobody.delete(f"/keys/{other}", auth=ALICE)).status_code == 403
    assert (await nobody.delete(f"/keys/{mine['id']}", auth=ALICE)).status_code == 204


async def test_bad_keys_are_refused_by_field(admin: httpx.AsyncClient) -> None:
    for body, field in (
        ({"kind": "ssh"}, "kind"),
        ({"kind": "api", "label": "x" * 201}, "label"),
        ({"kind": "api", "expiresIn": 0}, "expiresIn"),
        ({"kind": "api", "expires": 5}, "expires"),
    ):
        answer = await admin.post("/users/alice/keys", json=body)
        assert answer.status_code == 400
        assert field in answer.json()["error"]["message"]
    assert (await admin.post("/users/none/keys", json={"kind": "api"})).status_code == 404


async def test_a_user_has_so_many_keys(
    service: BrokerService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_limits, "KEYS_PER_USER_MAX", 2)
    for _ in range(2):
        await service.keys.create(MAKER, "alice", KeyKind.SQS)
    with pytest.raises(PolicyViolation, match="2 keys already"):
        await service.keys.create(MAKER, "alice", KeyKind.API)
    monkeypatch.setattr(key_limits, "KEYS_MAX", 2)
    with pytest.raises(PolicyViolation, match="there can be 2 keys"):
        await service.keys.create(MAKER, "root", KeyKind.API)


async def test_a_tenant_knows_its_own_keys_only(service: BrokerService) -> None:
    await service.tenants.create(MAKER, "acme", {})
    await service.users.create(MAKER, "boss", "secret", tenant="acme", is_admin=True)
    boss = Caller(principal=Principal("User", "boss", "acme"), door=Door.HTTP)
    other = await service.keys.create(MAKER, "alice", KeyKind.API)
    own = await service.keys.create(boss, "boss", KeyKind.API)
    assert [each.id for each in await service.keys.keys(boss)] == [own.key.id]
    with pytest.raises(UnknownKey):
        await service.keys.delete(boss, other.key.id)


async def test_a_long_poll_is_refused_when_its_key_is_removed(
    admin: httpx.AsyncClient, nobody: httpx.AsyncClient, waits: AllowedWaits
) -> None:
    (await admin.post("/topics", json={"name": "orders", "partitions": 1})).raise_for_status()
    rule = {"resource": "topic", "name": "*", "principal": "User:alice", "operation": "read"}
    (await admin.post("/rules", json={"rules": [rule]})).raise_for_status()
    made = await made_key(admin)
    refused = await refused_while_waiting(
        nobody.get(
            "/topics/orders/partitions/0/messages?offset=0&maxWait=30000",
            headers=bearer(made["token"]),
        ),
        lambda: bool(waits._waiting),
        lambda: admin.delete(f"/keys/{made['id']}"),
    )
    assert refused.status_code == 401
    assert "ended meanwhile" in refused.json()["error"]["message"]
    await asyncio.sleep(0)
    assert not waits._waiting
