"""Bytes as JSON and back: what `encoding` means for keys, values and headers.

In: a string is text, null is null, any other JSON value is stored as its JSON text, exactly as it
was written; `encoding` says so outright (and lets a string be base64, or be JSON itself).
Out: text where the bytes are UTF-8 and base64 where they are not, and `encoding` says which.
"""

from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from typing import Final, Literal

import msgspec

from goqueue.doors.http.errors import Refusal

Encoding = Literal["text", "json", "base64"]
# Keys and header values are text or bytes; only values are documents.
ByteEncoding = Literal["text", "base64"]

_NULL: Final = b"null"
_QUOTE: Final = ord('"')
_decode_text = msgspec.json.Decoder(str).decode
_check_json = msgspec.json.Decoder(msgspec.Raw).decode


def value_bytes(value: msgspec.Raw, encoding: Encoding | None) -> bytes | None:
    """What is stored for a value as it stands in a request."""
    written = bytes(value)
    if encoding == "json":
        return written
    if written[0] == _QUOTE:
        text = _decode_text(written)
        return text.encode() if encoding != "base64" else _from_base64(text, "value")
    if written == _NULL:
        return None
    if encoding is None:
        return written
    raise Refusal(
        422, "invalid_value", f"value: with encoding {encoding} it must be a string or null"
    )


def text_bytes(text: str | None, encoding: ByteEncoding | None, field: str) -> bytes | None:
    """What is stored for a key or a header's value."""
    if text is None:
        return None
    return _from_base64(text, field) if encoding == "base64" else text.encode()


def _from_base64(text: str, field: str) -> bytes:
    try:
        return a2b_base64(text.encode(), strict_mode=True)
    except Base64Error as error:
        raise Refusal(422, "invalid_base64", f"{field}: {error}") from None


def shown_value(data: bytes | None, wanted: Encoding) -> tuple[str | msgspec.Raw | None, Encoding]:
    """A stored value for an answer, with the encoding it ended up in."""
    if wanted == "json" and data is not None:
        try:
            data.decode()
            # Compaction of white space is not ours to do: the document goes out as it came in. That
            # around it would be lost within the answer.
            document = _check_json(data)
            if bytes(document) == data:
                return document, "json"
        except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
            pass
    return shown_text(data, "base64" if wanted == "base64" else "text")


def shown_text(data: bytes | None, wanted: ByteEncoding) -> tuple[str | None, ByteEncoding]:
    """A stored key or header value for an answer, with the encoding it ended up in."""
    if data is None:
        return None, "text"
    if wanted == "text":
        try:
            return data.decode(), "text"
        except UnicodeDecodeError:
            pass
    return b64encode(data).decode(), "base64"
