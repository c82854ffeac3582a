"""Figures of transactions and of the producers that partitions know."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.transactions.transactions import Transactions
from goqueue.model.transactions.states import TransactionState


class TransactionFigures(NamedTuple):
    """`open_since_ms` is when the oldest open transaction began."""

    by_state: Counter[TransactionState]
    open_since_ms: int | None


def transaction_figures(transactions: Transactions) -> Iterator[TransactionFigures]:
    """Shard by shard."""
    for shard in transactions.state.loaded_shards():
        known = shard.machine.transactions.values()
        began = (each.start_ms for each in known if each.state is TransactionState.ONGOING)
        yield TransactionFigures(Counter(each.state for each in known), min(began, default=None))


class ProducerFigures(NamedTuple):
    """Of all partitions: `producers` counts a producer once for each that it writes to."""

    producers: int
    open_transactions: int
    aborted_transactions: int
    duplicate_batches: int


def producer_figures(partitions: Iterable[Partition]) -> ProducerFigures:
    producers = open_transactions = aborted = duplicates = 0
    for partition in partitions:
        known = partition.ledger.producers
        producers += len(known)
        open_transactions += known.open_transaction_count
        aborted += len(partition.ledger.aborted)
        duplicates += partition.duplicate_batches
    return ProducerFigures(producers, open_transactions, aborted, duplicates)
