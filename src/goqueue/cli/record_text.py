"""Messages as text: what `consume` prints is what `produce --json` takes."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from goqueue.cli.failures import CommandFailed

Header = tuple[str, bytes | None]

_INPUT_FIELDS: Final = frozenset(
    # The last three are printed by `consume` and have no meaning on the way in.
    ("key", "value", "headers", "partition", "timestamp", "topic", "offset", "time")
)


class OutgoingMessage(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    partition: int | None
    timestamp_ms: int | None


def bytes_to_json(data: bytes | None) -> object:
    """Text as it is; anything else as `{"base64": …}`."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def json_to_bytes(value: object, field: str) -> bytes | None:
    """The opposite; any other JSON value is stored as its JSON text."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise CommandFailed(f"{field}: not valid base64: {error}") from error
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


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
            key=json_to_bytes(fields.get("key"), "key"),
            value=json_to_bytes(fields["value"], "value"),
            headers=_parse_headers(fields.get("headers")),
            partition=_integer(fields, "partition"),
            timestamp_ms=_integer(fields, "timestamp"),
        )
    except CommandFailed as error:
        raise CommandFailed(f"line {number}: {error}") from error


def headers_to_json(headers: tuple[Header, ...]) -> list[list[object]]:
    """Pairs, since a name may be there more than once."""
    return [[name, bytes_to_json(value)] for name, value in headers]


def _parse_headers(value: object) -> tuple[Header, ...]:
    if value is None:
        return ()
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list) or not all(
        len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise CommandFailed("headers: neither an object nor a list of [name, value] pairs")
    return tuple((name, json_to_bytes(text, f"header {name}")) for name, text in pairs)


def _integer(fields: Mapping[str, object], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise CommandFailed(f"{name}: {value!r} is not a number from 0")
    return value
