"""ListTransactions and DescribeTransactions: reading, never changing.

Patterns run in linear time, by the matcher that topic names have, too.
"""

from collections.abc import Iterable

from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import (
    ListedTransaction,
    ListTransactions,
    ListTransactionsAnswer,
    TransactionDescription,
)
from goqueue.model.transactions.states import NOT_STARTED_MS, TransactionState
from goqueue.state.groups.topic_regex import InvalidRegex, TopicRegex
from goqueue.state.transactions.transaction import Transaction

_STATES = {state.label: state for state in TransactionState}


def list_matching(
    transactions: Iterable[Transaction], request: ListTransactions, now_ms: int
) -> ListTransactionsAnswer:
    transactions = list(transactions)
    pattern = None
    try:
        if request.id_pattern:
            pattern = TopicRegex(request.id_pattern)
            pattern.check_work(sum(len(known.transactional_id) for known in transactions))
    except InvalidRegex:
        return ListTransactionsAnswer(error=TransactionError.INVALID_REGULAR_EXPRESSION)
    states = {_STATES[name] for name in request.states if name in _STATES}

    def matches(transaction: Transaction) -> bool:
        if request.states and transaction.state not in states:
            return False
        if request.producer_ids and transaction.producer_id not in request.producer_ids:
            return False
        if request.running_longer_than_ms >= 0 and not (
            transaction.start_ms != NOT_STARTED_MS
            and now_ms - transaction.start_ms > request.running_longer_than_ms
        ):
            return False
        return pattern is None or pattern.matches(transaction.transactional_id)

    return ListTransactionsAnswer(
        error=TransactionError.NONE,
        unknown_states=tuple(sorted(request.states - _STATES.keys())),
        transactions=tuple(
            ListedTransaction(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                state=transaction.state.label,
            )
            for transaction in transactions
            if matches(transaction)
        ),
    )


def describe_one(transactional_id: str, transaction: Transaction | None) -> TransactionDescription:
    if transaction is None:
        error = (
            TransactionError.TRANSACTIONAL_ID_NOT_FOUND
            if transactional_id
            else TransactionError.INVALID_REQUEST
        )
        return TransactionDescription(error=error, transactional_id=transactional_id)
    return TransactionDescription(
        error=TransactionError.NONE,
        transactional_id=transactional_id,
        state=transaction.state.label,
        timeout_ms=transaction.timeout_ms,
        start_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=transaction.partitions,
    )
