"""Sending a whole answer."""

from collections.abc import Iterable
from typing import Final

from goqueue.doors.web.asgi import Send

# What a client is told to wait before it sends again what a 503 refused: another leader is found
# within some tenths of a second, mostly.
RETRY_AFTER_SECONDS: Final = 1
_NOT_NOW: Final = 503
# RFC 9110, 11.6.1: with every 401.
CHALLENGE: Final = 'Basic realm="GoQueue", Bearer'
_UNKNOWN_CALLER: Final = 401


def retry_after(status: int) -> list[tuple[bytes, bytes]]:
    """The header of an answer with this status, where it has one."""
    return [(b"retry-after", b"%d" % RETRY_AFTER_SECONDS)] if status == _NOT_NOW else []


def challenge(status: int) -> list[tuple[bytes, bytes]]:
    return [(b"www-authenticate", CHALLENGE.encode())] if status == _UNKNOWN_CALLER else []


async def respond(
    send: Send,
    status: int,
    content_type: bytes,
    content: bytes,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", content_type),
                (b"content-length", b"%d" % len(content)),
                *headers,
            ],
        }
    )
    await send({"type": "http.response.body", "body": content, "more_body": False})
