"""A frame for every operation in every version, from the tables that the tests of rights have."""

import struct
from collections.abc import Iterator, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import UUID

from kio.index import load_request_schema

from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.kafka.wire.writing import Chunks, compile_writer
from tests.access.canaries import World
from tests.access.kafka_requests import request, variants

_WORLD: Final = cast(World, SimpleNamespace(topic_id=UUID(int=7)))
_CLIENT_ID: Final = b"seed"
_NO_TAGS: Final = b"\x00"
# One tagged field that nobody knows: number 99, three bytes.
_ONE_TAG: Final = b"\x01\x63\x03abc"
_MS: Final = timedelta(milliseconds=1)


def inputs() -> Iterator[tuple[str, bytes]]:
    """Labelled `<operation>-v<version>`; without the length before them."""
    for operation in OPERATIONS.values():
        for version in range(operation.min_version, operation.max_version + 1):
            entity: Any = load_request_schema(operation.api_key, version)
            write = compile_writer(entity)
            tags = (_NO_TAGS, _ONE_TAG) if entity.__flexible__ else (b"",)
            for variant in variants(operation, version):
                chunks: Chunks = []
                write(chunks, _plain(request(operation, version, variant.words, _WORLD)))
                for header_tags in tags:
                    head = struct.pack(">hhih", operation.api_key, version, 1, len(_CLIENT_ID))
                    yield (
                        f"{operation.name}-v{version}",
                        head + _CLIENT_ID + header_tags + b"".join(chunks),
                    )


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value // _MS
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
