"""A stored message as JSON shows it."""

from typing import Any

import msgspec

from goqueue.doors.http.payloads import ByteEncoding, Encoding, shown_text, shown_value
from goqueue.doors.http.publishing import NamedHeader
from goqueue.model.records import Record


class StoredMessage(msgspec.Struct, frozen=True, rename="camel"):
    partition: int
    offset: int
    timestamp: int
    key: str | None
    key_encoding: ByteEncoding
    value: Any
    encoding: Encoding
    headers: list[NamedHeader]


def show_record(record: Record, partition: int, encoding: Encoding) -> StoredMessage:
    bytewise: ByteEncoding = "base64" if encoding == "base64" else "text"
    key, key_encoding = shown_text(record.key, bytewise)
    value, value_encoding = shown_value(record.value, encoding)
    return StoredMessage(
        partition=partition,
        offset=record.offset,
        timestamp=record.timestamp_ms,
        key=key,
        key_encoding=key_encoding,
        value=value,
        encoding=value_encoding,
        headers=[
            NamedHeader(header, *shown_text(data, bytewise)) for header, data in record.headers
        ],
    )
