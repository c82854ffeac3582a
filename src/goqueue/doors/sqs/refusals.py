"""The broker's errors as those of SQS."""

import logging

from goqueue.doors.sqs.errors import ErrorKind, SqsError, no_such_queue
from goqueue.model.errors import GoQueueError, InvalidRequest, PolicyViolation, UnknownTopic

log = logging.getLogger(__name__)


def refusal(error: Exception) -> SqsError:
    if isinstance(error, SqsError):
        return error
    if isinstance(error, UnknownTopic):
        return no_such_queue()
    if isinstance(error, InvalidRequest | PolicyViolation):
        return SqsError(ErrorKind.INVALID_PARAMETER_VALUE, str(error))
    if isinstance(error, GoQueueError):
        return SqsError(ErrorKind.SERVICE_UNAVAILABLE, str(error))
    log.error("an SQS request failed", exc_info=error)
    return SqsError(
        ErrorKind.INTERNAL_FAILURE, "We encountered an internal error. Please try again."
    )
