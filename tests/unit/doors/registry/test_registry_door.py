"""The registry's API where Confluent's client does not look: odd requests, limits, both roots."""

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.doors.registry.door import FIRST_PARTS
from goqueue.doors.registry.routing import ROUTES

pytestmark = pytest.mark.anyio

# The bar is 100 ms. Other processes on the machine may take the processor for a while as well.
STALL_MAX_SECONDS = 0.1
MEGABYTE = 1024 * 1024


def record(*fields: str) -> str:
    made = [{"name": name, "type": "string", "default": ""} for name in fields]
    return json.dumps({"type": "record", "name": "User", "fields": made})


async def register(client: httpx.AsyncClient, subject: str, text: str, **more: Any) -> Any:
    answer = await client.post(f"/subjects/{subject}/versions", json={"schema": text, **more})
    return answer.json()


def error_of(answer: httpx.Response) -> int:
    body = answer.json()
    assert set(body) == {"error_code", "message"}
    code: int = body["error_code"]
    assert answer.status_code == (code if code < 1_000 else code // 100)
    return code


def test_the_door_takes_all_that_it_has_routes_for() -> None:
    assert {path.partition("/")[0] for path in ROUTES} == {"", "v1", *FIRST_PARTS}


async def test_the_same_under_both_roots(client: httpx.AsyncClient) -> None:
    await register(client, "a", record("x"))
    for path in ("/subjects", "/subjects/a/versions/1", "/config", "/mode", "/contexts"):
        assert (await client.get(f"/schemas{path}")).json() == (await client.get(path)).json()
    assert (await client.get("/schemas/schemas/ids/1")).json() == (
        await client.get("/schemas/ids/1/")
    ).json()
    assert len((await client.get("/schemas")).json()) == 1


async def test_other_routes_are_left_alone(client: httpx.AsyncClient) -> None:
    assert (await client.get("/topics")).headers["content-type"] == "application/json"
    assert (await client.get("/")).json()["name"] == "GoQueue"
    assert (await client.get("/nowhere")).json()["error"]["code"] == "unknown_path"
    assert (await client.post("/topics", json={"name": "subjects"})).status_code == 201


async def test_content_types(client: httpx.AsyncClient) -> None:
    first = "application/vnd.schemaregistry.v1+json"
    for accept, kind in (
        ("*/*", first),
        (f"{first}, application/json", first),
        ("application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"),
        ("application/json; q=0.5", "application/json"),
    ):
        for path in ("/subjects", "/subjects/none/versions"):
            answer = await client.get(path, headers={"accept": accept})
            assert answer.headers["content-type"] == kind
    for accept, status in (("text/html", 406), ("text/html, application/*;q=0.1", 200)):
        answer = await client.get("/subjects", headers={"accept": accept})
        assert answer.status_code == status
    root = await client.get("/", headers={"accept": first})
    assert root.json() == {}
    body = json.dumps({"schema": '"string"'}).encode()
    for kind, status in (
        (first, 200),
        ("application/vnd.schemaregistry+json", 200),
        ("application/json; charset=utf-8", 200),
        ("application/octet-stream", 200),
        ("", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
    ):
        headers = {"content-type": kind} if kind else {}
        answer = await client.post("/subjects/a/versions", content=body, headers=headers)
        assert answer.status_code == status, kind
    page = {"origin": "https://elsewhere.example"}
    answer = await client.post("/subjects/a/versions", content=body, headers=page)
    assert answer.status_code == 403


async def test_subjects_with_odd_names(client: httpx.AsyncClient) -> None:
    for name in ("a/b", "ä ö", "100%", "a?b=c&d#e", "..", "a+b", "versions"):
        quoted = "".join(f"%{byte:02X}" for byte in name.encode())
        registered = await register(client, quoted, record("x"))
        assert registered["version"] == 1
        assert (await client.get("/subjects")).json() == [name]
        shown = (await client.get(f"/subjects/{quoted}/versions/latest")).json()
        assert shown["subject"] == name
        assert (await client.delete(f"/subjects/{quoted}")).json() == [1]


async def test_requests_that_make_no_sense(client: httpx.AsyncClient) -> None:
    path = "/subjects/a/versions"

    async def post(content: bytes) -> int:
        kind = {"content-type": "application/json"}
        return error_of(await client.post(path, content=content, headers=kind))

    assert await post(b"") == 400
    assert await post(b"{") == 400
    assert await post(b"\xff") == 400
    assert await post(b"[]") == 422
    assert await post(b'{"schema": {"type": "string"}}') == 422
    assert await post(b"{}") == 42201
    assert await post(b'{"schema": null}') == 42201
    assert await post(b'{"schema": "\\"string\\"", "schemaType": "XSD"}') == 42201
    assert await post(b'{"schema": "\\"string\\"", "id": 4294967296}') == 422
    assert await post(b"[" * 100_000) in (400, 422)
    deep = b'{"schema": "1", "x": ' + b"[" * 100_000
    assert await post(deep) == 400
    assert error_of(await client.get("/subjects/%FF/versions")) == 400
    assert error_of(await client.get("/subjects?limit=many")) == 400
    assert error_of(await client.get(f"/subjects?limit={'9' * 5_000}")) == 400
    assert error_of(await client.get("/schemas/ids/one")) == 404
    assert error_of(await client.get(f"/schemas/ids/{'9' * 5_000}")) == 404
    assert error_of(await client.get("/schemas/guids/none")) == 40403
    assert error_of(await client.get("/subjects/a/b/c")) == 404
    for method, status in (("PUT", 405), ("OPTIONS", 200)):
        answer = await client.request(method, "/subjects/a")
        assert answer.status_code == status
        assert answer.headers["allow"] == "POST, DELETE, OPTIONS"
    assert error_of(await client.put("/subjects")) == 405
    assert error_of(await client.put("/config", json={})) == 42203
    assert error_of(await client.put("/config", json={"validateFields": True, "alias": "x"})) == 422
    assert error_of(await client.put("/mode", json={"mode": ""})) == 42204
    assert error_of(await client.post("/associations", json={})) == 422
    assert error_of(await client.get("/config/a")) == 40408


async def test_importing(client: httpx.AsyncClient) -> None:
    refused = await register(client, "a", record("x"), id=40, version=4)
    assert refused["error_code"] == 42205
    assert (await client.put("/mode/a", json={"mode": "import"})).json() == {"mode": "import"}
    assert (await client.get("/mode/a")).json() == {"mode": "IMPORT"}
    imported = await register(client, "a", record("x"), id=40, version=4)
    assert (imported["id"], imported["version"]) == (40, 4)
    assert (await register(client, "a", record("x"), version=5))["id"] == 40
    assert (await register(client, "a", record("y"), version=5))["error_code"] == 42205
    twin = await register(client, "a", record("x"), id=41)
    assert (twin["id"], twin["version"]) == (41, 5)
    assert (await register(client, "b", record("y")))["id"] == 42
    shown = (await client.get("/schemas/ids/40?fetchMaxId=true&subject=a")).json()
    assert shown["maxId"] == 42
    assert (shown["subject"], shown["version"]) == ("a", 4)
    assert "id" not in shown
    assert (await client.put("/mode/a", json={"mode": None})).json() == {"mode": None}
    assert error_of(await client.get("/mode/a")) == 40409


async def test_what_is_left_out_is_as_before(client: httpx.AsyncClient) -> None:
    metadata = {"properties": {"owner": "me"}}
    first = await register(client, "a", record("x"), metadata=metadata)
    assert await register(client, "a", record("x")) == first
    found = (await client.post("/subjects/a", json={"schema": record("x")})).json()
    assert found["metadata"] == metadata
    assert (await register(client, "a", record("x", "y")))["version"] == 2
    assert (await client.get("/subjects/a/versions/2")).json()["metadata"] == metadata
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL"}]}
    assert (await register(client, "a", "", ruleSet=rules))["version"] == 3
    third = (await client.get("/subjects/a/versions/3")).json()
    assert json.loads(third["schema"]) == json.loads(record("x", "y"))
    assert third["ruleSet"] == rules
    assert (await register(client, "b", ""))["error_code"] == 42201


async def test_an_avro_schema_sent_as_a_whole_is_the_one_with_references(
    client: httpx.AsyncClient,
) -> None:
    inner = {"type": "record", "name": "In", "namespace": "n", "fields": []}
    outer = {"type": "record", "name": "Out", "fields": [{"name": "x", "type": "n.In"}]}
    whole = {**outer, "fields": [{"name": "x", "type": inner}]}
    reference = {"name": "n.In", "subject": "in", "version": 1}
    await register(client, "in", json.dumps(inner))
    await register(client, "in2", json.dumps({**inner, "name": "In2"}))
    known = await register(client, "out", json.dumps(outer), references=[reference])
    assert await register(client, "out", json.dumps(whole)) == known
    found = await client.post("/subjects/out", json={"schema": json.dumps(whole)})
    assert found.json()["references"] == [reference]
    shown = (await client.get(f"/schemas/ids/{known['id']}?format=resolved")).json()
    assert json.loads(shown["schema"]) == whole
    shown = (await client.get(f"/schemas/ids/{known['id']}?format=nonsense")).json()
    assert json.loads(shown["schema"]) == outer
    other = json.dumps({**whole, "doc": "another"})
    assert error_of(await client.post("/subjects/out", json={"schema": other})) == 40403
    both = [reference, {"name": "n.In2", "subject": "in2", "version": 1}]
    normalized = [
        await client.post(
            "/subjects/both/versions?normalize=true",
            json={"schema": json.dumps(outer), "references": references},
        )
        for references in (both, both[::-1])
    ]
    assert normalized[0].json() == normalized[1].json()
    assert (await client.delete("/subjects/out/versions/1")).json() == 1
    assert (await client.get("/subjects/in/versions/1/referencedby")).json() == [4]
    await client.delete("/subjects/both")
    assert (await client.delete("/subjects/in/versions/1")).json() == 1
    assert (await client.get("/subjects/in/versions/1/referencedby")).json() == []


async def test_checks_without_a_version_or_a_schema(client: httpx.AsyncClient) -> None:
    path = "/compatibility/subjects/a/versions"
    body = {"schema": record("x")}
    assert (await client.post(f"{path}/latest", json=body)).json() == {"is_compatible": True}
    assert error_of(await client.post(f"{path}/1", json=body)) == 40402
    bad = {"schema": "no schema"}
    for place in (path, f"{path}/latest"):
        assert error_of(await client.post(place, json=bad)) == 42201
        answer = (await client.post(f"{place}?verbose=true", json=bad)).json()
        assert not answer["is_compatible"]
        assert answer["messages"][0].startswith("Invalid schema")
    await register(client, "a", '"string"')
    answer = (await client.post(f"{path}?verbose=true", json={"schema": '"int"'})).json()
    assert answer["messages"][1:] == [
        "{oldSchemaVersion: 1}",
        "{oldSchema: '\"string\"'}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]


async def test_the_default_context_by_name(client: httpx.AsyncClient) -> None:
    assert (await register(client, ":.:a", record("x")))["version"] == 1
    assert (await client.get("/subjects?subjectPrefix=:.:")).json() == ["a"]
    assert (await client.put("/config/:.:", json={"compatibility": "full"})).json() == {
        "compatibility": "FULL"
    }
    assert (await client.get("/config")).json() == {"compatibilityLevel": "FULL"}


async def test_config_is_changed_in_parts(client: httpx.AsyncClient) -> None:
    set_to = (await client.put("/config/a", json={"compatibilityLevel": "NONE"})).json()
    assert set_to == {"compatibility": "NONE"}
    set_to = (await client.put("/config/a", json={"compatibilityGroup": "v"})).json()
    assert set_to == {"compatibility": "NONE", "compatibilityGroup": "v"}
    set_to = (await client.put("/config/a", json={"compatibilityGroup": None})).json()
    assert set_to == {"compatibility": "NONE"}


async def test_an_alias_stands_for_its_subject(client: httpx.AsyncClient) -> None:
    await register(client, "orders-value", record("x"))
    await client.put("/config/old-name", json={"alias": "orders-value"})
    assert (await client.get("/subjects/old-name/versions")).json() == [1]
    assert (await register(client, "old-name", record("x", "y")))["version"] == 2
    assert (await client.get("/subjects")).json() == ["orders-value"]
    assert (await client.get("/config/old-name")).json() == {"alias": "orders-value"}


async def test_normalizing_by_config(client: httpx.AsyncClient) -> None:
    loose = '{"type":"record","name":"A","fields":[{"type":{"type":"string"},"name":"x"}]}'
    tight = '{"type":"record","name":"A","fields":[{"name":"x","type":"string"}]}'
    await client.put("/config", json={"normalize": True})
    first = await register(client, "a", loose)
    assert await register(client, "a", tight) == first


async def test_lists_in_pages(client: httpx.AsyncClient) -> None:
    for number in range(3):
        await register(client, f"a{number}", record("x"))
        await register(client, f"a{number}", record("x", f"y{number}"))
    await client.delete("/subjects/a0/versions/2")
    assert (await client.get("/subjects?offset=1&limit=1")).json() == ["a1"]
    assert (await client.get("/subjects?subjectPrefix=:*:a2")).json() == ["a2"]

    async def listed(query: str) -> list[tuple[str, int]]:
        found = (await client.get(f"/schemas?{query}")).json()
        return [(each["subject"], each["version"]) for each in found]

    assert await listed("latestOnly=true") == [("a0", 1), ("a1", 2), ("a2", 2)]
    assert await listed("deleted=true&limit=2") == [("a0", 1), ("a0", 2)]
    assert await listed("offset=3&limit=5") == [("a2", 1), ("a2", 2)]
    assert (await client.get("/schemas/ids/1/subjects?limit=2")).json() == ["a0", "a1"]
    stats = (await client.get("/schemas/stats")).json()
    assert (stats["subjects"], stats["versions"], stats["deletedVersions"]) == (3, 5, 1)


# --- limits -------------------------------------------------------------------------------


@asynccontextmanager
async def unstalled() -> AsyncIterator[None]:
    """Fails if the event loop, which this test shares with the broker, is held up meanwhile."""
    longest = 0.0
    is_done = False

    async def watch() -> None:
        nonlocal longest
        while not is_done:
            started, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(0.005)
            late = time.perf_counter() - started - 0.005
            # Only what this process did itself counts.
            longest = max(longest, min(late, time.process_time() - used))

    # A collection of all that earlier tests have left is no stall of ours.
    gc.disable()
    try:
        watching = asyncio.create_task(watch())
        yield
        is_done = True
        await watching
    finally:
        gc.enable()
    assert longest < STALL_MAX_SECONDS


HUGE = {
    "10 MB": json.dumps({"schema": record("x") + " " * 10 * MEGABYTE}),
    "deep": json.dumps({"schema": '{"type":"array","items":' * 40_000}),
    "many fields": json.dumps({"schema": record(*(f"f{n}" for n in range(15_000)))}),
    "escaped": '{"schema": "' + "\\u0020" * (MEGABYTE + 1) + '"}',
}


@pytest.mark.parametrize("schema_type", ["AVRO", "JSON", "PROTOBUF"])
async def test_no_schema_stalls_the_broker(client: httpx.AsyncClient, schema_type: str) -> None:
    await register(client, "a", record("x"))
    for name, content in HUGE.items():
        body = content.removesuffix("}").encode() + f', "schemaType": "{schema_type}"}}'.encode()
        kind = {"content-type": "application/json"}
        async with unstalled():
            answer = await client.post("/subjects/b/versions", content=body, headers=kind)
        assert answer.status_code in (200, 413, 422), name
        if answer.status_code != 200:
            assert error_of(answer) in (413, 42201, 42209), name


async def test_the_worker_can_be_lost(client: httpx.AsyncClient, broker: Node) -> None:
    await broker.schemas.worker.close()
    answer = await client.post("/subjects/a/versions", json={"schema": record("x")})
    assert error_of(answer) == 50001
    assert (await client.get("/subjects")).json() == []
