"""The query protocol that older SDKs speak: a form in, XML out.

Lists and maps are flattened in both directions: `Attribute.1.Name=…&Attribute.1.Value=…` is what
the JSON protocol writes as `{"Attributes": {…: …}}`.
"""

import asyncio
import re
from collections.abc import Mapping
from html import escape
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from goqueue.doors.sqs.errors import ErrorKind, SqsError
from goqueue.model.digits import number_in

NAMESPACE: Final = "http://queue.amazonaws.com/doc/2012-11-05/"
# Ten messages with ten attributes of three fields each, and as much again.
FIELDS_MAX: Final = 1_000
# What takes some milliseconds to decode if all of it is percent signs.
LARGE_FORM_BYTES: Final = 64 * 1024
# Steps of a parameter's name: an attribute of a message in a batch has six. A longer one names
# nothing, and lists within lists without end would be walked through one within the other.
PATH_MAX: Final = 8
# What XML 1.0 (2.2) cannot hold, whatever way it is written.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Flat(NamedTuple):
    """How a list or a map is flattened; `key` and `value` are the names of a map's parts."""

    member: str
    key: str = ""
    value: str = ""


def _shapes(action: str) -> dict[str, _Flat]:
    """The parts of requests that are lists or maps, by their name in the JSON protocol."""
    return {
        "Attributes": _Flat("Attribute", "Name", "Value"),
        "AttributeNames": _Flat("AttributeName"),
        "MessageAttributes": _Flat("MessageAttribute", "Name", "Value"),
        "MessageSystemAttributes": _Flat("MessageSystemAttribute", "Name", "Value"),
        "MessageAttributeNames": _Flat("MessageAttributeName"),
        "MessageSystemAttributeNames": _Flat("MessageSystemAttributeName"),
        "Entries": _Flat(f"{action}RequestEntry"),
        "Tags": _Flat("Tag", "Key", "Value"),
        "TagKeys": _Flat("TagKey"),
        "AWSAccountIds": _Flat("AWSAccountId"),
        "Actions": _Flat("ActionName"),
    }


def _answer_shapes(action: str) -> dict[str, _Flat]:
    return {
        "QueueUrls": _Flat("QueueUrl"),
        "queueUrls": _Flat("QueueUrl"),
        "Attributes": _Flat("Attribute", "Name", "Value"),
        "MessageAttributes": _Flat("MessageAttribute", "Name", "Value"),
        "Messages": _Flat("Message"),
        "Tags": _Flat("Tag", "Key", "Value"),
        "Successful": _Flat(f"{action}ResultEntry"),
        "Failed": _Flat("BatchResultErrorEntry"),
        "Results": _Flat(f"{action}ResultEntry"),
    }


# --- requests -----------------------------------------------------------------------------


async def read_form(body: bytes) -> dict[str, str]:
    """Percent signs are decoded in Python, 0.1 µs each: a large form has a thread to itself."""
    if len(body) > LARGE_FORM_BYTES:
        return await asyncio.to_thread(parse_form, body)
    return parse_form(body)


def parse_form(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            body.decode("utf-8"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=FIELDS_MAX,
        )
    except ValueError as error:
        raise SqsError(ErrorKind.MALFORMED, f"The form cannot be read: {error}") from None
    return dict(pairs)


def unflatten(action: str, form: Mapping[str, str]) -> dict[str, Any]:
    """The form as the JSON protocol would have it; all values are still text."""
    tree: dict[str, Any] = {}
    for name, value in form.items():
        place = tree
        *path, last = name.split(".", PATH_MAX)
        for step in path:
            inner = place.setdefault(step, {})
            if not isinstance(inner, dict):
                raise SqsError(ErrorKind.MALFORMED, f"{name} contradicts another parameter.")
            place = inner
        place[last] = value
    return _named(tree, _shapes(action))


def _named(tree: dict[str, Any], shapes: Mapping[str, _Flat]) -> dict[str, Any]:
    by_member = {flat.member: (name, flat) for name, flat in shapes.items()}
    named: dict[str, Any] = {}
    for member, value in tree.items():
        if not value and (member in shapes or member in by_member):
            # SDKs write an empty list as its name without a value.
            continue
        if member not in by_member:
            named[member] = value
            continue
        name, flat = by_member[member]
        items = _items(value, flat)
        if flat.key:
            named[name] = {_key(item, flat.key): _part(item, flat.value) for item in items}
        else:
            named[name] = [
                _named(item, shapes) if isinstance(item, dict) else item for item in items
            ]
    return named


def _items(value: Any, flat: _Flat) -> list[Any]:
    """In the order of their numbers. A single one may do without: `AttributeName=All`,
    `Attribute.Name=…&Attribute.Value=…`."""
    if not isinstance(value, dict) or (flat.key and value.keys() <= {flat.key, flat.value}):
        return [value]
    return [value[index] for index in sorted(value, key=_position)]


def _position(index: str) -> int:
    number = number_in(index)
    if number is None:
        raise SqsError(ErrorKind.MALFORMED, f"{index} is not the number of a list's member.")
    return number


def _key(item: object, name: str) -> str:
    key = _part(item, name)
    if not isinstance(key, str):
        raise SqsError(ErrorKind.MALFORMED, f"{name} is a text and has no parts.")
    return key


def _part(item: object, name: str) -> Any:
    if not isinstance(item, dict) or name not in item:
        raise SqsError(
            ErrorKind.MISSING_PARAMETER, f"The request must contain the parameter {name}."
        )
    return item[name]


# --- answers ------------------------------------------------------------------------------


def answer_xml(action: str, answer: Mapping[str, Any] | None, request_id: str) -> bytes:
    """None for actions that answer nothing, not even an element. SDKs look for it in all others,
    be it empty."""
    result = ""
    if answer is not None:
        parts: list[str] = []
        _write(parts, answer, _answer_shapes(action))
        result = f"<{action}Result>{''.join(parts)}</{action}Result>"
    return (
        f'<?xml version="1.0"?><{action}Response xmlns="{NAMESPACE}">{result}<ResponseMetadata>'
        f"<RequestId>{request_id}</RequestId></ResponseMetadata></{action}Response>"
    ).encode()


def error_xml(error: SqsError, request_id: str) -> bytes:
    blame = "Sender" if error.kind.is_sender else "Receiver"
    return (
        f'<?xml version="1.0"?><ErrorResponse xmlns="{NAMESPACE}"><Error><Type>{blame}</Type>'
        f"<Code>{error.kind.query_code}</Code><Message>{_text(error.query_message)}</Message>"
        f"<Detail/></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    ).encode()


def _write(parts: list[str], fields: Mapping[str, Any], shapes: Mapping[str, _Flat]) -> None:
    for name, value in fields.items():
        flat = shapes.get(name)
        if flat is None:
            _element(parts, name, value, shapes)
        elif flat.key:
            for key, item in value.items():
                parts.append(f"<{flat.member}>")
                _element(parts, flat.key, key, shapes)
                _element(parts, flat.value, item, shapes)
                parts.append(f"</{flat.member}>")
        else:
            for item in value:
                _element(parts, flat.member, item, shapes)


def _element(parts: list[str], name: str, value: object, shapes: Mapping[str, _Flat]) -> None:
    parts.append(f"<{name}>")
    if isinstance(value, Mapping):
        _write(parts, value, shapes)
    elif isinstance(value, bool):
        parts.append("true" if value else "false")
    else:
        parts.append(_text(str(value)))
    parts.append(f"</{name}>")


def _text(text: str) -> str:
    # Errors quote what the client sent, and Kafka's clients write keys of any bytes. XML parsers
    # turn a bare carriage return into a line feed.
    sendable = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
    return escape(sendable, quote=False).replace("\r", "&#13;").replace('"', "&quot;")
