"""The durable state of one transactional id, its transitions, and how it is stored."""

from typing import Final

import msgspec

from goqueue.model.names import TopicPartition
from goqueue.model.transactions.messages import NO_EPOCH, NO_PRODUCER_ID
from goqueue.model.transactions.states import IDLE, NOT_STARTED_MS, TransactionState
from goqueue.state.machine import StateRecord

# Epochs are int16. The last one only ever fences: no client gets it, so that the coordinator can
# always end the transaction of a client that has the one before.
FENCING_EPOCH: Final = 32_767
LAST_CLIENT_EPOCH: Final = FENCING_EPOCH - 1


VALID_PREVIOUS: Final = {
    TransactionState.EMPTY: IDLE,
    TransactionState.ONGOING: IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # With version 2 a client may abort without knowing whether anything was begun (KIP-890).
    TransactionState.PREPARE_ABORT: IDLE | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: IDLE,
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
