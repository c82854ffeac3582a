"""The broker's errors as those of SQS."""

import logging
from typing import Final

from goqueue.doors.sqs.errors import ErrorKind, SqsError, no_such_queue
from goqueue.model.errors import (
    AccessDenied,
    GoQueueError,
    InvalidRequest,
    PolicyViolation,
    TooManyInFlight,
    UnfitRecord,
    UnknownTopic,
)
from goqueue.model.queues.fifo import TooManyIds
from goqueue.model.queues.moves import MoveEnded, UnknownMoveTask
from goqueue.model.queues.refusals import (
    InvalidAttribute,
    OverLimit,
    PurgedJustNow,
    QueueDiffers,
    UnknownAttribute,
)
from goqueue.model.security.quotas import LimitReached, QuotaExceeded

log = logging.getLogger(__name__)

# The first that fits counts.
_KINDS: Final[tuple[tuple[type[GoQueueError], ErrorKind], ...]] = (
    (AccessDenied, ErrorKind.ACCESS_DENIED),
    (UnknownAttribute, ErrorKind.INVALID_ATTRIBUTE_NAME),
    (InvalidAttribute, ErrorKind.INVALID_ATTRIBUTE_VALUE),
    (UnfitRecord, ErrorKind.INVALID_MESSAGE_CONTENTS),
    (InvalidRequest, ErrorKind.INVALID_PARAMETER_VALUE),
    (PolicyViolation, ErrorKind.INVALID_PARAMETER_VALUE),
    (QueueDiffers, ErrorKind.QUEUE_NAME_EXISTS),
    (PurgedJustNow, ErrorKind.PURGE_QUEUE_IN_PROGRESS),
    (OverLimit, ErrorKind.OVER_LIMIT),
    (TooManyInFlight, ErrorKind.OVER_LIMIT),
    (UnknownMoveTask, ErrorKind.RESOURCE_NOT_FOUND),
    (MoveEnded, ErrorKind.UNSUPPORTED_OPERATION),
    (TooManyIds, ErrorKind.REQUEST_THROTTLED),
    (QuotaExceeded, ErrorKind.REQUEST_THROTTLED),
    (LimitReached, ErrorKind.OVER_LIMIT),
    (GoQueueError, ErrorKind.SERVICE_UNAVAILABLE),
)


def refusal(error: Exception) -> SqsError:
    if isinstance(error, SqsError):
        return error
    if isinstance(error, UnknownTopic):
        return no_such_queue()
    for known, kind in _KINDS:
        if isinstance(error, known):
            return SqsError(kind, str(error))
    log.error("an SQS request failed", exc_info=error)
    return SqsError(
        ErrorKind.INTERNAL_FAILURE, "We encountered an internal error. Please try again."
    )
