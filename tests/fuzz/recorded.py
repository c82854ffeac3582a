"""Requests out of what clients sent: one for each operation and version, action and route.

Nothing of the machine stays in them: names and versions of clients are wanted, those of hosts and
kernels are not.
"""

import re
import socket
import struct
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.kafka.wire.reading import Malformed
from goqueue.doors.kafka.wire.request_header import read_request_header
from goqueue.doors.kafka.wire.schema import load_schema
from goqueue.doors.registry.routing import ROUTES
from goqueue.model.batch import HEADER_BYTES, read_header
from tests.access.web_requests import HTTP

# Longer ones say the same again.
REQUEST_MAX_BYTES: Final = 4_096
_LENGTH: Final = struct.Struct(">i")
_PRODUCE: Final = 0
_HEAD_END: Final = b"\r\n\r\n"
_CONTENT_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)
_REPLACED: Final = (
    (re.compile(rb"(\r\nhost: )[^\r]*", re.I), rb"\1localhost"),
    (re.compile(rb"(\r\nuser-agent: [a-z0-9-]*)[^\r]*", re.I), rb"\1"),
    (re.compile(rb"127\.0\.0\.1(:|%3A)\d+"), rb"localhost"),
)
_FOLDER: Final = re.compile(rb"/(home|root|tmp|work|Users)/")
# What every request may hold.
_ANY_HOST: Final = b"localhost"
_TARGET: Final = re.compile(rb"\r\nx-amz-target: AmazonSQS\.(\w+)", re.I)
_ACTION: Final = re.compile(rb"Action=(\w+)")
_WEB_ROUTES: Final = [route for _, route in HTTP] + [f"/{route}" for route in ROUTES]


def names_a_folder(data: bytes) -> bool:
    """Whether it holds a path of the machine it was recorded on."""
    return _FOLDER.search(data) is not None


def names_this_machine(data: bytes) -> bool:
    host = socket.gethostname().encode()
    return names_a_folder(data) or (host != _ANY_HOST and host in data)


def frames_in(stream: bytes) -> Iterator[tuple[str, bytes]]:
    """Each labelled `<operation>-v<version>`."""
    position = 0
    while len(stream) >= position + _LENGTH.size:
        (size,) = _LENGTH.unpack_from(stream, position)
        start, position = position + _LENGTH.size, position + _LENGTH.size + size
        frame = stream[start:position]
        if size < 0 or len(frame) < size:
            return
        operation = OPERATIONS.get(int.from_bytes(frame[:2], "big"))
        if operation is not None and size <= REQUEST_MAX_BYTES:
            yield f"{operation.name}-v{int.from_bytes(frame[2:4], 'big')}", frame


def batches_in(frame: bytes) -> Iterator[tuple[str, bytes]]:
    """The record batches of a Produce request, labelled by their kind."""
    view = memoryview(frame)
    try:
        header = read_request_header(view)
        operation = OPERATIONS[_PRODUCE]
        if header.api_key != _PRODUCE or header.version > operation.max_version:
            return
        schema = load_schema(_PRODUCE, header.version, operation.max_version)
        position = header.body_position(view, schema.has_tagged_request_header)
        request, _ = schema.read_request(view, position)
    except Malformed:
        return
    for topic in request.topic_data:
        for part in topic.partition_data:
            batch = bytes(part.records or b"")
            if len(batch) >= HEADER_BYTES:
                yield f"attributes-{read_header(batch).attributes}", batch


def web_requests_in(stream: bytes) -> Iterator[tuple[str, bytes]]:
    """Each labelled by its action, or its method and route."""
    while _HEAD_END in stream:
        head, _, rest = stream.partition(_HEAD_END)
        announced = _CONTENT_LENGTH.search(head)
        size = int(announced[1]) if announced else 0
        body, stream = rest[:size], rest[size:]
        label = _label(head, body)
        if len(body) == size and label is not None and len(head) + size <= REQUEST_MAX_BYTES:
            yield label, _plain(head, body)


def _label(head: bytes, body: bytes) -> str | None:
    if target := _TARGET.search(head):
        return f"sqs {target[1].decode()} json"
    if action := _ACTION.search(body):
        return f"sqs {action[1].decode()} form"
    line = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(line) != 3:
        return None
    path = urlsplit(line[1]).path
    for route in _WEB_ROUTES:
        if re.fullmatch(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(route)), path):
            return f"{line[0]} {route}".replace("/", ".")
    return None


def _plain(head: bytes, body: bytes) -> bytes:
    for pattern, text in _REPLACED:
        head, body = pattern.sub(text, head), pattern.sub(text, body)
    size = b"\r\nContent-Length: %d" % len(body) if body else b""
    return _CONTENT_LENGTH.sub(b"", head) + size + _HEAD_END + body
