"""From what a client sends to a record, checked: what SQS would refuse is refused here."""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from goqueue.doors.sqs.digests import attributes_digest, body_digest
from goqueue.doors.sqs.errors import (
    ErrorKind,
    SqsError,
    invalid_parameter,
    invalid_value,
    missing,
)
from goqueue.doors.sqs.message_headers import (
    ATTRIBUTES_MAX,
    attribute_headers,
    is_attribute_name,
    is_sendable,
    new_message_id,
)
from goqueue.doors.sqs.requests import AttributeMap, AttributeValue, NewMessage
from goqueue.model.queues.fifo import FifoMessage
from goqueue.model.queues.sqs_headers import (
    DEDUPLICATION_ID,
    GROUP_ID,
    MESSAGE_ID,
    SENT_TIMESTAMP,
    TRACE_HEADER,
)
from goqueue.model.queues.sqs_queue import SqsQueue
from goqueue.model.records import Header, NewRecord

DELAY_MAX_SECONDS: Final = 900

_FIFO_ID: Final = re.compile(r"""[0-9A-Za-z!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}""")
_DATA_TYPE: Final = re.compile(r"(String|Number|Binary)(\.[^.].{0,248})?")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_CHARACTERS: Final = (
    "Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | "
    "#x10000 to #x10FFFF"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedMessage:
    """A message that is good to be stored."""

    message_id: str
    body: bytes
    headers: tuple[Header, ...]
    body_md5: str
    attributes_md5: str | None
    system_attributes_md5: str | None
    group_id: str | None
    deduplication_id: str | None
    delay_seconds: int

    def record(self, sent_ms: int) -> NewRecord:
        """For a standard queue."""
        headers = self.headers
        if self.delay_seconds:
            # The record itself is as old as its delivery into the topic.
            headers = (*headers, (SENT_TIMESTAMP, b"%d" % sent_ms))
        return NewRecord(
            value=self.body,
            key=None if self.group_id is None else self.group_id.encode(),
            headers=headers,
            timestamp_ms=sent_ms,
        )

    def fifo(self) -> FifoMessage:
        """For a FIFO queue, whose messages have both ids."""
        assert self.group_id is not None
        assert self.deduplication_id is not None
        return FifoMessage(
            self.message_id,
            self.group_id,
            self.deduplication_id,
            self.body,
            self.headers,
            self.delay_seconds * 1000,
        )


# The longest that AWS X-Ray documents is about a hundred characters.
TRACE_MAX: Final = 1_024


def prepare(queue: SqsQueue, message: NewMessage, trace: str = "") -> PreparedMessage:
    """`trace` becomes the message's AWSTraceHeader unless it has one."""
    if not message.message_body:
        raise missing("MessageBody")
    body = message.message_body.encode()
    attributes = message.message_attributes or {}
    _check_size(queue, len(body) + attributes_size(attributes))
    if not is_sendable(message.message_body):
        raise SqsError(
            ErrorKind.INVALID_MESSAGE_CONTENTS, f"Invalid characters found. {_CHARACTERS}"
        )
    if attributes:
        _check_attributes(attributes, "user")
    deduplication_id = _deduplication_id(queue, message, body)
    message_id = new_message_id()
    headers: list[Header] = [(MESSAGE_ID, message_id.encode())]
    if message.message_group_id is not None:
        headers.append((GROUP_ID, message.message_group_id.encode()))
    if deduplication_id is not None:
        headers.append((DEDUPLICATION_ID, deduplication_id.encode()))
    headers += attribute_headers(attributes)
    system = message.message_system_attributes or {}
    if system:
        headers.append((TRACE_HEADER, _trace_header(system)))
    elif trace and len(trace) <= TRACE_MAX and is_sendable(trace):
        headers.append((TRACE_HEADER, trace.encode()))
    return PreparedMessage(
        message_id=message_id,
        body=body,
        headers=tuple(headers),
        body_md5=body_digest(body),
        attributes_md5=attributes_digest(attributes),
        system_attributes_md5=attributes_digest(system),
        group_id=message.message_group_id,
        deduplication_id=deduplication_id,
        delay_seconds=_delay_seconds(queue, message.delay_seconds),
    )


def attributes_size(attributes: AttributeMap) -> int:
    """Names, types and values count, binary ones as they are before base64."""
    size = 0
    for name, attribute in attributes.items():
        size += len(name.encode()) + len(attribute.data_type or "")
        if attribute.is_binary:
            size += len(attribute.binary_value or "") * 3 // 4
        else:
            size += len((attribute.string_value or "").encode())
    return size


def _check_size(queue: SqsQueue, size_bytes: int) -> None:
    if size_bytes > queue.message_max_bytes:
        raise invalid_value(
            "One or more parameters are invalid. Reason: Message must be shorter than "
            f"{queue.message_max_bytes} bytes."
        )


def _delay_seconds(queue: SqsQueue, given: int | None) -> int:
    if given is None:
        return queue.delay_seconds
    if queue.is_fifo and given:
        raise invalid_parameter(
            "DelaySeconds",
            given,
            "The request include parameter that is not valid for this queue type.",
        )
    if not 0 <= given <= DELAY_MAX_SECONDS:
        raise invalid_parameter(
            "DelaySeconds", given, f"DelaySeconds must be >= 0 and <= {DELAY_MAX_SECONDS}."
        )
    return queue.delay_seconds if queue.is_fifo else given


def no_deduplication_id() -> SqsError:
    return invalid_value(
        "The queue should either have ContentBasedDeduplication enabled or "
        "MessageDeduplicationId provided explicitly"
    )


def _deduplication_id(queue: SqsQueue, message: NewMessage, body: bytes) -> str | None:
    """Check both ids; returns the given one, or that of the content where the queue says so."""
    group, given = message.message_group_id, message.message_deduplication_id
    for name, value in (("MessageGroupId", group), ("MessageDeduplicationId", given)):
        if value is not None and not _FIFO_ID.fullmatch(value):
            raise invalid_parameter(
                name,
                value,
                f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in "
                "length.",
            )
    if not queue.is_fifo:
        if given is not None:
            raise invalid_parameter(
                "MessageDeduplicationId",
                given,
                "The request includes a parameter that is not valid for this queue type.",
            )
        return None
    if group is None:
        raise missing("MessageGroupId")
    if given is not None:
        return given
    if not queue.is_content_deduplicated:
        raise no_deduplication_id()
    return hashlib.sha256(body).hexdigest()


# --- attributes ---------------------------------------------------------------------------


def _check_attributes(attributes: Mapping[str, AttributeValue], owner: str) -> None:
    if len(attributes) > ATTRIBUTES_MAX:
        raise invalid_value(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum "
            f"[{ATTRIBUTES_MAX}]."
        )
    for name, attribute in attributes.items():
        if not is_attribute_name(name):
            raise invalid_value(
                f"The message attribute name '{name}' is invalid. Attribute name can contain A-Z, "
                "a-z, 0-9, underscore (_), hyphen (-), and period (.), can be up to 256 characters "
                "long, must not begin with AWS. or Amazon., and must not begin or end with a "
                "period or have successive ones."
            )
        _check_value(name, attribute, owner)


def _check_value(name: str, attribute: AttributeValue, owner: str) -> None:
    kind = attribute.data_type or ""
    if not kind:
        raise invalid_value(
            f"Message ({owner}) attribute '{name}' must contain a non-empty message attribute type."
        )
    if not _DATA_TYPE.fullmatch(kind):
        raise invalid_value(
            f"The type of message ({owner}) attribute '{name}' is invalid. You must use only the "
            "following supported type prefixes: Binary, Number, String."
        )
    value = attribute.binary_value if attribute.is_binary else attribute.string_value
    if not value:
        prefix = kind.partition(".")[0]
        raise invalid_value(
            f"Message ({owner}) attribute '{name}' must contain a non-empty value of type "
            f"'{prefix if prefix != 'Number' else 'String'}'."
        )
    if attribute.is_binary:
        _check_base64(name, value, owner)
    elif not is_sendable(value):
        raise invalid_value(
            f"Message ({owner}) attribute '{name}' has invalid characters. {_CHARACTERS}"
        )
    elif kind.startswith("Number") and not _NUMBER.fullmatch(value):
        raise invalid_value(
            f"Can't cast the value of message ({owner}) attribute '{name}' to a number."
        )


def _check_base64(name: str, value: str, owner: str) -> None:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise SqsError(
            ErrorKind.MALFORMED,
            f"The binary value of message ({owner}) attribute '{name}' is not base64.",
        ) from None


def _trace_header(attributes: Mapping[str, AttributeValue]) -> bytes:
    for name in attributes:
        if name != "AWSTraceHeader":
            raise invalid_value(f"Message system attribute name '{name}' is invalid.")
    value = attributes["AWSTraceHeader"]
    _check_value("AWSTraceHeader", value, "system")
    if value.data_type != "String":
        raise invalid_value(
            "The type of message system attribute 'AWSTraceHeader' must be 'String'."
        )
    return (value.string_value or "").encode()
