"""Sending a whole answer."""

from collections.abc import Iterable

from goqueue.doors.web.asgi import Send


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
