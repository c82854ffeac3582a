"""Reading a request's body within limits, and decoding it strictly.

How long a body may take is the connection's business: a silent client is hung up on there.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

from goqueue.doors.http.asgi import Receive
from goqueue.doors.http.errors import Refusal

T = TypeVar("T")
Headers = Iterable[tuple[bytes, bytes]]

# A body that is refused for its size is still read for this long, so that the client, which sends
# before it listens, sees the answer instead of a reset connection.
LINGER_SECONDS: Final = 1.0
# Bodies of all requests together: a few of the largest allowed. Decoding takes a multiple of it.
BODIES_HELD_MAX_BYTES: Final = 512 * 1024 * 1024


class BodyReader:
    """Reads bodies, and knows how many bytes of unfinished ones are held."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._held_bytes = 0

    async def read(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body of a JSON request."""
        if _check_headers(headers) > self.max_bytes:
            await self._refuse_size(headers, receive)
        message = await _next(receive)
        body: bytes = message["body"]
        if message["more_body"]:
            body = await self._rest(body, headers, receive)
        if len(body) > self.max_bytes:
            raise self._too_large()
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
                    await self._refuse_size(headers, receive)
                if self._held_bytes > BODIES_HELD_MAX_BYTES:
                    raise Refusal(503, "overloaded", "too many large requests are under way")
                message = await _next(receive)
                chunks.append(message["body"])
                size += len(message["body"])
                self._held_bytes += len(message["body"])
                more = message["more_body"]
            return b"".join(chunks)
        finally:
            self._held_bytes -= size

    async def _refuse_size(self, headers: Headers, receive: Receive) -> None:
        if not any(name == b"expect" for name, _ in headers):
            try:
                async with asyncio.timeout(LINGER_SECONDS):
                    while (await _next(receive))["more_body"]:
                        pass
            except TimeoutError:
                pass
        raise self._too_large()

    def _too_large(self) -> Refusal:
        return Refusal(
            413,
            "request_too_large",
            f"the body is larger than http.request.max.bytes = {self.max_bytes}",
        )


async def _next(receive: Receive) -> Any:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Refusal(400, "disconnected", "the connection ended before the body did")
    return message


def _check_headers(headers: Headers) -> int:
    """Refuse what is not JSON; return the announced length, 0 if there is none.

    Only JSON is taken, so that a web page elsewhere cannot make a browser send a request here
    without asking first (a form or plain text may be posted across sites, JSON may not).
    """
    content_type = b""
    length = 0
    is_chunked = False
    for name, value in headers:
        if name == b"content-type":
            content_type = value
        elif name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            is_chunked = True
    if content_type == b"application/json":
        return length
    kind = content_type.partition(b";")[0].strip().lower()
    if not kind and not length and not is_chunked:
        raise Refusal(400, "invalid_request", "the request needs a body of JSON")
    if kind != b"application/json" and not (
        kind.startswith(b"application/") and kind.endswith(b"+json")
    ):
        shown = kind.decode("ascii", "replace") or "missing"
        raise Refusal(
            415,
            "unsupported_media_type",
            f"content-type is {shown}; send application/json (with curl: --json)",
        )
    return length


def decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode JSON into the decoder's type; whatever is wrong with it is the client's fault."""
    try:
        # msgspec passes over undecoded parts (Raw) without looking at their UTF-8.
        body.decode()
        return decoder.decode(body)
    except UnicodeDecodeError as error:
        raise Refusal(400, "invalid_json", f"the body is not UTF-8 at byte {error.start}") from None
    except msgspec.ValidationError as error:
        # Whole numbers are read as floats (whole_numbers.py); the client need not know.
        said = str(error).replace("Expected `float", "Expected `int")
        raise Refusal(400, "invalid_request", said) from None
    except msgspec.DecodeError as error:
        raise Refusal(400, "invalid_json", str(error)) from None
    except RecursionError:
        raise Refusal(400, "invalid_json", "the JSON is nested too deeply") from None
