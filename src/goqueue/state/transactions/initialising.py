"""Deciding InitProducerId: which producer id and epoch the caller goes on with.

`TakeProducerId` returns None while the next block of ids is on its way; the client retries then.
"""

from collections.abc import Callable

from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.group_names import is_malformed
from goqueue.model.transactions.messages import NO_EPOCH, NO_PRODUCER_ID, InitProducerId
from goqueue.model.transactions.states import NOT_STARTED_MS, TransactionState
from goqueue.state.transactions.transaction import FENCING_EPOCH, LAST_CLIENT_EPOCH, Transaction

TakeProducerId = Callable[[], int | None]


def check_request(request: InitProducerId, max_timeout_ms: int) -> TransactionError:
    has_id = request.producer_id != NO_PRODUCER_ID
    has_epoch = request.producer_epoch != NO_EPOCH
    if request.transactional_id == "" or has_id != has_epoch:
        return TransactionError.INVALID_REQUEST
    if request.transactional_id is not None and is_malformed(request.transactional_id):
        return TransactionError.INVALID_REQUEST
    if request.transactional_id is not None and not 0 < request.timeout_ms <= max_timeout_ms:
        return TransactionError.INVALID_TRANSACTION_TIMEOUT
    return TransactionError.NONE


def begin_id(
    request: InitProducerId, transactional_id: str, take: TakeProducerId, now_ms: int
) -> Transaction | TransactionError:
    """The first state of a transactional id. A caller that names an older id gets a new one, too:
    the coordinator may have expired what it knew."""
    producer_id = take()
    if producer_id is None:
        return TransactionError.COORDINATOR_LOAD_IN_PROGRESS
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=request.timeout_ms,
        state=TransactionState.EMPTY,
        updated_ms=now_ms,
    )


def check_claim(transaction: Transaction, request: InitProducerId) -> TransactionError:
    """Fence a caller that goes on with a producer id it no longer owns (KIP-360)."""
    if request.producer_id == NO_PRODUCER_ID:
        return TransactionError.NONE
    if transaction.state is TransactionState.ONGOING:
        # Only who began the transaction may give it up. Kafka lets a zombie abort it, too, and
        # fences the zombie when it asks again.
        is_owner = (request.producer_id, request.producer_epoch) == (
            transaction.producer_id,
            transaction.producer_epoch,
        )
        return TransactionError.NONE if is_owner else TransactionError.PRODUCER_FENCED
    if request.producer_id == transaction.producer_id:
        return TransactionError.NONE
    # Its epochs were used up and it missed the answer with the new id.
    is_retry = (
        request.producer_id == transaction.previous_producer_id
        and request.producer_epoch >= LAST_CLIENT_EPOCH
    )
    return TransactionError.NONE if is_retry else TransactionError.PRODUCER_FENCED


def begin_epoch(
    transaction: Transaction, request: InitProducerId, take: TakeProducerId, now_ms: int
) -> Transaction | TransactionError:
    """The next epoch of an idle transactional id."""
    claimed = request.producer_epoch
    is_new = request.producer_id == NO_PRODUCER_ID
    is_current = claimed == transaction.producer_epoch
    is_retry = not is_current and not is_new and claimed == transaction.last_epoch
    if not (is_new or is_retry or is_current):
        return TransactionError.PRODUCER_FENCED
    if is_retry and transaction.producer_epoch != FENCING_EPOCH:
        # The caller missed the answer. It cannot be a zombie: a new producer would have reset
        # the last epoch. The previous id is kept, for it may miss this answer as well.
        return _emptied(
            transaction,
            request,
            now_ms,
            previous_producer_id=transaction.previous_producer_id,
        )
    if transaction.is_exhausted:
        producer_id = take()
        if producer_id is None:
            return TransactionError.COORDINATOR_LOAD_IN_PROGRESS
        return _emptied(
            transaction,
            request,
            now_ms,
            producer_id=producer_id,
            producer_epoch=0,
            last_epoch=NO_EPOCH if is_new else claimed,
        )
    return _emptied(
        transaction,
        request,
        now_ms,
        producer_epoch=transaction.producer_epoch + 1,
        last_epoch=NO_EPOCH if is_new else transaction.producer_epoch,
    )


def _emptied(
    transaction: Transaction, request: InitProducerId, now_ms: int, **changes: object
) -> Transaction:
    return transaction.moved(
        TransactionState.EMPTY,
        timeout_ms=request.timeout_ms,
        start_ms=NOT_STARTED_MS,
        partitions=frozenset(),
        updated_ms=now_ms,
        **changes,
    )
