"""The states of a transaction, by Kafka's numbers and names."""

from enum import IntEnum
from typing import Final

NOT_STARTED_MS: Final = -1


class TransactionState(IntEnum):
    """Numbered and named as Kafka's. `DEAD` and `PREPARE_EPOCH_FENCE` are never stored here: an
    expired id is a tombstone, and a fencing abort goes straight to `PREPARE_ABORT`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        return self in _PREPARED

    @property
    def is_idle(self) -> bool:
        """No transaction is open: a new one may begin, and the id may expire."""
        return self in IDLE


_PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})


IDLE: Final = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
)
