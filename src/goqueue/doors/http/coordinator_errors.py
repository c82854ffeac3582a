"""What the coordinators of groups and transactions refuse, as HTTP sees it.

409 is for what the caller's own state causes: it joins again, or begins anew. Codes are Kafka's
names in lower case.
"""

from collections.abc import Mapping
from typing import Final

from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.refusals import TransactionRefused

_CONFLICT: Final = 409

_GROUP_STATUS: Final[Mapping[GroupError, int]] = {
    GroupError.COORDINATOR_NOT_AVAILABLE: 503,
    GroupError.NOT_COORDINATOR: 503,
    GroupError.UNSTABLE_OFFSET_COMMIT: 503,
    GroupError.GROUP_ID_NOT_FOUND: 404,
    GroupError.INVALID_REQUEST: 422,
    GroupError.INVALID_GROUP_ID: 422,
    GroupError.INVALID_SESSION_TIMEOUT: 422,
    GroupError.INVALID_REGULAR_EXPRESSION: 422,
    GroupError.UNSUPPORTED_ASSIGNOR: 422,
    GroupError.OFFSET_METADATA_TOO_LARGE: 422,
    GroupError.UNKNOWN_TOPIC_OR_PARTITION: 422,
    GroupError.TOPIC_AUTHORIZATION_FAILED: 403,
}

_TRANSACTION_STATUS: Final[Mapping[TransactionError, int]] = {
    TransactionError.COORDINATOR_LOAD_IN_PROGRESS: 503,
    TransactionError.TRANSACTIONAL_ID_NOT_FOUND: 404,
    TransactionError.INVALID_REQUEST: 422,
    TransactionError.INVALID_TRANSACTION_TIMEOUT: 422,
    TransactionError.INVALID_REGULAR_EXPRESSION: 422,
}


def status_and_code(error: GroupRefused | TransactionRefused) -> tuple[int, str]:
    if isinstance(error, GroupRefused):
        return _GROUP_STATUS.get(error.error, _CONFLICT), error.error.name.lower()
    return _TRANSACTION_STATUS.get(error.error, _CONFLICT), error.error.name.lower()
