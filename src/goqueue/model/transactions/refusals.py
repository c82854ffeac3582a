"""A refusal of the transaction coordinator as an error, with what to do about it."""

from collections.abc import Mapping
from typing import Final

from goqueue.model.errors import GoQueueError
from goqueue.model.transactions.errors import TransactionError

_NEXT_STEP: Final[Mapping[TransactionError, str]] = {
    TransactionError.PRODUCER_FENCED: (
        "the epoch is not the current one: the transaction timed out, or another producer has "
        "initialised this transactional id"
    ),
    TransactionError.INVALID_PRODUCER_ID_MAPPING: (
        "the transactional id does not belong to this producer id; initialise again"
    ),
    TransactionError.TRANSACTIONAL_ID_NOT_FOUND: "there is no such transactional id; initialise it",
    TransactionError.CONCURRENT_TRANSACTIONS: (
        "the transaction before is still being ended; try again"
    ),
    TransactionError.INVALID_TRANSACTION_TIMEOUT: (
        "the transaction time-out is outside 1 and transaction.max.timeout.ms"
    ),
    TransactionError.INVALID_TXN_STATE: "no transaction is open; begin one",
    TransactionError.INVALID_REQUEST: (
        "the transactional id is empty, or begins with goqueue.group/ without naming a group and "
        "a member of it"
    ),
}


class TransactionRefused(GoQueueError):
    """The transaction coordinator says no; `error` is why."""

    code = "transaction_refused"
    error: TransactionError

    def __init__(self, error: TransactionError, message: str = "") -> None:
        reason = message or _NEXT_STEP.get(error)
        super().__init__(reason or f"transaction coordinator answered {error.value}")
        self.error = error


def check(error: TransactionError) -> None:
    if error is not TransactionError.NONE:
        raise TransactionRefused(error)
