"""Schemas from the tables of cases that the formats are tested with."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_FOLDERS: Final = Path(__file__).parents[2] / "unit" / "schema_formats"
_PAYLOADS: Final = {
    "avro": (b"\x02\x06abc", b"\x00\x00\x00"),
    "json_schema": (b'{"a": 1}', b'["x", 1.5, null]'),
    "protobuf": (b"\x00\x0a\x03abc\x10\x05", b"\x02\x00\x08\x01"),
}


def inputs(folder: str) -> Iterator[tuple[str, bytes]]:
    """Parts as `registry_texts` has them, of the tables in this folder."""
    payloads = _PAYLOADS[folder]
    for table in sorted((_FOLDERS / folder / "cases").glob("*.json")):
        for number, case in enumerate(json.loads(table.read_text())):
            parts = _parts(case)
            if parts is not None:
                new, old, other = parts
                payload = payloads[number % len(payloads)]
                yield table.stem, b"\0".join((new, old, payload, other)).rstrip(b"\0")


def _parts(case: dict[str, Any]) -> tuple[bytes, bytes, bytes] | None:
    new = case.get("reader", case.get("schema", case.get("text")))
    if new is None:
        return None
    given = case.get("reader_references", case.get("references")) or ()
    others = list(given.values()) if isinstance(given, dict) else list(given)
    return _text(new), _text(case.get("writer", "")), _text(others[0] if others else "")


def _text(schema: Any) -> bytes:
    return (schema if isinstance(schema, str) else json.dumps(schema)).encode()
