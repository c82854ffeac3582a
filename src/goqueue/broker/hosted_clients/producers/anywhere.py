"""Producers of clients that speak to any broker.

Transactions are worked on at the coordinator of their id; messages are stored at the leaders of
their partitions, and offsets where those of their group are.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from goqueue.broker.calls.calls import Calls, Untouched, before_anything_is_done
from goqueue.broker.groups.groups import Groups
from goqueue.broker.hosted_clients.producers.coordinated import (
    CoordinatedProducers,
    WritableProducer,
)
from goqueue.broker.hosted_clients.producers.publishing import ProducerPublishing, Writer
from goqueue.broker.partitions.leading import LedPartitions
from goqueue.broker.partitions.log import Log
from goqueue.broker.transactions.transactions import Transactions
from goqueue.model.calls import Method
from goqueue.model.errors import PolicyViolation, UnknownPartition
from goqueue.model.groups.messages import OffsetCommitResult
from goqueue.model.log import Published
from goqueue.model.records import NewRecord
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
    InitProducerId,
    ProducerIdAnswer,
    TransactionDescription,
)
from goqueue.model.transactions.refusals import TransactionRefused, check


class Init(msgspec.Struct, frozen=True):
    transactional_id: WritableTransactionalId
    wanted: InitProducerId
    # Who asks does.
    administers_cluster: bool = False


class AsProducer(msgspec.Struct, frozen=True):
    producer: WritableProducer

    @property
    def transactional_id(self) -> WritableTransactionalId:
        return self.producer.transactional_id


class AddPartition(AsProducer, frozen=True):
    topic: WritableTopic
    index: int


class End(AsProducer, frozen=True):
    commit: bool


class CommitOffsets(msgspec.Struct, frozen=True):
    producer: WritableProducer
    group: ReadableGroup
    commit: ReadableTransactionCommit
    # Who asks does.
    administers_cluster: bool = False


# Each may be repeated: see "When something fails" in docs/transactions.md.
INIT: Final = Method("producers.init", Init, ProducerIdAnswer, is_repeatable=True)
DESCRIBE: Final = Method(
    "producers.describe", AsProducer, TransactionDescription, is_repeatable=True
)
OPEN: Final = Method("producers.open", AsProducer, TransactionDescription, is_repeatable=True)
BEGIN: Final = Method("producers.begin", AsProducer, TransactionDescription, is_repeatable=True)
ADD_PARTITION: Final = Method(
    "producers.add_partition", AddPartition, TransactionDescription, is_repeatable=True
)
END: Final = Method("producers.end", End, TransactionDescription, is_repeatable=True)
COMMIT_OFFSETS: Final = Method(
    "producers.commit_offsets", CommitOffsets, OffsetCommitResult, is_repeatable=True
)

Q = TypeVar("Q", bound=Init | AsProducer)
R = TypeVar("R")


class ProducerSurroundings(Protocol):
    """What producers need of the broker that their clients speak to."""

    calls: Calls
    led: LedPartitions
    log: Log
    groups: Groups
    transactions: Transactions

    def clock_ms(self) -> int: ...
    def topic(self, name: str) -> TopicView: ...


class ProducersAnywhere:
    def __init__(self, broker: ProducerSurroundings) -> None:
        self._broker = broker
        self._calls = broker.calls
        self._publishing = ProducerPublishing(broker.log, broker.led, broker.calls)
        here = CoordinatedProducers(broker.transactions)
        self._serve(
            INIT,
            lambda asked: here.init(
                asked.transactional_id,
                asked.wanted,
                administers_cluster=asked.administers_cluster,
            ),
        )
        self._serve(DESCRIBE, lambda asked: here.describe(asked.producer))
        self._serve(OPEN, lambda asked: here.open(asked.producer))
        self._serve(BEGIN, lambda asked: here.begin(asked.producer))
        self._serve(
            ADD_PARTITION,
            lambda asked: here.add_partition(asked.producer, asked.topic, asked.index),
        )
        self._serve(END, lambda asked: here.end(asked.producer, commit=asked.commit))
        self._calls.serve(COMMIT_OFFSETS, self._commit_offsets_here)

    def _serve(self, method: Method[Q, R], run: Callable[[Q], Awaitable[R]]) -> None:
        async def at_coordinator(request: Q) -> R:
            with before_anything_is_done():
                await self._broker.transactions.state.shard_for(request.transactional_id)
            return await run(request)

        self._calls.serve(method, at_coordinator)

    async def _ask(self, method: Method[Q, R], request: Q) -> R:
        place = await self._broker.transactions.coordinator(request.transactional_id)
        return await self._calls.ask(method, place, request)

    # --- a producer and its transactions --------------------------------------------------

    async def init(
        self,
        transactional_id: WritableTransactionalId,
        request: InitProducerId,
        *,
        administers_cluster: bool = False,
    ) -> ProducerIdAnswer:
        """A producer id and epoch; earlier producers of the transactional id are fenced, and what
        they left open is aborted."""
        return await self._ask(INIT, Init(transactional_id, request, administers_cluster))

    async def init_idempotent(
        self, right: IdempotentWriter, request: InitProducerId
    ) -> ProducerIdAnswer:
        """A producer id for publishing outside of transactions; any broker gives them out."""
        answer = await self._broker.transactions.init_producer_id(right, request)
        check(answer.error)
        return answer

    async def describe(self, producer: WritableProducer) -> TransactionDescription:
        """The transaction of this producer, or why it is not its own any more."""
        return await self._ask(DESCRIBE, AsProducer(producer))

    async def begin(self, producer: WritableProducer) -> TransactionDescription:
        """Open a transaction; its time-out runs from here. Repeating it changes nothing."""
        return await self._ask(BEGIN, AsProducer(producer))

    async def add_partition(
        self, producer: WritableProducer, topic: WritableTopic, index: int
    ) -> TransactionDescription:
        """Publishing does this by itself; needed only to reserve a partition ahead."""
        self._check_partitions(topic, [index])
        if is_internal(topic):
            raise PolicyViolation(f"topic {topic!r} is written by the broker only")
        return await self._ask(ADD_PARTITION, AddPartition(producer, topic, index))

    async def end(self, producer: WritableProducer, *, commit: bool) -> TransactionDescription:
        """Commit or abort; tells the epoch to go on with, once every partition knows.

        Repeating it with the same identity gives the same answer.
        """
        return await self._ask(END, End(producer, commit))

    # --- what belongs to them -------------------------------------------------------------

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
        await self._ask(OPEN, AsProducer(producer))
        return await self._publish(Writer(*producer), topic, records, partitions, sequence)

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
        writer = Writer(None, producer_id, producer_epoch)
        return await self._publish(writer, topic, records, partitions, sequence)

    async def _publish(
        self,
        writer: Writer,
        topic: WritableTopic,
        records: Sequence[NewRecord],
        partitions: Sequence[int | None],
        sequence: int | None,
    ) -> list[Published]:
        return await self._publishing.publish(
            writer,
            topic,
            records,
            partitions,
            partition_count=self._check_partitions(topic, partitions),
            sequence=sequence,
            now_ms=self._broker.clock_ms(),
        )

    def _check_partitions(self, topic: str, partitions: Sequence[int | None]) -> int:
        """How many the topic has."""
        count = len(self._broker.topic(topic).partitions)
        for index in dict.fromkeys(partitions):
            if index is not None and index >= count:
                raise UnknownPartition(
                    f"partition {index} is not one of topic {topic!r}: it has {count}"
                )
        return count

    async def commit_offsets(
        self,
        producer: WritableProducer,
        group: ReadableGroup,
        commit: ReadableTransactionCommit,
        *,
        administers_cluster: bool = False,
    ) -> OffsetCommitResult:
        """Offsets of a group that count when the transaction commits."""
        await self._ask(OPEN, AsProducer(producer))
        place = await self._broker.groups.coordinator(group)
        request = CommitOffsets(producer, group, commit, administers_cluster)
        return await self._calls.ask(COMMIT_OFFSETS, place, request)

    async def _commit_offsets_here(self, asked: CommitOffsets) -> OffsetCommitResult:
        with before_anything_is_done():
            await self._broker.groups.state.shard_for(asked.group)
        try:
            return await self._broker.transactions.commit_offsets(
                asked.producer.transactional_id,
                asked.group,
                asked.commit,
                adds_offsets=True,
                administers_cluster=asked.administers_cluster,
            )
        except TransactionRefused as error:
            # The coordinator of the transaction is asked first.
            if error.error is TransactionError.COORDINATOR_LOAD_IN_PROGRESS:
                raise Untouched(error) from None
            raise
