"""Messages as records: the body is the value, the rest is in headers.

What SQS itself says of a message is in headers that begin with `sqs-` (`model/queues/sqs_headers`).
Message attributes are headers of their own names; a type other than String is in `sqs-type.<name>`.

A message attribute whose own name begins with `sqs-` gets `sqs-attribute.` before it. Records of
other producers have what they have: headers become attributes of type String, or Binary where the
value is no text; the MessageId follows from topic, partition and offset.
"""

import base64
import random
import re
from collections.abc import Iterator, Mapping
from typing import Final
from uuid import UUID, uuid5

from goqueue.doors.sqs.requests import AttributeValue
from goqueue.model.header_names import DEAD_LETTER_PREFIX, DELAY_MS, DELIVER_AT
from goqueue.model.queues.sqs_headers import RESERVED_PREFIX
from goqueue.model.records import Header, Record

TYPE_PREFIX: Final = "sqs-type."
ATTRIBUTE_PREFIX: Final = "sqs-attribute."
# What we and the broker add; priorities and times to live are the sender's own.
_NO_ATTRIBUTES: Final = (RESERVED_PREFIX, DEAD_LETTER_PREFIX, DELAY_MS, DELIVER_AT)

ATTRIBUTES_MAX: Final = 10
# Says that a body is base64, because the record's value is no text that SQS can carry.
ENCODING_ATTRIBUTE: Final = "body-encoding"

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ATTRIBUTE_NAME: Final = re.compile(r"(?!aws\.|amazon\.|\.)[A-Za-z0-9_.-]{1,256}(?<!\.)", re.I)


def is_sendable(text: str) -> bool:
    """Whether a message may hold these characters (those of XML 1.0)."""
    # Nearly every body is printable, which is quick to see.
    return text.isprintable() or _FORBIDDEN.search(text) is None


def is_attribute_name(name: str) -> bool:
    return _ATTRIBUTE_NAME.fullmatch(name) is not None and ".." not in name


def new_message_id() -> str:
    """A version 4 UUID; it must be unique, not secret."""
    bits = random.getrandbits(128)
    digits = f"{bits:032x}"
    variant = "89ab"[bits >> 60 & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def derived_message_id(topic_id: UUID, partition: int, offset: int) -> str:
    return str(uuid5(topic_id, f"{partition}:{offset}"))


def attribute_headers(attributes: Mapping[str, AttributeValue]) -> Iterator[Header]:
    for name, attribute in attributes.items():
        key = ATTRIBUTE_PREFIX + name if name.startswith(RESERVED_PREFIX) else name
        if attribute.is_binary:
            yield key, base64.b64decode(attribute.binary_value or "")
        else:
            yield key, (attribute.string_value or "").encode()
        if attribute.data_type != "String":
            yield TYPE_PREFIX + name, (attribute.data_type or "").encode()


def body_of(value: bytes | None) -> tuple[str, bool]:
    """The body, and whether it is base64 because the value is no text that SQS can carry."""
    if value is None:
        return "", False
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode(), True
    if is_sendable(text):
        return text, False
    return base64.b64encode(value).decode(), True


def attributes_of(record: Record, *, is_base64: bool) -> dict[str, AttributeValue]:
    """The message attributes that a record's headers stand for; at most ten, as SQS has."""
    types = {
        name[len(TYPE_PREFIX) :]: (value or b"").decode("utf-8", "replace")
        for name, value in record.headers
        if name.startswith(TYPE_PREFIX)
    }
    found: dict[str, AttributeValue] = {}
    if is_base64:
        found[ENCODING_ATTRIBUTE] = AttributeValue(data_type="String", string_value="base64")
    for key, value in record.headers:
        name = key.removeprefix(ATTRIBUTE_PREFIX)
        if len(found) == ATTRIBUTES_MAX:
            break
        if name == key and key.startswith(_NO_ATTRIBUTES):
            continue
        if value and is_attribute_name(name):
            found[name] = _attribute(value, types.get(name))
    return found


def _attribute(value: bytes, data_type: str | None) -> AttributeValue:
    if data_type is not None and data_type.startswith("Binary"):
        return AttributeValue(data_type=data_type, binary_value=base64.b64encode(value).decode())
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if not is_sendable(text):
        return AttributeValue(data_type="Binary", binary_value=base64.b64encode(value).decode())
    return AttributeValue(data_type=data_type or "String", string_value=text)
