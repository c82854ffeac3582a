"""Idempotent producers and transactions."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics.families import counter, counters, gauge, gauges
from goqueue.model.control import MarkerType
from goqueue.model.measuring.figures import ProducerFigures, TransactionFigures
from goqueue.model.transactions.states import TransactionState

# The others are never stored (see `TransactionState`).
_STATES = (
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)


def families(transactions: TransactionFigures, producers: ProducerFigures) -> Iterable[Metric]:
    yield gauges(
        "goqueue_transactional_ids",
        "Transactional ids by the state of their last transaction.",
        ("state",),
        (((state.name.lower(),), transactions.by_state.get(state, 0)) for state in _STATES),
    )
    yield gauge(
        "goqueue_transaction_oldest_open_age_seconds",
        "Since when the oldest open transaction is open; 0 without one.",
        max(0, transactions.oldest_open_ms) / 1000,
    )
    yield counters(
        "goqueue_transactions_ended",
        "Transactions ended since the start, by outcome.",
        ("outcome",),
        (((kind.name.lower(),), transactions.ended.get(kind, 0)) for kind in MarkerType),
    )
    yield gauge(
        "goqueue_producers",
        "Idempotent producers that partitions remember, counted once for each partition.",
        producers.producers,
    )
    yield gauge(
        "goqueue_open_transactions",
        "Transactions open in partitions, counted once for each partition.",
        producers.open_transactions,
    )
    yield gauge(
        "goqueue_aborted_transactions",
        "Aborted transactions whose messages are still in the logs.",
        producers.aborted_transactions,
    )
    yield counter(
        "goqueue_producer_duplicate_batches",
        "Batches that producers sent again, stored once.",
        producers.duplicate_batches,
    )
