"""Figures of transactions and of the producers that partitions know."""

from collections import Counter
from collections.abc import Iterable

from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.transactions.transactions import Transactions
from goqueue.model.measuring.figures import ProducerFigures, TransactionFigures
from goqueue.model.transactions.states import TransactionState
from goqueue.pace import Pace


async def read_transactions(
    transactions: Transactions, *, pace: Pace, now_ms: int
) -> TransactionFigures:
    by_state: Counter[TransactionState] = Counter()
    open_since_ms = now_ms
    for shard in transactions.state.loaded_shards():
        known = shard.machine.transactions.values()
        by_state.update(each.state for each in known)
        began = (each.start_ms for each in known if each.state is TransactionState.ONGOING)
        open_since_ms = min(open_since_ms, min(began, default=now_ms))
        if pace.is_over:
            await pace.rest()
    return TransactionFigures(by_state, now_ms - open_since_ms, Counter(transactions.ended))


def read_producers(partitions: Iterable[HostedPartition]) -> ProducerFigures:
    """Plain numbers, which a thread may read as well."""
    producers = open_transactions = aborted = duplicates = 0
    for partition in partitions:
        duplicates += partition.counts.duplicate_batches
        if partition.led is None:
            # Its leader tells of the same ones.
            continue
        known = partition.ledger.producers
        producers += len(known)
        open_transactions += known.open_transaction_count
        aborted += len(partition.ledger.aborted)
    return ProducerFigures(producers, open_transactions, aborted, duplicates)
