"""Deciding how a transaction ends: EndTxn of both versions, fencing aborts, completion.

Version 1: the epoch stays, and a repeated request is known by the state it asks for.
Version 2 (KIP-890): every end raises the epoch, so a repeated request is known by its old epoch.

    state           | abort, old epoch | abort, current | commit, old epoch | commit, current
    Empty           | fenced           | ends, raised   | fenced            | invalid state
    CompleteAbort   | done already     | ends, raised   | invalid state     | invalid state
    CompleteCommit  | invalid state    | ends, raised   | done already      | invalid state
"""

from typing import Final

from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import NO_PRODUCER_ID, EndTransaction
from goqueue.model.transactions.states import TransactionState
from goqueue.state.transactions.initialising import TakeProducerId
from goqueue.state.transactions.transaction import FENCING_EPOCH, LAST_CLIENT_EPOCH, Transaction

_ENDED: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


def end(
    transaction: Transaction, request: EndTransaction, take: TakeProducerId, now_ms: int
) -> Transaction | TransactionError:
    """The prepared transaction, or an error; `NONE` means that this end was done before."""
    if transaction.state.is_prepared:
        # First of all, for its completion may bring the producer id that the caller uses already.
        return TransactionError.CONCURRENT_TRANSACTIONS
    if request.bumps_epoch:
        return _end_raising_epoch(transaction, request, take, now_ms)
    if transaction.producer_id != request.producer_id:
        return TransactionError.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != request.producer_epoch:
        return TransactionError.PRODUCER_FENCED
    if transaction.state is not TransactionState.ONGOING:
        return _repeated(transaction, request)
    return transaction.moved(
        _prepared(request.commit),
        updated_ms=now_ms,
        next_producer_id=NO_PRODUCER_ID,
        bumps_epoch=False,
    )


def _end_raising_epoch(
    transaction: Transaction, request: EndTransaction, take: TakeProducerId, now_ms: int
) -> Transaction | TransactionError:
    was_rotated = (
        transaction.previous_producer_id == request.producer_id
        and request.producer_epoch == LAST_CLIENT_EPOCH
        and transaction.producer_epoch == 0
    )
    if transaction.producer_id != request.producer_id and not was_rotated:
        return TransactionError.INVALID_PRODUCER_ID_MAPPING
    is_current = transaction.producer_epoch == request.producer_epoch
    if not is_current:
        # The next lower epoch alone proves nothing: with version 1, the transaction that ended
        # may be one of the producer that fenced the caller.
        is_retry = transaction.bumps_epoch and transaction.last_epoch == request.producer_epoch
        # A fencing abort may have used the last epoch, which no client may get.
        is_usable = transaction.producer_epoch != FENCING_EPOCH
        if is_retry and is_usable and transaction.state in _ENDED:
            return _repeated(transaction, request)
        return TransactionError.PRODUCER_FENCED
    if transaction.state is not TransactionState.ONGOING and request.commit:
        return TransactionError.INVALID_TXN_STATE
    next_producer_id = NO_PRODUCER_ID
    if transaction.is_exhausted:
        taken = take()
        if taken is None:
            return TransactionError.COORDINATOR_LOAD_IN_PROGRESS
        next_producer_id = taken
    return _raise(transaction, _prepared(request.commit), next_producer_id, now_ms)


def _repeated(transaction: Transaction, request: EndTransaction) -> TransactionError:
    done = TransactionState.COMPLETE_COMMIT if request.commit else TransactionState.COMPLETE_ABORT
    return (
        TransactionError.NONE if transaction.state is done else TransactionError.INVALID_TXN_STATE
    )


def fence(transaction: Transaction, now_ms: int) -> Transaction:
    """Abort an ongoing transaction whose producer is gone or too slow; its epoch ends with it."""
    return _raise(transaction, TransactionState.PREPARE_ABORT, NO_PRODUCER_ID, now_ms)


def commit_member(transaction: Transaction, now_ms: int) -> Transaction:
    """Commit the ongoing transaction of a group's member. Its next use begins with InitProducerId,
    so no producer id is made ready for it when the epochs are used up."""
    return _raise(transaction, TransactionState.PREPARE_COMMIT, NO_PRODUCER_ID, now_ms)


def complete(transaction: Transaction, now_ms: int) -> Transaction:
    """The transaction after its last marker was written."""
    is_commit = transaction.state is TransactionState.PREPARE_COMMIT
    rotates = transaction.next_producer_id != NO_PRODUCER_ID
    return transaction.moved(
        TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        producer_id=transaction.next_producer_id if rotates else transaction.producer_id,
        producer_epoch=0 if rotates else transaction.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        updated_ms=now_ms,
    )


def _prepared(commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT


def _raise(
    transaction: Transaction, state: TransactionState, next_producer_id: int, now_ms: int
) -> Transaction:
    return transaction.moved(
        state,
        producer_epoch=min(transaction.producer_epoch + 1, FENCING_EPOCH),
        last_epoch=transaction.producer_epoch,
        next_producer_id=next_producer_id,
        # An abort without a beginning still needs a start for those who list transactions.
        start_ms=now_ms if transaction.state.is_idle else transaction.start_ms,
        updated_ms=now_ms,
        bumps_epoch=True,
    )
