"""Queues of a tenant: its own names, URLs and ARNs in requests and answers, inner ones behind them.

Every tenant has an account number, which stands in what it is answered. A queue is found by its
name among those of the caller's tenant, whatever number a request has. Nothing of this is done for
callers without a tenant.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from goqueue.doors.sqs.addresses import ACCOUNT
from goqueue.doors.sqs.errors import SqsError
from goqueue.model.security.tenants import SEPARATOR, inner_name, local_name, local_text

_ACCOUNT_DIGITS: Final = 12
# A queue by URL, by path, or by its bare name.
_URL: Final = re.compile(r"((?:https?://[^/]+)?/\d{1,20}/)?([^/?#:]+)")
_ARN: Final = re.compile(r"(arn:[a-z-]{1,20}:sqs:[a-z0-9-]{0,32}:\d{1,20}:)([^:/\"\s]+)")
_ACCOUNT_OF: Final = re.compile(rf"(?<=[:/]){ACCOUNT}(?=[:/])")
# Attributes of queues with ARNs of queues in them, and those that answers have besides. All others
# of an answer are the client's own, such as the group of a message, and stay as they are.
_POLICIES: Final = ("RedrivePolicy", "RedriveAllowPolicy", "Policy")
_ADDRESSED: Final = (*_POLICIES, "QueueArn", "DeadLetterQueueSourceArn")
_SENDER: Final = "SenderId"

T = TypeVar("T")
Change = Callable[[str, str], str]


def account_of(tenant: str) -> str:
    """The same for ever, and for each tenant another; no queue is found by it."""
    digest = hashlib.sha256(f"goqueue account {tenant}".encode()).digest()
    span = 10**_ACCOUNT_DIGITS - 10 ** (_ACCOUNT_DIGITS - 1)
    return str(10 ** (_ACCOUNT_DIGITS - 1) + int.from_bytes(digest) % span)


def inner_request(tenant: str, request: T) -> T:
    changed: T = _changed(tenant, request, _INNER, _inner_attribute)
    return changed


def local_answer(tenant: str, answer: T) -> T:
    changed: T = _changed(tenant, answer, _LOCAL, _local_attribute)
    return changed


def local_error(tenant: str, error: SqsError) -> SqsError:
    return SqsError(
        error.kind, local_text(tenant, error.message), local_text(tenant, error.query_message)
    )


def _changed(
    tenant: str, value: Any, changes: dict[str, Change], attribute: Callable[[str, str, str], str]
) -> Any:
    """A structure with those of its fields changed that are or hold names."""
    if isinstance(value, list):
        return [_changed(tenant, each, changes, attribute) for each in value]
    if not isinstance(value, msgspec.Struct):
        return value
    changed: dict[str, Any] = {}
    for field in msgspec.structs.fields(value):
        found = getattr(value, field.name)
        change = changes.get(field.name)
        if change is not None and isinstance(found, str):
            changed[field.name] = change(tenant, found)
        elif change is not None and isinstance(found, list):
            changed[field.name] = [change(tenant, each) for each in found]
        elif field.name == "attributes" and isinstance(found, dict):
            changed[field.name] = {key: attribute(tenant, key, found[key]) for key in found}
        elif isinstance(found, list):
            changed[field.name] = _changed(tenant, found, changes, attribute)
    return msgspec.structs.replace(value, **changed)


# --- towards the broker -------------------------------------------------------------------


def _inner_url(tenant: str, url: str) -> str:
    found = _URL.fullmatch(url)
    if found is None:
        return url
    return f"{found[1] or f'/{ACCOUNT}/'}{inner_name(tenant, found[2])}"


def _inner_arns(tenant: str, text: str) -> str:
    return _ARN.sub(lambda found: found[1] + inner_name(tenant, found[2]), text)


def _inner_attribute(tenant: str, name: str, text: str) -> str:
    return _inner_arns(tenant, text) if name in _POLICIES else text


# --- towards the client -------------------------------------------------------------------


def _local_addresses(tenant: str, text: str) -> str:
    text = re.sub(rf"(?<=[:/]){re.escape(tenant)}{SEPARATOR}", "", text)
    return _ACCOUNT_OF.sub(account_of(tenant), text)


def _local_attribute(tenant: str, name: str, text: str) -> str:
    if name == _SENDER:
        return account_of(tenant)
    return _local_addresses(tenant, text) if name in _ADDRESSED else text


# --- both ---------------------------------------------------------------------------------


def _within_handle(change: Change) -> Change:
    """A task's handle is base64 of JSON with the ARN of its queue; others are left as they are."""

    def changed(tenant: str, handle: str) -> str:
        try:
            text = base64.b64decode(handle, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return handle
        return base64.b64encode(change(tenant, text).encode()).decode()

    return changed


def _within_token(change: Change) -> Change:
    """A page's token is a name in hexadecimal; what is none is refused where it is read."""

    def changed(tenant: str, token: str) -> str:
        try:
            return change(tenant, bytes.fromhex(token).decode()).encode().hex()
        except ValueError:
            return token

    return changed


_INNER: Final[dict[str, Change]] = {
    "queue_url": _inner_url,
    "queue_name": inner_name,
    "queue_name_prefix": inner_name,
    # It begins with the name of the topic.
    "receipt_handle": inner_name,
    "source_arn": _inner_arns,
    "destination_arn": _inner_arns,
    "task_handle": _within_handle(_inner_arns),
    "next_token": _within_token(inner_name),
}
_LOCAL: Final[dict[str, Change]] = {
    "queue_url": _local_addresses,
    "queue_urls": _local_addresses,
    "receipt_handle": local_name,
    "source_arn": _local_addresses,
    "destination_arn": _local_addresses,
    "task_handle": _within_handle(_local_addresses),
    "next_token": _within_token(local_name),
    "message": local_text,
}
