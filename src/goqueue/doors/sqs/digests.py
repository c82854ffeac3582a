"""The MD5 digests that clients check (SQS Developer Guide, "Calculating the MD5 message digest
for message attributes").
"""

import base64
import struct
from collections.abc import Mapping
from hashlib import md5
from typing import Final

from goqueue.doors.sqs.requests import AttributeValue

_length: Final = struct.Struct(">I").pack
_TEXT: Final = b"\x01"
_BINARY: Final = b"\x02"


def body_digest(body: bytes) -> str:
    return md5(body, usedforsecurity=False).hexdigest()


def attributes_digest(attributes: Mapping[str, AttributeValue]) -> str | None:
    """None if there are none: then nothing is answered either."""
    if not attributes:
        return None
    digest = md5(usedforsecurity=False)
    for name in sorted(attributes):
        attribute = attributes[name]
        for text in (name, attribute.data_type or ""):
            data = text.encode()
            digest.update(_length(len(data)) + data)
        if attribute.is_binary:
            kind, value = _BINARY, base64.b64decode(attribute.binary_value or "")
        else:
            kind, value = _TEXT, (attribute.string_value or "").encode()
        digest.update(kind + _length(len(value)) + value)
    return digest.hexdigest()
