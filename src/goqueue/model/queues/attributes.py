"""The attributes of a queue as SQS has them: which there are, and what they may be.

Limits, defaults and words are those of the SQS API reference (CreateQueue, SetQueueAttributes).
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from goqueue.model.digits import number_in
from goqueue.model.errors import InvalidRequest
from goqueue.model.queues.arns import name_in_arn
from goqueue.model.queues.refusals import InvalidAttribute, UnknownAttribute

FIFO_SUFFIX: Final = ".fifo"
MESSAGE_SIZE_MAX_BYTES: Final = 1_048_576
MAX_RECEIVE_COUNT_MAX: Final = 1_000
SOURCE_QUEUES_MAX: Final = 10
# SQS Developer Guide, "Policy quotas"; held against the two policies of redrives, too, where ten
# ARNs take a fifth of it.
POLICY_MAX_BYTES: Final = 8_192
# KMS API reference, KeyId.
KEY_ID_MAX_BYTES: Final = 2_048
# Of a value that is refused.
_SHOWN_CHARACTERS_MAX: Final = 200

_STANDARD_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII)
_FIFO_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo", re.ASCII)

# Computed, so nobody can set them.
READ_ONLY: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
    "CreatedTimestamp",
    "LastModifiedTimestamp",
    "QueueArn",
)
FIFO_ONLY: Final = (
    "FifoQueue",
    "ContentBasedDeduplication",
    "DeduplicationScope",
    "FifoThroughputLimit",
)


def invalid_parameter(name: str, value: object, reason: str) -> InvalidRequest:
    shown = str(value)
    if len(shown) > _SHOWN_CHARACTERS_MAX:
        shown = shown[:_SHOWN_CHARACTERS_MAX] + "…"
    return InvalidRequest(f"Value {shown} for parameter {name} is invalid. Reason: {reason}")


class RedrivePolicy(NamedTuple):
    target: str
    max_receive_count: int


def _number(minimum: int, maximum: int) -> Callable[[str, str], None]:
    def check(name: str, text: str) -> None:
        number = number_in(text)
        if number is None or not minimum <= number <= maximum:
            raise InvalidAttribute(f"Invalid value for the parameter {name}.")

    return check


def _choice(*choices: str) -> Callable[[str, str], None]:
    def check(name: str, text: str) -> None:
        if text not in choices:
            raise InvalidAttribute(f"Invalid value for the parameter {name}.")

    return check


def check_length(name: str, text: str, max_bytes: int) -> None:
    size_bytes = len(text.encode(errors="surrogatepass"))
    if size_bytes > max_bytes:
        raise InvalidAttribute(
            f"Invalid value for the parameter {name}. Reason: it has {size_bytes} bytes, at most "
            f"{max_bytes} are allowed."
        )


def _json_object(name: str, text: str) -> None:
    check_length(name, text, POLICY_MAX_BYTES)
    if text:
        _parse_object(name, text)


def _key_id(name: str, text: str) -> None:
    check_length(name, text, KEY_ID_MAX_BYTES)


_CHECKS: Final[Mapping[str, Callable[[str, str], None]]] = {
    "DelaySeconds": _number(0, 900),
    "MaximumMessageSize": _number(1_024, MESSAGE_SIZE_MAX_BYTES),
    "MessageRetentionPeriod": _number(60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": _number(0, 20),
    "VisibilityTimeout": _number(0, 43_200),
    "Policy": _json_object,
    "RedrivePolicy": _json_object,
    "RedriveAllowPolicy": _json_object,
    "KmsMasterKeyId": _key_id,
    "KmsDataKeyReusePeriodSeconds": _number(60, 86_400),
    "SqsManagedSseEnabled": _choice("true", "false"),
    "FifoQueue": _choice("true", "false"),
    "ContentBasedDeduplication": _choice("true", "false"),
    "DeduplicationScope": _choice("queue", "messageGroup"),
    "FifoThroughputLimit": _choice("perQueue", "perMessageGroupId"),
}

DEFAULTS: Final[Mapping[str, str]] = {
    "VisibilityTimeout": "30",
    "MaximumMessageSize": str(MESSAGE_SIZE_MAX_BYTES),
    "MessageRetentionPeriod": "345600",
    "DelaySeconds": "0",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
}
FIFO_DEFAULTS: Final[Mapping[str, str]] = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}
# Setting these to what stands here takes them away.
REMOVED_WHEN: Final[Mapping[str, str]] = {
    "Policy": "",
    "RedrivePolicy": "",
    "RedriveAllowPolicy": "",
    "KmsMasterKeyId": "",
    "KmsDataKeyReusePeriodSeconds": "300",
}
ALL_NAMES: Final = frozenset({*_CHECKS, *READ_ONLY})


_BOOLEANS: Final = frozenset({"SqsManagedSseEnabled", "FifoQueue", "ContentBasedDeduplication"})
_AS_PYTHON_WRITES: Final = {"True": "true", "False": "false"}


def plain_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    """Truth values as they are kept; AWS takes them with a capital, too."""
    return {
        name: _AS_PYTHON_WRITES.get(text, text) if name in _BOOLEANS else text
        for name, text in attributes.items()
    }


def check_name(name: str, attributes: Mapping[str, str]) -> None:
    """The naming rules of CreateQueue."""
    if attributes.get("FifoQueue") == "true":
        if not _FIFO_NAME.fullmatch(name):
            raise InvalidRequest(
                "The name of a FIFO queue can only include alphanumeric characters, hyphens, or "
                "underscores, must end with .fifo suffix and be 1 to 80 in length"
            )
    elif not _STANDARD_NAME.fullmatch(name):
        raise InvalidRequest(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )


def check_attributes(name: str, attributes: Mapping[str, str], *, is_new: bool) -> None:
    """Refuse what a queue of this name cannot have."""
    is_fifo = name.endswith(FIFO_SUFFIX)
    for attribute, text in attributes.items():
        check = _CHECKS.get(attribute)
        if check is None or (attribute in FIFO_ONLY and not is_fifo):
            raise UnknownAttribute(f"Unknown Attribute {attribute}.")
        if attribute == "FifoQueue" and not is_new and text != "true":
            raise InvalidAttribute(
                "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not "
                "supported.",
            )
        check(attribute, text)
    parse_redrive_policy(attributes.get("RedrivePolicy", ""))
    parse_redrive_allow_policy(attributes.get("RedriveAllowPolicy", ""))
    if attributes.get("KmsMasterKeyId") and attributes.get("SqsManagedSseEnabled") == "true":
        raise UnknownAttribute(
            "You can use one type of server-side encryption (SSE) at one time. You can either "
            "enable KMS SSE or SQS SSE.",
        )
    if (
        attributes.get("FifoThroughputLimit") == "perMessageGroupId"
        and attributes.get("DeduplicationScope", "messageGroup") != "messageGroup"
    ):
        raise InvalidRequest(
            "The perMessageGroupId value of FifoThroughputLimit is allowed only when the value of "
            "DeduplicationScope is messageGroup."
        )


def parse_redrive_policy(text: str) -> RedrivePolicy | None:
    if not text:
        return None
    policy = _parse_object("RedrivePolicy", text)
    if unknown := set(policy) - {"deadLetterTargetArn", "maxReceiveCount"}:
        raise invalid_parameter(
            "RedrivePolicy",
            text,
            f"Only following attributes are supported: "
            f"[deadLetterTargetArn, maxReceiveCount], not {sorted(unknown)}.",
        )
    for name in ("deadLetterTargetArn", "maxReceiveCount"):
        if name not in policy:
            raise invalid_parameter(
                "RedrivePolicy",
                text,
                f"Redrive policy does not contain mandatory attribute: {name}.",
            )
    target = name_in_arn(str(policy["deadLetterTargetArn"]))
    if target is None:
        raise invalid_parameter("RedrivePolicy", text, "Invalid value for deadLetterTargetArn.")
    count = str(policy["maxReceiveCount"])
    number = number_in(count)
    if number is None or not 1 <= number <= MAX_RECEIVE_COUNT_MAX:
        raise invalid_parameter(
            "RedrivePolicy",
            text,
            f"Invalid value for maxReceiveCount: {count}, valid values are from 1 to "
            f"{MAX_RECEIVE_COUNT_MAX} both inclusive.",
        )
    return RedrivePolicy(target, number)


class RedriveAllowPolicy(NamedTuple):
    """`sources` are names of queues; None for all, empty for none."""

    sources: frozenset[str] | None

    def allows(self, source: str) -> bool:
        return self.sources is None or source in self.sources


def parse_redrive_allow_policy(text: str) -> RedriveAllowPolicy:
    if not text:
        return RedriveAllowPolicy(None)
    policy = _parse_object("RedriveAllowPolicy", text)
    permission = policy.get("redrivePermission")
    if permission not in ("allowAll", "denyAll", "byQueue"):
        raise invalid_parameter(
            "RedriveAllowPolicy",
            text,
            "redrivePermission must be one of allowAll, denyAll and byQueue.",
        )
    arns = policy.get("sourceQueueArns", [])
    if permission != "byQueue":
        if arns:
            raise invalid_parameter(
                "RedriveAllowPolicy", text, "sourceQueueArns goes with byQueue only."
            )
        return RedriveAllowPolicy(None if permission == "allowAll" else frozenset())
    if not isinstance(arns, list) or not 1 <= len(arns) <= SOURCE_QUEUES_MAX:
        raise invalid_parameter(
            "RedriveAllowPolicy", text, f"sourceQueueArns needs 1 to {SOURCE_QUEUES_MAX} ARNs."
        )
    names = [name_in_arn(str(arn)) for arn in arns]
    if None in names:
        raise invalid_parameter("RedriveAllowPolicy", text, "Invalid value for sourceQueueArns.")
    return RedriveAllowPolicy(frozenset(name for name in names if name is not None))


def _parse_object(name: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise invalid_parameter(name, text, "Policy is not a valid JSON map.")
    return found
