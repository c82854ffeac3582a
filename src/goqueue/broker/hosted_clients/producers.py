"""Idempotent and transactional producing for doors whose clients have no producer of their own.

The client keeps its identity (transactional id, producer id, epoch) and sends it along; all else is
with the transaction coordinator and the partitions, so nothing is lost when the broker restarts.
Every end of a transaction brings a new epoch (transaction version 2, KIP-890).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

from goqueue.broker.partitions.log import Log
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.publishing.publishing import PUBLISH_TIMEOUT_MS
from goqueue.broker.publishing.spreading import published, spread
from goqueue.broker.transactions.transactions import END_WAIT_SECONDS, Transactions
from goqueue.model.errors import InvalidRecord, PolicyViolation, UnknownPartition
from goqueue.model.groups.messages import OffsetCommitResult
from goqueue.model.log import Produced, Published
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.rights import (
    IdempotentWriter,
    ReadableGroup,
    ReadableTransactionCommit,
    WritableTopic,
    WritableTransactionalId,
)
from goqueue.model.topics import TopicView, is_internal
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import (
    EndTransaction,
    InitProducerId,
    ProducerIdAnswer,
    TransactionDescription,
)
from goqueue.model.transactions.refusals import TransactionRefused, check
from goqueue.model.transactions.states import TransactionState

_ONGOING: Final = TransactionState.ONGOING.label
_PREPARED: Final = frozenset(
    {TransactionState.PREPARE_COMMIT.label, TransactionState.PREPARE_ABORT.label}
)


class ProducerSurroundings(Protocol):
    """What producers need of the broker they live in."""

    transactions: Transactions
    log: Log

    def clock_ms(self) -> int: ...
    def topic(self, name: str) -> TopicView: ...
    def partition(self, topic: str, index: int) -> Partition: ...


class WritableProducer(NamedTuple):
    """A producer's identity, whose transactional id its client may write with."""

    transactional_id: WritableTransactionalId
    producer_id: int
    producer_epoch: int


class _Writer(NamedTuple):
    """Who appends; without a transactional id outside of transactions."""

    transactional_id: WritableTransactionalId | None
    producer_id: int
    producer_epoch: int


class HostedProducers:
    def __init__(self, broker: ProducerSurroundings) -> None:
        self._broker = broker
        # Sequences are given out one request at a time; a lock goes when nobody holds it.
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    async def init(
        self, right: WritableTransactionalId | IdempotentWriter, request: InitProducerId
    ) -> ProducerIdAnswer:
        """A producer id and epoch. With a transactional id, earlier producers are fenced and what
        they left open is aborted."""
        answer = await self._asked(
            request.transactional_id,
            lambda: self._broker.transactions.init_producer_id(right, request),
        )
        check(answer.error)
        return answer

    async def describe(self, producer: WritableProducer) -> TransactionDescription:
        """The transaction of this producer, or why it is not its own any more."""
        found = await self._broker.transactions.describe(producer.transactional_id)
        check(found.error)
        if found.producer_id != producer.producer_id:
            raise TransactionRefused(TransactionError.INVALID_PRODUCER_ID_MAPPING)
        if found.producer_epoch != producer.producer_epoch:
            raise TransactionRefused(TransactionError.PRODUCER_FENCED)
        return found

    async def begin(self, producer: WritableProducer) -> TransactionDescription:
        """Open a transaction; its time-out runs from here. Repeating it changes nothing."""
        found = await self._settled(producer)
        if found.state in _PREPARED:
            raise TransactionRefused(TransactionError.CONCURRENT_TRANSACTIONS)
        if found.state == _ONGOING:
            if found.partitions:
                raise TransactionRefused(
                    TransactionError.INVALID_TXN_STATE,
                    "a transaction is open already; commit or abort it first",
                )
            return found
        await self._broker.transactions.begin(
            producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
        return await self._open(producer)

    async def add_partition(
        self, producer: WritableProducer, topic: WritableTopic, index: int
    ) -> TransactionDescription:
        """Publishing does this by itself; needed only to reserve a partition ahead."""
        self._check_partition(topic, index)
        self._broker.partition(topic, index)
        if is_internal(topic):
            raise PolicyViolation(f"topic {topic!r} is written by the broker only")
        await self._open(producer)
        await self._broker.transactions.add_partition(
            producer.transactional_id,
            topic,
            index,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
        return await self._open(producer)

    async def publish(
        self,
        producer: WritableProducer,
        topic: WritableTopic,
        records: Sequence[NewRecord],
        partitions: Sequence[int | None],
        *,
        sequence: int | None = None,
    ) -> list[Published]:
        """Append within the open transaction, and answer in the order given."""
        await self._open(producer)
        return await self._publish(_Writer(*producer), topic, records, partitions, sequence)

    async def publish_idempotent(
        self,
        producer_id: int,
        producer_epoch: int,
        topic: WritableTopic,
        records: Sequence[NewRecord],
        partitions: Sequence[int | None],
        *,
        sequence: int | None = None,
    ) -> list[Published]:
        """Append outside of transactions, each batch once."""
        producer = _Writer(None, producer_id, producer_epoch)
        return await self._publish(producer, topic, records, partitions, sequence)

    async def commit_offsets(
        self, producer: WritableProducer, group: ReadableGroup, commit: ReadableTransactionCommit
    ) -> OffsetCommitResult:
        """Offsets of a group that count when the transaction commits."""
        await self._open(producer)
        return await self._broker.transactions.commit_offsets(
            producer.transactional_id, group, commit, adds_offsets=True
        )

    async def end(self, producer: WritableProducer, *, commit: bool) -> TransactionDescription:
        """Commit or abort; tells the epoch to go on with, once every partition knows.

        Repeating it with the same identity gives the same answer.
        """
        request = EndTransaction(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            commit=commit,
            bumps_epoch=True,
        )
        answer = await self._asked(
            producer.transactional_id,
            lambda: self._broker.transactions.end(producer.transactional_id, request),
        )
        if answer.error is TransactionError.INVALID_TXN_STATE:
            raise TransactionRefused(
                answer.error,
                "no transaction is open that could end so: it ended already, or it timed out and "
                "was aborted; abort, and begin again with the answer's epoch",
            )
        check(answer.error)
        following = WritableProducer(
            producer.transactional_id, answer.producer_id, answer.producer_epoch
        )
        return await self._settled(following)

    # --- parts ----------------------------------------------------------------------------

    async def _asked(
        self, transactional_id: str | None, ask: Callable[[], Awaitable[ProducerIdAnswer]]
    ) -> ProducerIdAnswer:
        """Ask; as long as the transaction before is being ended, wait for that and ask again."""
        give_up_at = asyncio.get_running_loop().time() + END_WAIT_SECONDS
        while True:
            answer = await ask()
            if answer.error is not TransactionError.CONCURRENT_TRANSACTIONS:
                return answer
            assert transactional_id is not None
            transactions = self._broker.transactions
            if not await transactions.settled(transactional_id, give_up_at=give_up_at):
                return answer

    async def _settled(self, producer: WritableProducer) -> TransactionDescription:
        """The transaction once it is not on its way to an end; after a while as it is."""
        if await self._broker.transactions.settled(producer.transactional_id):
            return await self.describe(producer)
        return await self._broker.transactions.describe(producer.transactional_id)

    async def _open(self, producer: WritableProducer) -> TransactionDescription:
        found = await self.describe(producer)
        if found.state != _ONGOING:
            raise TransactionRefused(TransactionError.INVALID_TXN_STATE)
        return found

    async def _publish(
        self,
        producer: _Writer,
        topic: WritableTopic,
        records: Sequence[NewRecord],
        partitions: Sequence[int | None],
        sequence: int | None,
    ) -> list[Published]:
        count = len(self._broker.topic(topic).partitions)
        for named in dict.fromkeys(partitions):
            self._check_partition(topic, named or 0)
        by_partition = spread(records, partitions, count)
        if sequence is not None and (None in partitions or len(by_partition) > 1):
            raise InvalidRecord(
                "sequence: it counts the messages of one partition, so all must name the same one"
            )
        now_ms = self._broker.clock_ms()
        stored: dict[int, Published] = {}
        async with self._locks.setdefault(producer.producer_id, asyncio.Lock()):
            for index, positions in by_partition.items():
                batch = [records[position] for position in positions]
                produced = await self._append(producer, topic, index, batch, sequence, now_ms)
                stored.update(
                    zip(positions, published(batch, index, produced, now_ms), strict=True)
                )
        return [stored[position] for position in range(len(records))]

    def _check_partition(self, topic: str, index: int) -> None:
        count = len(self._broker.topic(topic).partitions)
        if index >= count:
            raise UnknownPartition(
                f"partition {index} is not one of topic {topic!r}: it has {count}"
            )

    async def _append(
        self,
        producer: _Writer,
        topic: WritableTopic,
        index: int,
        records: Sequence[NewRecord],
        sequence: int | None,
        now_ms: int,
    ) -> Produced:
        producer_id, epoch = producer.producer_id, producer.producer_epoch
        if sequence is None:
            producers = self._broker.partition(topic, index).ledger.producers
            sequence = producers.next_sequence(producer_id, epoch)
        transactional = producer.transactional_id is not None
        return await self._broker.log.produce(
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
            transactional_id=producer.transactional_id,
            bumps_epoch=transactional,
        )
