"""Every action in both protocols, from the requests that the tests of rights make."""

import json
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final, cast
from urllib.parse import urlencode

from goqueue.doors.sqs.query_protocol import _shapes
from tests.access.canaries import World
from tests.access.web_requests import SQS

_RECEIPT: Final = "canary-topic:0:7:1:00000000deadbeef"
_WORLD: Final = cast(
    World, SimpleNamespace(sqs_receipt=_RECEIPT, move_task="eyJ0YXNrIjogMX0=", receipt=_RECEIPT)
)
_ATTRIBUTES: Final = {
    "text": {"DataType": "String", "StringValue": "ä"},
    "number": {"DataType": "Number.int", "StringValue": "-1.5e3"},
    "bytes": {"DataType": "Binary", "BinaryValue": "AAEC"},
}
_MORE: Final[Mapping[str, tuple[dict[str, Any], ...]]] = {
    "SendMessage": (
        {"QueueUrl": "q", "MessageBody": "x", "MessageAttributes": _ATTRIBUTES, "DelaySeconds": 9},
    ),
    "SendMessageBatch": (
        {
            "QueueUrl": "http://localhost:8080/000000000000/q",
            "Entries": [
                {"Id": "a", "MessageBody": "x", "MessageAttributes": _ATTRIBUTES},
                {"Id": "b", "MessageBody": "y", "MessageGroupId": "g"},
            ],
        },
    ),
    "SetQueueAttributes": (
        {
            "QueueUrl": "q",
            "Attributes": {
                "Policy": '{"Version": "2012-10-17", "Statement": [{"Sid": "a"}]}',
                "RedriveAllowPolicy": '{"redrivePermission": "denyAll"}',
                "DelaySeconds": "5",
            },
        },
    ),
}


def inputs() -> Iterator[tuple[str, bytes]]:
    """As `sqs_requests` takes them."""
    for action, makes in SQS.items():
        fields = [dict(make(_WORLD)) for make in makes] + list(_MORE.get(action, ()))
        for each in fields:
            yield f"{action}-json", f"JSON {action}\n{json.dumps(each)}".encode()
            form = urlencode({"Action": action, "Version": "2012-11-05", **flat(action, each)})
            yield f"{action}-form", f"FORM\n{form}".encode()


def flat(action: str, fields: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """The parameters of a form; the other way round than `unflatten`."""
    form: dict[str, str] = {}
    shapes = _shapes(action)
    for name, value in fields.items():
        shape = shapes.get(name)
        if shape is None and isinstance(value, dict):
            form |= flat(action, value, f"{prefix}{name}.")
        elif shape is None:
            form[f"{prefix}{name}"] = str(value)
        elif shape.key:
            for number, (key, item) in enumerate(value.items(), 1):
                place = f"{prefix}{shape.member}.{number}."
                form[f"{place}{shape.key}"] = key
                form |= flat(action, {shape.value: item}, place)
        else:
            for number, item in enumerate(value, 1):
                form |= flat(action, {f"{shape.member}.{number}": item}, prefix)
    return form
