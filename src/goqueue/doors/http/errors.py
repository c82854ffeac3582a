"""Errors as HTTP sees them: a status, and always the same body."""

import logging
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from goqueue.doors.http.coordinator_errors import status_and_code
from goqueue.doors.web.long_poll import ClientGone
from goqueue.doors.web.sending import CHALLENGE, RETRY_AFTER_SECONDS
from goqueue.model import errors as model
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.queues.receipts import InvalidReceipt
from goqueue.model.security.errors import (
    AuthenticationFailed,
    LastAdministrator,
    UnknownKey,
    UnknownTenant,
    UnknownUser,
    UserExists,
)
from goqueue.model.security.quotas import LimitReached, QuotaExceeded
from goqueue.model.transactions.refusals import TransactionRefused

logger = logging.getLogger(__name__)


class ErrorDetail(msgspec.Struct, frozen=True, omit_defaults=True):
    code: str
    message: str
    leader_url: Annotated[
        str | None,
        msgspec.Meta(description="With not_leader: the broker that leads, where one does."),
    ] = msgspec.field(default=None, name="leaderUrl")


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorDetail


class Refusal(Exception):
    """A request that this door refuses by itself, without asking the broker."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


# 400: not of the documented form. 422: of the right form, but what it asks for is refused.
STATUS_OF: Final[Mapping[type[model.GoQueueError], int]] = {
    model.InvalidRequest: 400,
    model.InvalidTopicName: 422,
    model.InvalidPartitions: 422,
    model.InvalidReplicationFactor: 422,
    model.InvalidReplicaAssignment: 422,
    model.InvalidConfig: 422,
    InvalidReceipt: 422,
    model.InvalidRecord: 422,
    model.UnsupportedCompression: 422,
    model.RecordTooLarge: 413,
    model.TopicExists: 409,
    model.Conflict: 409,
    model.UnknownTopic: 404,
    model.UnknownTopicId: 404,
    model.UnknownNode: 404,
    model.UnknownBroker: 404,
    model.NoMoveInProgress: 404,
    model.UnknownQueue: 404,
    model.TooManyInFlight: 503,
    model.UnknownPartition: 404,
    model.InvalidProducerEpoch: 409,
    model.OutOfOrderSequence: 409,
    model.DuplicateSequence: 409,
    model.InvalidTransactionState: 409,
    model.OffsetOutOfRange: 416,
    model.UnknownDelayedMessage: 404,
    UnknownTenant: 404,
    model.UnknownBackup: 404,
    model.TooLateToCancel: 409,
    model.PolicyViolation: 403,
    LimitReached: 403,
    QuotaExceeded: 429,
    model.OlderBrokers: 409,
    AuthenticationFailed: 401,
    UnknownUser: 404,
    UnknownKey: 404,
    UserExists: 409,
    LastAdministrator: 409,
    model.AccessDenied: 403,
    model.NotLeader: 503,
    model.FencedLeaderEpoch: 503,
    model.UnknownLeaderEpoch: 503,
    model.TooFewBrokers: 503,
    model.StateLoading: 503,
    model.NotEnoughReplicas: 503,
    model.NotEnoughReplicasAfterAppend: 503,
    model.OffsetNotAvailable: 503,
    model.NotController: 503,
    model.RequestTimedOut: 503,
    model.PartitionOffline: 503,
    model.BrokerUnreachable: 503,
    model.MetadataUnavailable: 503,
    model.ShuttingDown: 503,
    model.Overloaded: 503,
}

_encode = msgspec.json.Encoder().encode


def status_of(error: model.GoQueueError) -> int:
    for kind in type(error).__mro__:
        if kind in STATUS_OF:
            return STATUS_OF[kind]
    return 500


class Answer(msgspec.Struct, frozen=True):
    """An error, ready to be sent."""

    status: int
    body: bytes
    headers: dict[str, str]


def answer(
    status: int,
    code: str,
    message: str,
    headers: Mapping[str, str] = {},
    *,
    leader_url: str | None = None,
) -> Answer:
    extra = {"retry-after": str(RETRY_AFTER_SECONDS)} if status == 503 else {}
    if status == 401:
        extra = {"www-authenticate": CHALLENGE}
    body = _encode(ErrorBody(ErrorDetail(code, message, leader_url)))
    return Answer(status, body, {**headers, **extra})


def answer_to(error: Exception) -> Answer:
    """What the client gets for `error`. One that nobody foresaw is logged, not told."""
    if isinstance(error, Refusal):
        return answer(error.status, error.code, str(error))
    if isinstance(error, ClientGone):
        return answer(400, "disconnected", str(error))
    if isinstance(error, GroupRefused | TransactionRefused):
        return answer(*status_and_code(error), error.message)
    if isinstance(error, model.GoQueueError):
        status = status_of(error)
        if status >= 500 and not error.retriable:
            logger.error("request failed: %s", error)
        if isinstance(error, QuotaExceeded):
            seconds = -(-error.retry_after_ms // 1000)
            return answer(status, error.code, error.message, {"retry-after": str(seconds)})
        leader_url = error.leader_url if isinstance(error, model.NotLeader) else None
        return answer(status, error.code, error.message, leader_url=leader_url or None)
    logger.error("request failed unexpectedly", exc_info=error)
    return answer(500, "internal", "the broker failed to answer; its log says why")
