"""What hostile SQS clients send, in both of its protocols."""

import json
import random
from typing import Any, Final
from urllib.parse import quote

from goqueue.doors.sqs.actions import ACTIONS
from tests.hostile.bursts import Burst, in_turn
from tests.hostile.web_requests import burst_of, deep, request

QUEUE: Final = "hostile-sqs"
FIFO_QUEUE: Final = "hostile-sqs.fifo"
_QUEUES: Final = (QUEUE, FIFO_QUEUE, "http://127.0.0.1/000000000000/hostile-sqs", "", "x" * 500)
_ARN: Final = f"arn:aws:sqs:us-east-1:000000000000:{QUEUE}"
_FORM: Final = "application/x-www-form-urlencoded"
_JSON: Final = "application/x-amz-json-1.0"
_ATTRIBUTE: Final = {"DataType": "String", "StringValue": "v" * 50}
_ENTRY: Final = {
    "Id": "a",
    "MessageBody": "hostile",
    "ReceiptHandle": "nothing",
    "MessageGroupId": "g",
    "MessageDeduplicationId": "d",
    "VisibilityTimeout": 1,
}
_FIELDS: Final[dict[str, tuple[Any, ...]]] = {
    "QueueUrl": _QUEUES,
    "QueueName": ("fleeting-sqs", "fleeting.fifo", QUEUE, "bad name", ""),
    "MessageBody": ("hostile", "x" * 5_000, "", "\x01", "\ud83d\ude00" * 100),
    "DelaySeconds": (0, 1, 900, -1, 10**30),
    "MessageGroupId": ("g", "", "g" * 300),
    "MessageDeduplicationId": ("d", "e" * 300),
    "MessageAttributes": ({"a": _ATTRIBUTE}, {f"a{n}": _ATTRIBUTE for n in range(12)}, []),
    "Entries": ([_ENTRY], [_ENTRY] * 10, [_ENTRY] * 11, [], [{}], [{**_ENTRY, "Id": "x" * 200}]),
    "ReceiptHandle": ("nothing", "hostile-sqs:0:0:1:x", "r" * 2_000, ""),
    "VisibilityTimeout": (0, 1, 43_200, 10**20, "1"),
    "MaxNumberOfMessages": (1, 10, 0, 11),
    "WaitTimeSeconds": (0, 0, 0, 1, 21),
    "AttributeNames": (["All"], ["Nothing"], ["All"] * 1_001),
    "Attributes": ({"VisibilityTimeout": "30"}, {"FifoQueue": "true"}, {"RedrivePolicy": "{"}),
    "SourceArn": (_ARN, "arn", ""),
    "TaskHandle": ("x", ""),
    "Tags": ({"a": "b"}, {f"t{n}": "v" for n in range(60)}),
    "TagKeys": (["a"], []),
    "Label": ("l",),
    "Actions": (["*"],),
    "NextToken": ("x",),
    "MaxResults": (1, 1_000, -1),
}


class SqsFrames:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._requests = [self._one(action) for action in ACTIONS for _ in range(12)]
        self._costly = in_turn(chance, _costly())

    def burst(self) -> Burst:
        return burst_of(self._chance, self._requests)

    def costly(self) -> Burst:
        return Burst(next(self._costly), 1)

    def _one(self, action: str) -> bytes:
        chance = self._chance
        names = [name for name in _FIELDS if chance.random() < 0.8]
        fields = {name: chance.choice(_FIELDS[name]) for name in names}
        if action == "DeleteQueue":
            fields["QueueUrl"] = "fleeting-sqs"
        if chance.random() < 0.5:
            return _json(action, fields)
        return _form(action, fields)


def _json(action: str, fields: Any) -> bytes:
    return _json_text(action, json.dumps(fields).encode())


def _json_text(action: str, text: bytes) -> bytes:
    return request("POST", "/", text, _JSON, f"X-Amz-Target: AmazonSQS.{action}")


def _form(action: str, fields: dict[str, Any]) -> bytes:
    pairs = [("Action", action), ("Version", "2012-11-05")]
    for name, value in fields.items():
        pairs += _flat(name, value)
    text = "&".join(f"{quote(n)}={quote(v, errors='replace')}" for n, v in pairs)
    return request("POST", "/", text.encode(), _FORM)


def _flat(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [pair for key, inner in value.items() for pair in _flat(f"{name}.{key}", inner)]
    if isinstance(value, list):
        return [pair for n, inner in enumerate(value, 1) for pair in _flat(f"{name}.{n}", inner)]
    return [(name, str(value))]


def _costly() -> list[bytes]:
    receive = {"MaxNumberOfMessages": 10, "VisibilityTimeout": 0}
    large = [{"Id": str(n), "MessageBody": "y" * 100_000} for n in range(10)]
    grouped = [
        {**entry, "MessageGroupId": "g", "MessageDeduplicationId": entry["Id"]} for entry in large
    ]
    return [
        _json("SendMessageBatch", {"QueueUrl": QUEUE, "Entries": large}),
        _json("SendMessageBatch", {"QueueUrl": FIFO_QUEUE, "Entries": grouped}),
        _json("ReceiveMessage", {"QueueUrl": QUEUE, **receive}),
        _json("ReceiveMessage", {"QueueUrl": FIFO_QUEUE, **receive}),
        _json("ReceiveMessage", {"QueueUrl": QUEUE, "WaitTimeSeconds": 20}),
        _json("SendMessageBatch", {"QueueUrl": QUEUE, "Entries": [_ENTRY] * 20_000}),
        _json_text("SendMessage", deep(100_000)),
        _json_text("SendMessage", b'{"QueueUrl": "hostile-sqs", "MessageBody": %s}' % deep(500)),
        _json_text("SendMessage", b"{" + b'"A": 1, ' * 100_000 + b'"B": 1}'),
        _form("SendMessageBatch", {"QueueUrl": QUEUE, "Entries": [_ENTRY] * 5_000}),
        _form("SendMessage", {f"MessageAttribute.{n}.Name": "a" for n in range(20_000)}),
        _form("SendMessage", {"QueueUrl": QUEUE, "MessageBody": "%" * 300_000}),
        _json("ListQueues", {"MaxResults": 1_000}),
        _json("PurgeQueue", {"QueueUrl": QUEUE}),
        _json("TagQueue", {"QueueUrl": QUEUE, "Tags": {f"t{n}": "v" for n in range(10_000)}}),
        _json("StartMessageMoveTask", {"SourceArn": _ARN}),
    ]
