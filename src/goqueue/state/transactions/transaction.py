"""The durable state of one transactional id, its transitions, and how it is stored."""

from enum import IntEnum
from typing import Final

import msgspec

from goqueue.model.names import TopicPartition
from goqueue.state.machine import StateRecord
from goqueue.state.transactions.messages import NO_EPOCH, NO_PRODUCER_ID

# Epochs are int16. The last one only ever fences: no client gets it, so that the coordinator can
# always end the transaction of a client that has the one before.
FENCING_EPOCH: Final = 32_767
LAST_CLIENT_EPOCH: Final = FENCING_EPOCH - 1

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
        return self in _IDLE


_PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_IDLE: Final = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
)

VALID_PREVIOUS: Final = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # With version 2 a client may abort without knowing whether anything was begun (KIP-890).
    TransactionState.PREPARE_ABORT: _IDLE | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _IDLE,
}


class Transaction(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="transaction"):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    start_ms: int = NOT_STARTED_MS
    partitions: frozenset[TopicPartition] = frozenset()
    # For telling a retried request from a zombie's (KIP-360, KIP-890).
    last_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    # The id to go on with once a transaction that used up the epochs is complete.
    next_producer_id: int = NO_PRODUCER_ID
    # The markers carry an epoch of their own (transaction version 2).
    bumps_epoch: bool = False

    @property
    def is_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_CLIENT_EPOCH

    def moved(self, state: TransactionState, **changes: object) -> "Transaction":
        """The transaction after a transition; a transition outside the table is a bug."""
        if self.state not in VALID_PREVIOUS[state]:
            raise AssertionError(f"{self.transactional_id}: {self.state.name} to {state.name}")
        changes.setdefault("previous_producer_id", self.producer_id)
        return msgspec.structs.replace(self, state=state, **changes)


class _Key(msgspec.Struct, frozen=True, array_like=True, tag="transactional-id"):
    transactional_id: str


# Sets in sorted order, so that equal states are equal bytes.
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_KEY_DECODER: Final = msgspec.msgpack.Decoder(_Key)
_DECODER: Final = msgspec.msgpack.Decoder(Transaction)


def to_record(transaction: Transaction) -> StateRecord:
    return StateRecord(
        _ENCODER.encode(_Key(transaction.transactional_id)), _ENCODER.encode(transaction)
    )


def to_tombstone(transactional_id: str) -> StateRecord:
    return StateRecord(_ENCODER.encode(_Key(transactional_id)), None)


def from_record(record: StateRecord) -> tuple[str, Transaction | None]:
    transactional_id = _KEY_DECODER.decode(record.key).transactional_id
    if record.value is None:
        return transactional_id, None
    return transactional_id, _DECODER.decode(record.value)
