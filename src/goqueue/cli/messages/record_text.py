"""Messages as JSON, in the shape of the HTTP API: what `consume` prints, `produce --json` takes."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from goqueue.cli.failures import CommandFailed

Header = tuple[str, bytes | None]

_BASE64: Final = "base64"
_INPUT_FIELDS: Final = frozenset(
    (
        *("key", "keyEncoding", "value", "encoding", "headers", "partition", "timestamp"),
        # Printed by `consume`, without a meaning on the way in.
        *("topic", "offset", "time"),
    )
)


class OutgoingMessage(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    partition: int | None
    timestamp_ms: int | None


def shown(data: bytes | None, field: str, encoding_field: str) -> dict[str, str | None]:
    """Text as it is; anything else as base64, and then a second field says so."""
    if data is None:
        return {field: None}
    try:
        return {field: data.decode()}
    except UnicodeDecodeError:
        return {field: base64.b64encode(data).decode(), encoding_field: _BASE64}


def shown_headers(headers: tuple[Header, ...]) -> list[dict[str, str | None]]:
    """A list, since a name may be there more than once."""
    return [{"name": name, **shown(value, "value", "encoding")} for name, value in headers]


def parse_json_line(line: bytes, number: int) -> OutgoingMessage:
    """A message from one line of JSON, such as `{"key": "k", "value": {"n": 1}}`."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise CommandFailed(f"line {number}: not valid JSON: {error}") from error
    if not isinstance(fields, dict) or "value" not in fields:
        raise CommandFailed(f'line {number}: not an object with a "value"')
    unknown = sorted(fields.keys() - _INPUT_FIELDS)
    if unknown:
        raise CommandFailed(f"line {number}: unknown field {unknown[0]!r}")
    try:
        return OutgoingMessage(
            key=_bytes(fields.get("key"), fields.get("keyEncoding"), "key"),
            value=_bytes(fields["value"], fields.get("encoding"), "value"),
            headers=_headers(fields.get("headers")),
            partition=_integer(fields, "partition"),
            timestamp_ms=_integer(fields, "timestamp"),
        )
    except CommandFailed as error:
        raise CommandFailed(f"line {number}: {error}") from error


def _bytes(value: object, encoding: object, field: str) -> bytes | None:
    """A string is text, null is null, any other JSON value is stored as its JSON text."""
    if encoding not in (None, "text", "json", _BASE64):
        raise CommandFailed(f"{field}: encoding {encoding!r} is not one of text, json, base64")
    if encoding == "json" or (value is not None and not isinstance(value, str)):
        if encoding in ("text", _BASE64):
            raise CommandFailed(f"{field}: with encoding {encoding} it must be a string or null")
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    if value is None:
        return None
    if encoding != _BASE64:
        return value.encode()
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CommandFailed(f"{field}: not valid base64: {error}") from error


def _headers(value: object) -> tuple[Header, ...]:
    if value is None:
        return ()
    if isinstance(value, Mapping):
        return tuple((name, _bytes(text, None, f"header {name}")) for name, text in value.items())
    if not isinstance(value, list) or not all(
        isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in value
    ):
        raise CommandFailed('headers: neither an object nor a list of {"name": …, "value": …}')
    return tuple(
        (item["name"], _bytes(item.get("value"), item.get("encoding"), f"header {item['name']}"))
        for item in value
    )


def _integer(fields: Mapping[str, object], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise CommandFailed(f"{name}: {value!r} is not a number from 0")
    return value
