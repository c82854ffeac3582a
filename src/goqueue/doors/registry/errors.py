"""Refusals as Confluent's registry numbers them: the first three digits are the HTTP status."""

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from goqueue.model import errors as model
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal
from goqueue.model.schemas.tenant_subjects import local_words
from goqueue.model.security.quotas import QuotaExceeded

logger = logging.getLogger(__name__)

CODE_OF: Final[Mapping[RefusalKind, int]] = {
    RefusalKind.SUBJECT_NOT_FOUND: 40401,
    RefusalKind.VERSION_NOT_FOUND: 40402,
    RefusalKind.SCHEMA_NOT_FOUND: 40403,
    RefusalKind.SUBJECT_SOFT_DELETED: 40404,
    RefusalKind.SUBJECT_NOT_SOFT_DELETED: 40405,
    RefusalKind.VERSION_SOFT_DELETED: 40406,
    RefusalKind.VERSION_NOT_SOFT_DELETED: 40407,
    RefusalKind.SUBJECT_CONFIG_NOT_SET: 40408,
    RefusalKind.SUBJECT_MODE_NOT_SET: 40409,
    RefusalKind.INCOMPATIBLE: 409,
    RefusalKind.INVALID_SCHEMA: 42201,
    RefusalKind.INVALID_VERSION: 42202,
    RefusalKind.INVALID_COMPATIBILITY: 42203,
    RefusalKind.INVALID_MODE: 42204,
    RefusalKind.NOT_PERMITTED: 42205,
    RefusalKind.REFERENCE_EXISTS: 42206,
    RefusalKind.INVALID_SUBJECT: 42208,
    RefusalKind.SCHEMA_TOO_LARGE: 42209,
    RefusalKind.CONTEXT_NOT_EMPTY: 42211,
    RefusalKind.UNSUPPORTED: 422,
    RefusalKind.WORKER_FAILED: 50001,
}
_STORE_FAILED: Final = 50001
_BUSY: Final = 503
# As Confluent's security plugin refuses.
_DENIED: Final = 40301
_UNKNOWN_CALLER: Final = 40101
_TOO_MANY: Final = 429


class HttpRefusal(Exception):
    """What this door refuses by itself; the code is the HTTP status.

    `allowed` are the methods that a path takes, where the one that was used is not among them.
    """

    def __init__(self, status: int, message: str, *, allowed: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.allowed = allowed


class ErrorBody(msgspec.Struct, frozen=True):
    error_code: int
    message: str


class ErrorAnswer(NamedTuple):
    status: int
    body: ErrorBody


def answer_to(error: Exception) -> ErrorAnswer:
    if isinstance(error, HttpRefusal):
        code = _UNKNOWN_CALLER if error.status == 401 else error.status
    elif isinstance(error, RegistryRefusal):
        code = CODE_OF[error.kind]
    elif isinstance(error, model.AccessDenied):
        code = _DENIED
    elif isinstance(error, QuotaExceeded):
        code = _TOO_MANY
    elif isinstance(error, model.GoQueueError):
        # Clients of the registry try again by themselves after 503, not all of them after 500.
        code = _BUSY if error.retriable else _STORE_FAILED
    else:
        logger.error("a request to the schema registry failed", exc_info=error)
        return ErrorAnswer(500, ErrorBody(500, "the registry failed; see the broker's log"))
    status = code if code < 1_000 else code // 100
    return ErrorAnswer(status, ErrorBody(code, str(error)))


def in_words_of(tenant: str, error: Exception) -> Exception:
    """The same refusal, with the names that the tenant uses."""
    error.args = tuple(
        local_words(tenant, each) if isinstance(each, str) else each for each in error.args
    )
    return error
