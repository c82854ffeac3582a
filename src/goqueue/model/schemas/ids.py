"""Where a message names its schema: in front of the payload, or in a header.

Confluent's serialisers put a zero byte and the id (4 bytes, big-endian) before the payload. Its
newer ones leave the payload alone and send a header with the same five bytes, or with a one and
the schema's GUID; for Protobuf the message's indexes stand behind it.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from goqueue.model.records import Header

PREFIX_BYTES: Final = 5
_BY_ID: Final = 0
_BY_GUID: Final = 1
_GUID_BYTES: Final = 16


class SchemaUse(NamedTuple):
    """The schema that a key or value was written with, and the bytes that it describes."""

    schema_id: int
    guid: UUID | None
    payload: bytes


def schema_use(part: str, data: bytes, headers: Iterable[Header]) -> SchemaUse | None:
    """None for data that names no schema; `ValueError` for a header that makes no sense.

    `part` is "key" or "value".
    """
    wanted = f"__{part}_schema_id"
    for name, value in headers:
        if name == wanted:
            return _from_header(name, value or b"", data)
    if len(data) >= PREFIX_BYTES and data[0] == _BY_ID:
        return SchemaUse(int.from_bytes(data[1:PREFIX_BYTES], "big"), None, data[PREFIX_BYTES:])
    return None


def _from_header(name: str, value: bytes, data: bytes) -> SchemaUse:
    if len(value) >= PREFIX_BYTES and value[0] == _BY_ID:
        schema_id = int.from_bytes(value[1:PREFIX_BYTES], "big")
        return SchemaUse(schema_id, None, value[PREFIX_BYTES:] + data)
    if len(value) > _GUID_BYTES and value[0] == _BY_GUID:
        guid_end = 1 + _GUID_BYTES
        return SchemaUse(-1, UUID(bytes=value[1:guid_end]), value[guid_end:] + data)
    raise ValueError(
        f"header {name} must be a zero byte and a schema id of 4 bytes, or a one and a GUID"
    )
