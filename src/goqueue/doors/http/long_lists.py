"""Answers that list as much as there may be of something: a hundred thousand rules, users or keys.

They are written in slices, so that nobody else waits for as long as all of it takes."""

from collections.abc import AsyncIterable
from typing import Any, TypeVar

import msgspec
from litestar import Response

T = TypeVar("T", bound=msgspec.Struct)


async def list_answer(kind: type[T], items: AsyncIterable[msgspec.Struct]) -> Response[T]:
    """As a `kind` of these items, which has no other field than their list."""
    (field,) = msgspec.structs.fields(kind)
    encoder = msgspec.json.Encoder()
    body = bytearray(b'{"%s":[' % field.encode_name.encode())
    separator = b""
    async for item in items:
        body += separator + encoder.encode(item)
        separator = b","
    body += b"]}"
    content: Any = bytes(body)
    return Response(content, media_type="application/json")
