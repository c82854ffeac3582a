"""What hostile clients of the schema registry send."""

import json
import random
from typing import Any, Final

from goqueue.doors.registry.routing import ROUTES
from tests.hostile.bursts import Burst, in_turn
from tests.hostile.web_requests import burst_of, deep, request

_KIND: Final = "application/vnd.schemaregistry.v1+json"
_PARTS: Final = {
    "subject": ("hostile", "hostile-1", "nothing", ":.ctx:hostile", "%2F", "s" * 300, "%00"),
    "version": ("1", "latest", "-1", "9" * 20, "x"),
    "id": ("1", "2", "0", "-5", "9" * 20),
    "guid": ("0" * 36, "x"),
}
_RECORD: Final = '{"type": "record", "name": "R%d", "fields": [{"name": "f", "type": "int"}]}'
# Small ones are looked at on every request, so they must cost little.
_SCHEMAS: Final = (
    '"string"',
    _RECORD % 1,
    _RECORD % 2,
    '{"type": "nothing"}',
    "{",
    "",
    "[" * 50,
)


class RegistryFrames:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._requests = [
            self._filled(method, path)
            for path, methods in ROUTES.items()
            for method in methods
            for _ in range(8)
        ]
        costly = [_registered(kind, text) for kind, text in hostile_schemas()]
        costly += [
            request("POST", "/subjects/hostile/versions", deep(100_000), _KIND),
            request("GET", "/schemas?latestOnly=false"),
            request("GET", "/subjects?deleted=true"),
        ]
        self._costly = in_turn(chance, costly)

    def burst(self) -> Burst:
        return burst_of(self._chance, self._requests)

    def costly(self) -> Burst:
        return Burst(next(self._costly), 1)

    def _filled(self, method: str, path: str) -> bytes:
        chance = self._chance
        parts = [
            chance.choice(_PARTS.get(part.strip("{}"), ("hostile",)))
            if part.startswith("{")
            else part
            for part in path.split("/")
        ]
        body: Any = {"schema": chance.choice(_SCHEMAS)}
        if chance.random() < 0.3:
            body["references"] = [{"name": "R", "subject": "hostile", "version": 1}] * 3
        if chance.random() < 0.2:
            body["schemaType"] = chance.choice(("AVRO", "JSON", "PROTOBUF", "XML"))
        if path.startswith(("config", "mode")):
            # What holds for everybody stays as it is.
            parts = [*parts[:1], "hostile"] if method != "GET" else parts
            body = {"compatibility": chance.choice(("NONE", "FULL", "x")), "mode": "READONLY"}
        text = json.dumps(body).encode() if method in ("POST", "PUT") else b""
        return request(method, "/" + "/".join(parts), text, _KIND)


def _registered(kind: str, text: str) -> bytes:
    body = json.dumps({"schemaType": kind, "schema": text}).encode()
    return request("POST", "/subjects/hostile-costly/versions", body, _KIND)


def hostile_schemas() -> list[tuple[str, str]]:
    itself = {"$ref": "#/$defs/a"}
    proto3 = 'syntax = "proto3";'
    avro: list[Any] = [
        {"type": "enum", "name": "E", "symbols": [f"S{n}" for n in range(20_000)]},
        {"type": "record", "name": "Wide", "fields": _fields(5_000)},
    ]
    json_schema: list[Any] = [
        {"$defs": {"a": {"anyOf": [itself, itself]}}, **itself},
        {"type": "string", "pattern": "(a+)+$" * 50},
        {"type": "string", "pattern": "(?:a?){1000}a{1000}"},
        {"enum": list(range(50_000))},
        {"properties": {f"p{n}": {"type": "string"} for n in range(10_000)}},
    ]
    many = "".join(f"int32 f{n} = {n};" for n in range(1, 15_000))
    return [
        ("AVRO", _nested(400, '{"type": "array", "items": %s}', '"int"')),
        *(("AVRO", json.dumps(schema)) for schema in avro),
        ("JSON", _nested(400, '{"properties": {"a": %s}}', "{}")),
        *(("JSON", json.dumps(schema)) for schema in json_schema),
        ("PROTOBUF", proto3 + "message M {" * 90 + "}" * 90),
        ("PROTOBUF", proto3 + "message M {" + many + "}"),
        ("PROTOBUF", proto3 + "/*" * 50_000),
    ]


def _nested(depth: int, around: str, inner: str) -> str:
    for _ in range(depth):
        inner = around % inner
    return inner


def _fields(count: int) -> list[Any]:
    return [{"name": f"f{n}", "type": ["null", "string"]} for n in range(count)]
