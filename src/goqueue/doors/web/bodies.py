"""Reading a request's body within limits.

How long a body may take is the connection's business: a slow client is hung up on there, and one
that goes on sending after its answer.
"""

import asyncio
from collections.abc import Iterable
from enum import Enum, auto
from typing import Any, Final

from goqueue.doors.web.asgi import Receive

Headers = Iterable[tuple[bytes, bytes]]

# A body that is refused for its size is still read for this long, so that the client, which sends
# before it listens, sees the answer instead of a reset connection.
LINGER_SECONDS: Final = 1.0
# And for this much: a second of a fast line would keep the event loop busy for all of it.
LINGER_MAX_BYTES: Final = 64 * 1024 * 1024


class BodyFault(Enum):
    TOO_LARGE = auto()
    # Unfinished bodies of all requests together; the client may try again.
    TOO_MUCH_AT_ONCE = auto()
    CUT_SHORT = auto()


class BodyRefused(Exception):
    """A body that was not read to its end; what a client is told is the door's business."""

    def __init__(self, fault: BodyFault) -> None:
        super().__init__(fault.name.lower())
        self.fault = fault


class BodyReader:
    """Reads bodies, and knows how many bytes of unfinished ones are held.

    `max_bytes` is for one body, `held_max_bytes` for all that come in several pieces together.
    """

    def __init__(self, *, max_bytes: int, held_max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._held_max_bytes = held_max_bytes
        self._held_bytes = 0

    async def read(self, headers: Headers, length: int, receive: Receive) -> bytes:
        """The whole body; `length` is what the headers announce, 0 if they do not say."""
        if length > self.max_bytes:
            await _refuse_size(headers, receive)
        message = await _next(receive)
        body: bytes = message["body"]
        if message["more_body"]:
            body = await self._rest(body, headers, receive)
        if len(body) > self.max_bytes:
            raise BodyRefused(BodyFault.TOO_LARGE)
        return body

    async def _rest(self, first: bytes, headers: Headers, receive: Receive) -> bytes:
        chunks = [first]
        size = len(first)
        self._held_bytes += size
        try:
            more = True
            while more:
                if size > self.max_bytes:
                    chunks.clear()
                    await _refuse_size(headers, receive)
                if self._held_bytes > self._held_max_bytes:
                    raise BodyRefused(BodyFault.TOO_MUCH_AT_ONCE)
                message = await _next(receive)
                chunks.append(message["body"])
                size += len(message["body"])
                self._held_bytes += len(message["body"])
                more = message["more_body"]
            return b"".join(chunks)
        finally:
            self._held_bytes -= size


async def _refuse_size(headers: Headers, receive: Receive) -> None:
    # Who waits for a "100 Continue" listens already.
    if not any(name == b"expect" for name, _ in headers):
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                passed_over = 0
                while passed_over < LINGER_MAX_BYTES:
                    message = await _next(receive)
                    if not message["more_body"]:
                        break
                    passed_over += len(message["body"])
        except TimeoutError:
            pass
    raise BodyRefused(BodyFault.TOO_LARGE)


async def _next(receive: Receive) -> Any:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise BodyRefused(BodyFault.CUT_SHORT)
    return message
