"""Reading a request's body within limits."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from goqueue.doors.registry.errors import HttpRefusal

Headers = Iterable[tuple[bytes, bytes]]
Receive = Callable[[], Awaitable[Any]]

# A body that is refused for its size is still read for this long, so that the client, which sends
# before it listens, sees the answer instead of a reset connection.
LINGER_SECONDS: Final = 1.0
# Unfinished bodies of all requests together: dozens of the largest with default settings.
BODIES_HELD_MAX_BYTES: Final = 256 * 1024 * 1024
_BYTES_KIND: Final = "application/octet-stream"


class BodyReader:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held_bytes = 0

    async def read(self, headers: Headers, receive: Receive) -> bytes:
        if _check_head(headers) > self._max_bytes:
            await self._refuse_size(receive)
        chunks: list[bytes] = []
        size_bytes = 0
        try:
            more = True
            while more:
                message = await _next(receive)
                chunks.append(message["body"])
                size_bytes += len(message["body"])
                self._held_bytes += len(message["body"])
                more = message["more_body"]
                if size_bytes > self._max_bytes:
                    chunks.clear()
                    await self._refuse_size(receive, more=more)
                if self._held_bytes > BODIES_HELD_MAX_BYTES:
                    raise HttpRefusal(503, "too many large requests are under way; try again")
            return b"".join(chunks)
        finally:
            self._held_bytes -= size_bytes

    async def _refuse_size(self, receive: Receive, *, more: bool = True) -> None:
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while more:
                    more = (await _next(receive))["more_body"]
        except TimeoutError:
            pass
        raise HttpRefusal(
            413,
            f"the request is larger than {self._max_bytes} bytes, which is room for any schema "
            "within schema.max.bytes",
        )


async def _next(receive: Receive) -> Any:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise HttpRefusal(400, "the connection ended before the request did")
    return message


def _check_head(headers: Headers) -> int:
    """Refuse what a web page elsewhere could send without asking; return the announced length.

    A page may post forms and plain text across sites, or a body without any type, but not JSON.
    """
    kind, length, origin = "", 0, b""
    for name, value in headers:
        if name == b"content-type":
            kind = value.partition(b";")[0].strip().lower().decode("latin-1")
        elif name == b"content-length":
            length = int(value)
        elif name == b"origin":
            origin = value
    is_json = kind.startswith("application/") and kind.endswith(("/json", "+json"))
    if not is_json and kind != _BYTES_KIND and (kind or origin):
        raise HttpRefusal(
            415,
            f"content-type is {kind or 'missing'}; send application/vnd.schemaregistry.v1+json "
            "or application/json",
        )
    return length
