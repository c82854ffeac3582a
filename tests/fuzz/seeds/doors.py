"""Requests to a whole broker: those of the tables of operations, routes and actions."""

import json
import struct
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final, cast
from urllib.parse import urlencode

from tests.access.canaries import World
from tests.access.web_requests import HTTP, REGISTRY, SQS, WebRequest
from tests.fuzz.seeds import kafka_frames
from tests.fuzz.seeds.sqs import flat

_RECEIPT: Final = "canary-topic:0:7:1:00000000deadbeef"
_WORLD: Final = cast(
    World,
    SimpleNamespace(
        receipt=_RECEIPT,
        sqs_receipt=_RECEIPT,
        delayed_id="canary-topic:0:7",
        producer={"producerId": 7, "epoch": 0, "transactionalId": "canary-transaction"},
        schema_id=1,
        schema_guid="00000000-0000-0000-0000-000000000001",
        trace_id="0" * 31 + "1",
        move_task="eyJ0YXNrIjogMX0=",
    ),
)


def kafka_streams() -> Iterator[tuple[str, bytes]]:
    for label, frame in kafka_frames.inputs():
        yield label, stream_of(frame)


def stream_of(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def web_streams() -> Iterator[tuple[str, bytes]]:
    for table, prefix in ((HTTP, "http"), (REGISTRY, "registry")):
        for (method, route), makes in table.items():
            for make in makes:
                yield f"{prefix} {method} {route}".replace("/", "."), _request(method, make(_WORLD))
    for action, fields in SQS.items():
        for each in fields:
            body = dict(each(_WORLD))
            yield f"sqs {action} json", _sqs_json(action, body)
            yield f"sqs {action} form", _sqs_form(action, body)


def _request(method: str, request: WebRequest) -> bytes:
    body = b"" if request.body is None else json.dumps(request.body).encode()
    return _stream(method, request.path, {"Content-Type": "application/json"} if body else {}, body)


def _sqs_json(action: str, fields: Mapping[str, Any]) -> bytes:
    headers = {
        "X-Amz-Target": f"AmazonSQS.{action}",
        "Content-Type": "application/x-amz-json-1.0",
    }
    return _stream("POST", "/", headers, json.dumps(fields).encode())


def _sqs_form(action: str, fields: Mapping[str, Any]) -> bytes:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return _stream(
        "POST", "/", headers, urlencode({"Action": action, **flat(action, fields)}).encode()
    )


def _stream(method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body
