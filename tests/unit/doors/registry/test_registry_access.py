"""Every route with a caller who may do nothing: what its needs say is what happens."""

import json

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.doors.registry.routing import ROUTES, Route
from goqueue.model.rights import Verb
from goqueue.service.needs import Refused
from tests.rules import Granted, subject
from tests.unit.doors.registry.conftest import opened_door

pytestmark = pytest.mark.anyio

SECRET = "canary"
TEXT = json.dumps({"type": "record", "name": "canary", "fields": []})
BODIES = {
    "set_config": {"compatibility": "NONE"},
    "set_mode": {"mode": "READONLY"},
    "look_up": {"schema": TEXT},
    "register": {"schema": TEXT},
    "check_all": {"schema": TEXT},
    "check_version": {"schema": TEXT},
}


def address(pattern: str, guid: str) -> str:
    named = {"subject": SECRET, "version": "1", "id": "1", "guid": guid, "resource": "r"}
    return "/" + pattern.format(**named, namespace="n", context=f".{SECRET}")


async def ask(client: httpx.AsyncClient, method: str, path: str, route: Route) -> httpx.Response:
    body = BODIES.get(route.handler.__name__)
    headers = {"accept": "application/vnd.schemaregistry.v1+json"}
    return await client.request(method, path, json=body, headers=headers)


async def state_of(client: httpx.AsyncClient) -> list[str]:
    paths = ("/schemas?deleted=true", f"/config/{SECRET}", "/config", "/mode", "/schemas/stats")
    return [(await client.get(path)).text for path in paths]


async def test_a_caller_without_rights(broker: Node) -> None:
    async with opened_door(broker) as client:
        await client.post(f"/subjects/{SECRET}/versions", json={"schema": TEXT})
        await client.put(f"/config/{SECRET}", json={"normalize": True})
        guid = (await client.get("/schemas/ids/1")).json()["guid"]
        before = await state_of(client)
    async with opened_door(broker, Granted()) as client:
        for pattern, methods in ROUTES.items():
            for method, route in methods.items():
                answer = await ask(client, method, address(pattern, guid), route)
                about = (method, pattern, answer.text)
                if any(need.refused is Refused.WHOLE for need in route.needs):
                    assert answer.status_code == 403, about
                    assert answer.json()["error_code"] == 40301, about
                elif route.needs:
                    # The default context is there for everyone.
                    empty = answer.status_code == 200 and answer.json() in ([], ["."])
                    assert empty or answer.json()["error_code"] == 40403, about
                assert "fields" not in answer.text, about
    async with opened_door(broker) as client:
        assert await state_of(client) == before


async def test_one_right_opens_what_it_is_for(broker: Node) -> None:
    async with opened_door(broker) as client:
        await client.post(f"/subjects/{SECRET}/versions", json={"schema": TEXT})
    async with opened_door(broker, Granted(subject(SECRET, Verb.READ))) as client:
        assert (await client.get("/subjects")).json() == [SECRET]
        assert (await client.get("/schemas/ids/1")).json()["schema"] == TEXT.replace(" ", "")
        assert (await client.delete(f"/subjects/{SECRET}")).status_code == 403
