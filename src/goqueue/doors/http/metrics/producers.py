"""Idempotent producers and transactions."""

from collections import Counter
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue.broker.measuring.transactions import producer_figures, transaction_figures
from goqueue.broker.node import Node
from goqueue.doors.http.metrics.families import Families, counter, counters, gauge, gauges
from goqueue.doors.http.metrics.pace import Pace
from goqueue.model.control import MarkerType
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


async def read(broker: Node, pace: Pace) -> Families:
    by_state: Counter[TransactionState] = Counter()
    now_ms = broker.clock_ms()
    oldest_ms = now_ms
    for shard in transaction_figures(broker.transactions):
        by_state += shard.by_state
        if shard.open_since_ms is not None:
            oldest_ms = min(oldest_ms, shard.open_since_ms)
        if pace.is_over:
            await pace.rest()
    ended = Counter(broker.transactions.ended)
    partitions = tuple(broker.hosted)

    def families() -> Iterable[Metric]:
        yield gauges(
            "goqueue_transactional_ids",
            "Transactional ids by the state of their last transaction.",
            ("state",),
            (((state.name.lower(),), by_state[state]) for state in _STATES),
        )
        yield gauge(
            "goqueue_transaction_oldest_open_age_seconds",
            "Since when the oldest open transaction is open; 0 without one.",
            max(0, now_ms - oldest_ms) / 1000,
        )
        yield counters(
            "goqueue_transactions_ended",
            "Transactions ended since the start, by outcome.",
            ("outcome",),
            (((kind.name.lower(),), ended[kind]) for kind in MarkerType),
        )
        figures = producer_figures(partitions)
        yield gauge(
            "goqueue_producers",
            "Idempotent producers that partitions remember, counted once for each partition.",
            figures.producers,
        )
        yield gauge(
            "goqueue_open_transactions",
            "Transactions open in partitions, counted once for each partition.",
            figures.open_transactions,
        )
        yield gauge(
            "goqueue_aborted_transactions",
            "Aborted transactions whose messages are still in the logs.",
            figures.aborted_transactions,
        )
        yield counter(
            "goqueue_producer_duplicate_batches",
            "Batches that producers sent again, stored once.",
            figures.duplicate_batches,
        )

    return families
