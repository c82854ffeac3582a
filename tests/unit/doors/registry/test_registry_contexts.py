"""Contexts as Confluent's registry has them: qualified subjects, paths under /contexts."""

import json
from typing import Any

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.model.rights import Verb
from tests.rules import Granted, subject
from tests.unit.doors.registry.conftest import opened_door

pytestmark = pytest.mark.anyio


def record(name: str) -> dict[str, Any]:
    return {"schema": json.dumps({"type": "record", "name": name, "fields": []})}


async def register(client: httpx.AsyncClient, subject: str, name: str) -> Any:
    answer = await client.post(f"/subjects/{subject}/versions", json=record(name))
    return answer.json()


async def got(client: httpx.AsyncClient, path: str) -> Any:
    return (await client.get(path)).json()


async def test_every_context_numbers_its_own(client: httpx.AsyncClient) -> None:
    assert (await register(client, "a", "In_default"))["id"] == 1
    assert (await register(client, ":.ctx:a", "In_ctx"))["id"] == 1
    assert (await register(client, ":.ctx:b", "Other"))["id"] == 2
    assert (await register(client, ":.ctx:c", "In_ctx"))["id"] == 1
    assert await got(client, "/contexts") == [".", ".ctx"]
    assert await got(client, "/contexts?offset=1&limit=5") == [".ctx"]
    assert "In_default" in (await got(client, "/schemas/ids/1"))["schema"]
    for path in ("/schemas/ids/1?subject=:.ctx:", "/contexts/.ctx/schemas/ids/1"):
        assert "In_ctx" in (await got(client, path))["schema"]
        assert "In_ctx" in (await client.get(path.replace("ids/1", "ids/1/schema"))).text
    assert (await got(client, "/schemas/ids/2"))["error_code"] == 40403
    assert (await got(client, "/contexts/:.ctx:/schemas/ids/2?fetchMaxId=true"))["maxId"] == 2
    assert (await got(client, "/schemas/ids/1?fetchMaxId=true"))["maxId"] == 1
    uses = await got(client, "/contexts/ctx/schemas/ids/1/subjects")
    assert uses == [":.ctx:a", ":.ctx:c"]
    versions = await got(client, "/schemas/ids/1/versions?subject=:.ctx:a")
    assert versions == [{"subject": ":.ctx:a", "version": 1}]
    shown = await got(client, "/subjects/:.ctx:a/versions/1")
    assert (shown["subject"], shown["id"]) == (":.ctx:a", 1)
    stats = await got(client, "/schemas/stats")
    assert (stats["contexts"], stats["subjects"], stats["highestId"]) == (2, 4, 1)


async def test_one_guid_in_several_contexts(client: httpx.AsyncClient) -> None:
    await register(client, ":.ctx:other", "Other")
    first = await register(client, ":.ctx:a", "Same")
    assert first["id"] == 2
    assert (await register(client, "a", "Same"))["guid"] == first["guid"]
    ids = await got(client, f"/schemas/guids/{first['guid']}/ids")
    assert ids == [{"context": ".", "id": 1}, {"context": ".ctx", "id": 2}]
    assert "Same" in (await got(client, f"/schemas/guids/{first['guid']}"))["schema"]


async def test_which_subjects_are_listed(client: httpx.AsyncClient) -> None:
    for name in ("my-a", "other", ":.ctx:my-b", ":.ctx:other", ":.ctx2:my-c"):
        await register(client, name, "X")
    everything = [":.ctx2:my-c", ":.ctx:my-b", ":.ctx:other", "my-a", "other"]
    for query, wanted in {
        "": everything,
        "?subjectPrefix=:*:": everything,
        "?subjectPrefix=:*:my": [":.ctx2:my-c", ":.ctx:my-b", "my-a"],
        "?subjectPrefix=": ["my-a", "other"],
        "?subjectPrefix=:.:": ["my-a", "other"],
        "?subjectPrefix=my-": ["my-a"],
        "?subjectPrefix=:.ctx:": [":.ctx:my-b", ":.ctx:other"],
        "?subjectPrefix=:.ctx:my": [":.ctx:my-b"],
    }.items():
        assert await got(client, f"/subjects{query}") == wanted, query
        listed = await got(client, f"/schemas{query}")
        assert [each["subject"] for each in listed] == wanted, query
    for query, wanted in {
        "": [":.ctx:my-b", ":.ctx:other"],
        "?subjectPrefix=my": [":.ctx:my-b"],
        "?subjectPrefix=:.ctx2:": [":.ctx2:my-c"],
        "?subjectPrefix=:*:": everything,
    }.items():
        assert await got(client, f"/contexts/.ctx/subjects{query}") == wanted, query
    assert await got(client, "/contexts/:.:/subjects") == everything


async def test_every_route_under_a_context(client: httpx.AsyncClient) -> None:
    """Also under the registry's own prefix, and with contexts in both."""
    base = "/contexts/.ctx"
    made = await client.post(f"{base}/subjects/a/versions", json=record("X"))
    assert made.json()["version"] == 1
    assert (await client.post(f"{base}/subjects/a", json=record("X"))).json()["subject"] == (
        ":.ctx:a"
    )
    assert await got(client, f"{base}/subjects/a/versions") == [1]
    assert await got(client, "/schemas/contexts/.ctx/subjects/a/versions") == [1]
    assert await got(client, "/contexts/.ctx/schemas/subjects/a/versions") == [1]
    assert await got(client, f"{base}/subjects/:.ctx:a/versions") == [1]
    assert await got(client, f"{base}/contexts") == [".", ".ctx"]
    assert await got(client, f"{base}/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]
    assert (await client.get(f"{base}/v1/metadata/id")).status_code == 200
    place = f"{base}/compatibility/subjects/a/versions/latest"
    assert (await client.post(place, json=record("X"))).json() == {"is_compatible": True}
    assert (await client.put(f"{base}/config", json={"compatibility": "FULL"})).status_code == 200
    assert await got(client, "/config/:.ctx:") == {"compatibilityLevel": "FULL"}
    assert await got(client, "/config") == {"compatibilityLevel": "BACKWARD"}
    assert (await client.put(f"{base}/mode/a", json={"mode": "READONLY"})).status_code == 200
    assert await got(client, "/mode/:.ctx:a") == {"mode": "READONLY"}
    assert (await client.delete(f"{base}/mode/a")).status_code == 200
    assert (await client.delete(f"{base}/subjects/a")).json() == [1]
    assert (await client.get("/contexts/a:b/subjects")).json()["error_code"] == 42208
    assert (await client.get(base)).status_code == 405


async def test_settings_of_a_context_and_of_all(client: httpx.AsyncClient) -> None:
    async def counts(scope: str) -> str:
        found = await got(client, f"/config/{scope}?defaultToGlobal=true")
        return str(found["compatibilityLevel"])

    await client.put("/config", json={"compatibility": "NONE"})
    assert (await counts("a"), await counts(":.ctx:a")) == ("NONE", "BACKWARD")
    await client.put("/config/:.__GLOBAL:", json={"compatibility": "FORWARD"})
    assert (await counts("a"), await counts(":.ctx:a")) == ("NONE", "FORWARD")
    assert await got(client, "/config/:.__GLOBAL:") == {"compatibilityLevel": "FORWARD"}
    await client.put("/config/:.ctx:", json={"compatibility": "FULL"})
    await client.put("/config/:.ctx:b", json={"normalize": True})
    assert (await counts(":.ctx:a"), await counts(":.ctx:b")) == ("FULL", "FULL")
    await client.delete("/config")
    assert await counts("a") == "FORWARD"
    assert (await got(client, "/config/:.ctx:a"))["error_code"] == 40408
    refused = await client.put("/config/:.__GLOBAL:a", json={"compatibility": "FULL"})
    assert refused.json()["error_code"] == 42208
    # Settings alone make no context.
    assert await got(client, "/contexts") == ["."]


async def test_modes_of_a_context_and_of_all(client: httpx.AsyncClient) -> None:
    await register(client, "a", "X")
    await client.put("/mode/:.ctx:", json={"mode": "READONLY"})
    assert (await register(client, ":.ctx:a", "X"))["error_code"] == 42205
    assert (await register(client, ":.other:a", "X"))["id"] == 1
    assert (await got(client, "/mode/:.ctx:a"))["error_code"] == 40409
    assert await got(client, "/mode/:.ctx:a?defaultToGlobal=true") == {"mode": "READONLY"}
    await client.put("/mode/:.ctx:", json={"mode": "IMPORT"})
    body = {**record("X"), "id": 77, "version": 3}
    imported = (await client.post("/subjects/:.ctx:a/versions", json=body)).json()
    assert (imported["id"], imported["version"]) == (77, 3)
    refused = await client.put("/mode/:.other:", json={"mode": "IMPORT"})
    assert refused.json()["error_code"] == 42205
    await client.put("/mode/:.__GLOBAL:", json={"mode": "READONLY_OVERRIDE"})
    for name in ("a", ":.ctx:b", ":.other:a"):
        assert (await register(client, name, "Y"))["error_code"] == 42205


async def test_references_are_in_the_same_context(client: httpx.AsyncClient) -> None:
    await register(client, "base", "Base")
    holder = {"type": "record", "name": "Holder", "fields": [{"name": "x", "type": "Base"}]}

    def referring(subject: str) -> dict[str, Any]:
        reference = {"name": "Base", "subject": subject, "version": 1}
        return {"schema": json.dumps(holder), "references": [reference]}

    place = "/subjects/:.ctx:holder/versions"
    assert (await client.post(place, json=referring("base"))).json()["error_code"] == 42201
    assert (await client.post(place, json=referring(":.:base"))).json()["version"] == 1
    assert await got(client, "/subjects/base/versions/1/referencedby") == [1]
    assert (await client.delete("/subjects/base")).json()["error_code"] == 42206
    await register(client, ":.ctx:base", "Base")
    assert (await client.post(place, json=referring("base"))).json()["version"] == 2
    shown = await got(client, "/subjects/:.ctx:holder/versions/2")
    assert shown["references"][0]["subject"] == "base"
    shown = await got(client, "/subjects/:.ctx:holder/versions/2?referenceFormat=qualified")
    assert shown["references"][0]["subject"] == ":.ctx:base"
    by_id = f"/contexts/.ctx/schemas/ids/{shown['id']}?referenceFormat=qualified"
    assert (await got(client, by_id))["references"][0]["subject"] == ":.ctx:base"
    assert (await client.delete("/subjects/:.ctx:base")).json()["error_code"] == 42206
    found = await client.post("/subjects/:.ctx:holder", json=referring("base"))
    assert found.json()["version"] == 2


async def test_who_knows_no_contexts_finds_what_is_in_one(client: httpx.AsyncClient) -> None:
    """Readers of a topic name its subject alone, and the id that stands in the message."""
    await register(client, "first", "First")
    await register(client, ":.ctx:orders-value", "Order")
    assert "First" in (await got(client, "/schemas/ids/1"))["schema"]
    shown = await got(client, "/schemas/ids/1?subject=orders-value")
    assert "Order" in shown["schema"]
    assert shown["subject"] == ":.ctx:orders-value"
    assert "First" in (await got(client, "/schemas/ids/1?subject=unknown"))["schema"]
    assert (await got(client, "/subjects/orders-value/versions/latest"))["subject"] == (
        ":.ctx:orders-value"
    )
    found = await client.post("/subjects/orders-value", json=record("Order"))
    assert found.json()["subject"] == ":.ctx:orders-value"
    assert (await got(client, "/subjects/orders-value/versions/2"))["error_code"] == 40401
    # The default context's own comes first.
    await register(client, "orders-value", "Mine")
    assert "Mine" in (await got(client, "/subjects/orders-value/versions/1"))["schema"]


async def test_an_alias_is_in_the_same_context(client: httpx.AsyncClient) -> None:
    await register(client, ":.ctx:orders-value", "Order")
    await client.put("/config/:.ctx:old", json={"alias": "orders-value"})
    assert (await got(client, "/contexts/.ctx/subjects/old/versions/1"))["subject"] == (
        ":.ctx:orders-value"
    )
    await client.put("/config/old", json={"alias": ":.ctx:orders-value"})
    assert await got(client, "/subjects/old/versions") == [1]


async def test_deleting_a_context(client: httpx.AsyncClient) -> None:
    await register(client, ":.ctx:a", "X")
    await client.put("/config/:.ctx:", json={"compatibility": "NONE"})
    await client.put("/mode/:.ctx:later", json={"mode": "READWRITE"})
    for _ in range(2):
        refused = await client.delete("/contexts/.ctx")
        assert (refused.status_code, refused.json()["error_code"]) == (422, 42211)
        await client.delete("/subjects/:.ctx:a")
    await client.delete("/subjects/:.ctx:a?permanent=true")
    assert await got(client, "/contexts") == [".", ".ctx"]
    # While it is there, no id is given twice.
    assert (await register(client, ":.ctx:b", "Y"))["id"] == 2
    await client.delete("/subjects/:.ctx:b")
    await client.delete("/subjects/:.ctx:b?permanent=true")
    gone = await client.delete("/contexts/.ctx")
    assert (gone.status_code, gone.content) == (204, b"")
    assert await got(client, "/contexts") == ["."]
    assert (await got(client, "/config/:.ctx:"))["error_code"] == 40408
    assert (await client.delete("/contexts/:.ctx:")).json()["error_code"] == 40401
    assert (await client.delete("/contexts/:.:")).json()["error_code"] == 42205
    assert (await register(client, ":.ctx:a", "X"))["id"] == 1


async def test_bad_names(client: httpx.AsyncClient) -> None:
    for name in (":.ctx:", ":.__GLOBAL:a", ":*:a", f":.{'x' * 255}:a", ":.::.ctx:a", ":.ctx"):
        assert (await register(client, name, "X"))["error_code"] == 42208, name
    assert await got(client, "/contexts") == ["."]


async def test_rights_know_subjects_with_their_contexts(broker: Node) -> None:
    async with opened_door(broker) as client:
        await register(client, "a", "Secret")
        await register(client, ":.ctx:a", "Mine")
        await register(client, ":.other:a", "Secret")
    async with opened_door(broker, Granted(subject(":.ctx:a", Verb.READ))) as client:
        assert await got(client, "/contexts") == [".", ".ctx"]
        assert await got(client, "/subjects") == [":.ctx:a"]
        assert (await client.get("/subjects/a/versions/1")).status_code == 403
        assert (await client.get("/contexts/.other/subjects/a/versions/1")).status_code == 403
        assert "Mine" in (await got(client, "/contexts/.ctx/schemas/ids/1"))["schema"]
        assert (await got(client, "/schemas/ids/1"))["error_code"] == 40403
        assert (await client.delete("/contexts/.ctx")).status_code == 403
        assert (await client.get("/config/:.ctx:")).status_code == 403
    # Whoever may read a subject of the default context is not shown its namesakes elsewhere.
    async with opened_door(broker, Granted(subject("b", Verb.READ))) as client:
        assert (await got(client, "/subjects/b/versions/1"))["error_code"] == 40401
    everything = [subject(":.__GLOBAL:", verb) for verb in Verb]
    async with opened_door(broker, Granted(*everything)) as client:
        body = {"compatibility": "NONE"}
        assert (await client.put("/config/:.__GLOBAL:", json=body)).status_code == 403
