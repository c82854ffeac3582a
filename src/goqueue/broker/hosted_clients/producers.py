"""Idempotent and transactional producing for doors whose clients have no producer of their own.

The client keeps its identity (transactional id, producer id, epoch) and sends it along; all else is
with the transaction coordinator and the partitions, so nothing is lost when the broker restarts.
Every end of a transaction brings a new epoch (transaction version 2, KIP-890).
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol
from weakref import WeakValueDictionary

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.publishing.publishing import PUBLISH_TIMEOUT_MS
from goqueue.broker.publishing.spreading import published, spread
from goqueue.broker.transactions.transactions import Transactions
from goqueue.model.errors import InvalidRecord, PolicyViolation, UnknownPartition
from goqueue.model.groups.messages import OffsetCommitResult, TxnOffsetCommit
from goqueue.model.log import Produced, Published
from goqueue.model.names import TopicPartition
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import INTERNAL_TOPICS, TopicView
from goqueue.model.transactions.errors import TransactionError, TransactionRefused
from goqueue.model.transactions.messages import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    ProducerIdentity,
    TransactionDescription,
)
from goqueue.model.transactions.states import TransactionState

# The end of the transaction before is waited for: markers take milliseconds, unless a partition is
# offline. Then the client is told to come again.
END_WAIT_SECONDS: Final = 10.0
END_CHECK_SECONDS: Final = 0.005

_ONGOING: Final = TransactionState.ONGOING.label
_PREPARED: Final = frozenset(
    {TransactionState.PREPARE_COMMIT.label, TransactionState.PREPARE_ABORT.label}
)
_MESSAGES: Final = {
    TransactionError.PRODUCER_FENCED: (
        "the epoch is not the current one: the transaction timed out, or another producer has "
        "initialised this transactional id"
    ),
    TransactionError.INVALID_PRODUCER_ID_MAPPING: (
        "the transactional id does not belong to this producer id; initialise again"
    ),
    TransactionError.TRANSACTIONAL_ID_NOT_FOUND: "there is no such transactional id; initialise it",
    TransactionError.CONCURRENT_TRANSACTIONS: (
        "the transaction before is still being ended; try again"
    ),
    TransactionError.INVALID_TRANSACTION_TIMEOUT: (
        "the transaction time-out is outside 1 and transaction.max.timeout.ms"
    ),
    TransactionError.INVALID_TXN_STATE: "no transaction is open; begin one",
    TransactionError.INVALID_REQUEST: (
        "the transactional id is empty, or begins with goqueue.group/ without naming a group and "
        "a member of it"
    ),
}


class ProducerHost(Protocol):
    """The part of the broker that producers stand on."""

    transactions: Transactions

    def clock_ms(self) -> int: ...
    def topic(self, name: str) -> TopicView: ...
    def partition(self, topic: str, index: int) -> Partition: ...

    async def produce(
        self,
        topic: str,
        index: int,
        records: bytearray,
        *,
        acks: int,
        timeout_ms: int,
        transactional_id: str | None = None,
        bumps_epoch: bool = False,
    ) -> Produced: ...

    async def commit_transaction_offsets(
        self, request: TxnOffsetCommit, *, transactional_id: str, adds_offsets: bool
    ) -> OffsetCommitResult: ...


class HostedProducers:
    def __init__(self, host: ProducerHost) -> None:
        self._host = host
        # Sequences are given out one request at a time; a lock goes when nobody holds it.
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    async def init(
        self,
        transactional_id: str | None,
        *,
        timeout_ms: int,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_EPOCH,
    ) -> tuple[int, int]:
        """A producer id and epoch. With a transactional id, earlier producers are fenced and what
        they left open is aborted."""
        request = InitProducerId(
            transactional_id=transactional_id,
            timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        async for _ in _tries():
            answer = await self._host.transactions.init_producer_id(request)
            if answer.error is not TransactionError.CONCURRENT_TRANSACTIONS:
                check(answer.error)
                return answer.producer_id, answer.producer_epoch
        raise refused(TransactionError.CONCURRENT_TRANSACTIONS)

    async def describe(self, identity: ProducerIdentity) -> TransactionDescription:
        """The transaction of this producer, or why it is not its own any more."""
        found = await self._host.transactions.describe(
            DescribeTransaction(transactional_id=identity.transactional_id)
        )
        check(found.error)
        if found.producer_id != identity.producer_id:
            raise refused(TransactionError.INVALID_PRODUCER_ID_MAPPING)
        if found.producer_epoch != identity.producer_epoch:
            raise refused(TransactionError.PRODUCER_FENCED)
        return found

    async def begin(self, identity: ProducerIdentity) -> TransactionDescription:
        """Open a transaction; its time-out runs from here. Repeating it changes nothing."""
        found = await self._settled(identity)
        if found.state in _PREPARED:
            raise refused(TransactionError.CONCURRENT_TRANSACTIONS)
        if found.state == _ONGOING:
            if found.partitions:
                raise refused(
                    TransactionError.INVALID_TXN_STATE,
                    "a transaction is open already; commit or abort it first",
                )
            return found
        await self._add(identity, frozenset())
        return await self._open(identity)

    async def add_partitions(
        self, identity: ProducerIdentity, partitions: frozenset[TopicPartition]
    ) -> TransactionDescription:
        """Publishing does this by itself; needed only to reserve partitions ahead."""
        for topic, index in partitions:
            self._host.partition(topic, index)
            if topic in INTERNAL_TOPICS:
                raise PolicyViolation(f"topic {topic!r} is written by the broker only")
        await self._open(identity)
        await self._add(identity, partitions)
        return await self._open(identity)

    async def publish(
        self,
        identity: ProducerIdentity,
        topic: str,
        records: Sequence[NewRecord],
        partitions: Sequence[int | None],
        *,
        sequence: int | None = None,
    ) -> list[Published]:
        """Append within the open transaction, and answer in the order given."""
        await self._open(identity)
        return await self._publish(identity, topic, records, partitions, sequence)

    async def publish_idempotent(
        self,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        records: Sequence[NewRecord],
        partitions: Sequence[int | None],
        *,
        sequence: int | None = None,
    ) -> list[Published]:
        """Append outside of transactions, each batch once."""
        identity = ProducerIdentity("", producer_id, producer_epoch)
        return await self._publish(identity, topic, records, partitions, sequence)

    async def commit_offsets(
        self, identity: ProducerIdentity, commit: TxnOffsetCommit
    ) -> OffsetCommitResult:
        """Offsets of a group that count when the transaction commits."""
        await self._open(identity)
        return await self._host.commit_transaction_offsets(
            commit, transactional_id=identity.transactional_id, adds_offsets=True
        )

    async def end(
        self, identity: ProducerIdentity, *, commit: bool
    ) -> tuple[ProducerIdentity, TransactionDescription]:
        """Commit or abort; returns the identity to go on with once every partition knows.

        Repeating it with the same identity gives the same answer.
        """
        request = EndTransaction(
            transactional_id=identity.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            commit=commit,
            bumps_epoch=True,
        )
        async for _ in _tries():
            answer = await self._host.transactions.end(request)
            if answer.error is not TransactionError.CONCURRENT_TRANSACTIONS:
                break
        if answer.error is TransactionError.INVALID_TXN_STATE:
            raise refused(
                answer.error,
                "no transaction is open that could end so: it ended already, or it timed out and "
                "was aborted; abort, and begin again with the answer's epoch",
            )
        check(answer.error)
        following = ProducerIdentity(
            identity.transactional_id, answer.producer_id, answer.producer_epoch
        )
        return following, await self._settled(following)

    # --- parts ----------------------------------------------------------------------------

    async def _settled(self, identity: ProducerIdentity) -> TransactionDescription:
        """The transaction once it is not on its way to an end; after a while as it is."""
        async for _ in _tries():
            found = await self._host.transactions.describe(
                DescribeTransaction(transactional_id=identity.transactional_id)
            )
            if found.state not in _PREPARED:
                return await self.describe(identity)
        return found

    async def _open(self, identity: ProducerIdentity) -> TransactionDescription:
        found = await self.describe(identity)
        if found.state != _ONGOING:
            raise refused(TransactionError.INVALID_TXN_STATE)
        return found

    async def _add(self, identity: ProducerIdentity, partitions: frozenset[TopicPartition]) -> None:
        answer = await self._host.transactions.add_partitions(
            AddPartitions(
                transactional_id=identity.transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                partitions=partitions,
            )
        )
        for error in answer.errors.values():
            check(error)

    async def _publish(
        self,
        identity: ProducerIdentity,
        topic: str,
        records: Sequence[NewRecord],
        partitions: Sequence[int | None],
        sequence: int | None,
    ) -> list[Published]:
        count = len(self._host.topic(topic).partitions)
        for index in partitions:
            if index is not None and index >= count:
                raise UnknownPartition(
                    f"partition {index} is not one of topic {topic!r}: it has {count}"
                )
        by_partition = spread(records, partitions, count)
        if sequence is not None and (None in partitions or len(by_partition) > 1):
            raise InvalidRecord(
                "sequence: it counts the messages of one partition, so all must name the same one"
            )
        now_ms = self._host.clock_ms()
        stored: dict[int, Published] = {}
        async with self._locks.setdefault(identity.producer_id, asyncio.Lock()):
            for index, positions in by_partition.items():
                batch = [records[position] for position in positions]
                produced = await self._append(identity, topic, index, batch, sequence, now_ms)
                stored.update(
                    zip(positions, published(batch, index, produced, now_ms), strict=True)
                )
        return [stored[position] for position in range(len(records))]

    async def _append(
        self,
        identity: ProducerIdentity,
        topic: str,
        index: int,
        records: Sequence[NewRecord],
        sequence: int | None,
        now_ms: int,
    ) -> Produced:
        producer_id, epoch = identity.producer_id, identity.producer_epoch
        if sequence is None:
            producers = self._host.partition(topic, index).ledger.producers
            sequence = producers.next_sequence(producer_id, epoch)
        transactional = bool(identity.transactional_id)
        return await self._host.produce(
            topic,
            index,
            encode_records(
                records,
                now_ms=now_ms,
                is_transactional=transactional,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            ),
            acks=-1,
            timeout_ms=PUBLISH_TIMEOUT_MS,
            transactional_id=identity.transactional_id if transactional else None,
            bumps_epoch=transactional,
        )


def refused(error: TransactionError, message: str = "") -> TransactionRefused:
    return TransactionRefused(error, message or _MESSAGES.get(error, ""))


def check(error: TransactionError) -> None:
    if error is not TransactionError.NONE:
        raise refused(error)


async def _tries() -> AsyncIterator[None]:
    """Turns of a loop that waits for the end of a transaction; the first comes at once."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + END_WAIT_SECONDS
    yield
    while loop.time() < give_up_at:
        await asyncio.sleep(END_CHECK_SECONDS)
        yield
