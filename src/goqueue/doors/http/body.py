"""Bodies of JSON: read within limits, and decoded strictly."""

from typing import Final, TypeVar

import msgspec

from goqueue.doors.http.errors import Refusal
from goqueue.doors.web.asgi import Receive
from goqueue.doors.web.bodies import BodyFault, BodyReader, BodyRefused, Headers

T = TypeVar("T")

# Bodies of all requests together: a few of the largest allowed. Decoding takes a multiple of it.
BODIES_HELD_MAX_BYTES: Final = 512 * 1024 * 1024


async def read_json(
    bodies: BodyReader, headers: Headers, receive: Receive, *, limit: str | None = None
) -> bytes:
    """The whole body of a request that says it is JSON. `limit`: what one is told that is larger
    than its reader takes, if that is not the setting."""
    length = _check_headers(headers)
    try:
        return await bodies.read(headers, length, receive)
    except BodyRefused as refused:
        said = limit or f"http.request.max.bytes = {bodies.max_bytes}"
        raise _refusal(refused.fault, said) from None


def _refusal(fault: BodyFault, limit: str) -> Refusal:
    if fault is BodyFault.TOO_LARGE:
        return Refusal(413, "request_too_large", f"the body is larger than {limit}")
    if fault is BodyFault.TOO_MUCH_AT_ONCE:
        return Refusal(503, "overloaded", "too many large requests are under way")
    return Refusal(400, "disconnected", "the connection ended before the body did")


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
