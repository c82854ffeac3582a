"""Topics read and written by offset: what callers do with the partitions that this node leads."""

from collections.abc import Coroutine, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from goqueue.broker.partitions import fetching, paging
from goqueue.broker.partitions.committed_records import RecordRun, committed_records, read_records
from goqueue.broker.partitions.counting import RecordCounting
from goqueue.broker.partitions.early_refusals import EarlyRefusals
from goqueue.broker.partitions.leading import LedPartitions
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.reading import ReadableCopy
from goqueue.broker.partitions.ready_fetching import CheckPart, ReaderFetch
from goqueue.broker.partitions.ready_list import ReadyList
from goqueue.broker.partitions.waiting import Ending
from goqueue.model.batch import HEADER_BYTES, Buffer, is_transactional, read_header
from goqueue.model.errors import (
    GoQueueError,
    InvalidRecord,
    InvalidRequiredAcks,
    NotEnoughReplicas,
    NotLeader,
    Overloaded,
    PartitionOffline,
    PolicyViolation,
    RequestTimedOut,
    StateLoading,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.model.log import (
    Appended,
    CountRequest,
    EpochEnd,
    FetchedPart,
    FetchPart,
    Isolation,
    ListedOffset,
    PageRequest,
    Produced,
    ProducerView,
    RecordCount,
    RecordPage,
)
from goqueue.model.names import NodeId, PartitionIndex
from goqueue.model.rights import (
    CreatableTopic,
    DeletableTopic,
    DescribableTopic,
    ReadablePart,
    ReadableTopic,
    WritableTopic,
    WritableTransactionalId,
)
from goqueue.model.topics import StoredPartition, is_internal
from goqueue.pace import Pace

# Why a batch may not be appended now, and may be soon.
_PASSING: Final = (NotEnoughReplicas, Overloaded, PartitionOffline, RequestTimedOut, StateLoading)


class TransactionGuard(Protocol):
    """The part of transactions that an append waits for."""

    async def verify(
        self, partition: Partition, records: Buffer, transactional_id: str, *, bumps_epoch: bool
    ) -> int | None: ...


class BatchIntake(Protocol):
    """The way of a batch into a partition, past schemas and delays."""

    def append_checked(
        self, partition: Partition, records: Buffer, *, guard: int | None = None
    ) -> Coroutine[Any, Any, Appended]: ...


class FetchStories(Protocol):
    """The part of tracing that is told who got which batches."""

    @property
    def is_enabled(self) -> bool: ...
    def fetched(
        self, wanted: Sequence[FetchPart], parts: Sequence[FetchedPart], consumer: str | None
    ) -> None: ...


class Racks(Protocol):
    """Knows which replica is closest to a reader."""

    def nearest(self, rack: str, copy: ReadableCopy, offset: int) -> NodeId | None: ...


class Log:
    def __init__(
        self,
        led: LedPartitions,
        *,
        fetch_max_bytes: int,
        stories: FetchStories,
        transactions: TransactionGuard,
        intake: BatchIntake,
    ) -> None:
        self._led = led
        self._fetch_max_bytes = fetch_max_bytes
        self._stories = stories
        self._transactions = transactions
        self._intake = intake
        self._counting = RecordCounting()
        self._early = EarlyRefusals()
        # None: everyone reads from leaders.
        self.racks: Racks | None = None

    # --- writing --------------------------------------------------------------------------

    async def produce(
        self,
        topic: WritableTopic,
        index: int,
        records: Buffer,
        *,
        acks: int,
        timeout_ms: int,
        transactional_id: WritableTransactionalId | None = None,
        bumps_epoch: bool = False,
    ) -> Produced:
        """Append, then wait as `acks` asks. The append comes first: call order is log order.

        Few wait before it: the first batch of a transaction in a partition for the transaction
        coordinator, others in turn for schemas and delays. `bumps_epoch`: the client speaks
        transaction version 2 (KIP-890).
        """
        if acks not in (-1, 0, 1):
            raise InvalidRequiredAcks(f"acks {acks} is not one of -1 (all), 0 and 1")
        try:
            partition = self._led.find(topic, index)
        except (NotLeader, UnknownPartition, UnknownTopic) as error:
            self._early.add(topic, index, records, error)
            raise
        if self._early:
            self._early.tell(topic, index, partition)
        if is_internal(topic):
            raise PolicyViolation(f"topic {topic!r} is written by the broker only")
        if transactional_id is None and is_transactional(records):
            raise InvalidRecord("a transactional batch was sent without a transactional id")
        try:
            if acks == -1 and partition.leading is not None:
                partition.check_enough_in_sync()
            if transactional_id is not None:
                appended = await self._append_in_transaction(
                    partition, records, transactional_id, bumps_epoch
                )
            else:
                appended = await self._intake.append_checked(partition, records)
        except _PASSING as error:
            partition.refused(records, error)
            raise
        except NotLeader as error:
            if partition.offline_reason is None:
                # Another broker leads its delays, for a moment: what follows on is in order, too.
                partition.refused(records, error)
            raise
        if acks != 0 and appended.last_offset >= partition.high_watermark:
            await partition.wait_acknowledged(acks, appended.last_offset + 1, timeout_ms)
        return Produced(*appended, partition.log_start_offset)

    async def _append_in_transaction(
        self,
        partition: Partition,
        records: Buffer,
        transactional_id: WritableTransactionalId,
        bumps_epoch: bool,
    ) -> Appended:
        """A producer's batches follow each other also while the first waits for the coordinator."""
        turns = partition.producer_turns
        if len(records) >= HEADER_BYTES:
            header = read_header(records)
            producer_id = header.producer_id
            must_wait = not partition.ledger.producers.has_ongoing(
                producer_id, header.producer_epoch
            )
            if must_wait or producer_id in turns:
                async with turns.held(producer_id):
                    return await self._append_verified(
                        partition, records, transactional_id, bumps_epoch
                    )
        return await self._append_verified(partition, records, transactional_id, bumps_epoch)

    async def _append_verified(
        self,
        partition: Partition,
        records: Buffer,
        transactional_id: WritableTransactionalId,
        bumps_epoch: bool,
    ) -> Appended:
        guard = await self._transactions.verify(
            partition, records, transactional_id, bumps_epoch=bumps_epoch
        )
        return await self._intake.append_checked(partition, records, guard=guard)

    async def delete_records(self, topic: DeletableTopic, index: int, before_offset: int) -> int:
        """Move the log start; returns the new one."""
        partition = self._led.find(topic, index)
        if is_internal(topic):
            raise PolicyViolation(f"records of {topic!r} are deleted by the broker only")
        return await partition.delete_records(before_offset)

    # --- reading --------------------------------------------------------------------------

    async def fetch(
        self,
        parts: Sequence[ReadablePart],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: Isolation,
        consumer: str | None = None,
        rack: str = "",
        until: Ending | None = None,
    ) -> list[FetchedPart]:
        """Batches as they are stored, in the order asked for. Waits no longer than `until`.

        `consumer`: who gets all of them, for the stories of the messages; None if the caller takes
        single messages out of them, and notes those.
        """
        fetched = await fetching.fetch(
            self._finder(rack),
            parts,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=min(max_bytes, self._fetch_max_bytes),
            isolation=isolation,
            nearest=self._nearest_to(rack),
            until=until,
        )
        if consumer is not None and self._stories.is_enabled:
            self._stories.fetched(parts, fetched, consumer)
        return fetched

    async def fetch_ready(
        self,
        ready: ReadyList,
        wanted: Mapping[Hashable, FetchPart],
        check: CheckPart,
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: Isolation,
        looks_at_all: bool,
        consumer: str,
        rack: str = "",
        until: Ending | None = None,
    ) -> dict[Hashable, FetchedPart]:
        """As `fetch`, of those of `wanted` that are ready; `check` tells what the caller may read.

        `looks_at_all`: also at those for which there is no space left in the answer.
        """
        fetching = ReaderFetch(
            self._finder(rack),
            ready,
            wanted,
            check,
            max_bytes=min(max_bytes, self._fetch_max_bytes),
            isolation=isolation,
            looks_at_all=looks_at_all,
            nearest=self._nearest_to(rack),
        )
        found = await fetching.run(max_wait_ms=max_wait_ms, min_bytes=min_bytes, until=until)
        if self._stories.is_enabled:
            self._stories.fetched(
                [fetching.asked[key] for key in found], list(found.values()), consumer
            )
        return found

    def _finder(self, rack: str) -> fetching.CopyFinder:
        """Who says where it stands may have been sent here, though another broker leads."""
        return self._led.find_copy if rack and self.racks is not None else self._led.find

    def _nearest_to(self, rack: str) -> fetching.Nearest | None:
        racks = self.racks
        return None if racks is None or not rack else partial(racks.nearest, rack)

    async def read_page(
        self, topic: ReadableTopic, index: int, wanted: PageRequest, *, consumer: str
    ) -> RecordPage:
        """Single records, without what was not committed."""
        max_bytes = min(wanted.max_bytes, self._fetch_max_bytes)
        wanted = replace(wanted, max_bytes=max_bytes)
        return await paging.read_page(self._led.find, topic, index, wanted, consumer)

    async def read_records(
        self,
        topic: ReadableTopic,
        index: int,
        offset: int,
        *,
        limit: int,
        max_bytes: int,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> RecordPage:
        """Single records from `offset` on, as the broker reads them for its own work."""
        return await read_records(
            self._led.find,
            topic,
            index,
            offset,
            limit=limit,
            max_bytes=min(max_bytes, self._fetch_max_bytes),
            isolation=isolation,
        )

    async def records_of(
        self, part: ReadablePart, found: FetchedPart, *, limit: int, max_bytes: int
    ) -> RecordRun:
        """Single records of what was fetched, without what was not committed."""
        partition = self._led.find(part.topic, part.index)
        return await committed_records(
            found,
            part.offset,
            limit=limit,
            max_bytes=max_bytes,
            decoder=partition.decoder,
            bounds=partition.config.decoding_bounds,
        )

    async def count_records(
        self, topic: ReadableTopic, index: int, wanted: CountRequest, *, asker: str
    ) -> RecordCount:
        """Records without markers, and without what was aborted if `wanted` says so; none is read.

        Askers take turns.
        """
        return await self._counting.count(self._led.find(topic, index), wanted, asker=asker)

    async def list_offset(
        self,
        topic: DescribableTopic | ReadableTopic,
        index: int,
        timestamp: int,
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        leader_epoch: int = -1,
    ) -> ListedOffset:
        partition = self._led.find(topic, index)
        partition.check_leader_epoch(leader_epoch)
        return await partition.list_offset(timestamp, isolation=isolation)

    def offset_for_leader_epoch(
        self, topic: DescribableTopic, index: int, epoch: int, *, current_epoch: int
    ) -> EpochEnd:
        partition = self._led.find(topic, index)
        partition.check_online()
        partition.check_leader_epoch(current_epoch)
        return partition.end_of_epoch(epoch)

    def producers(self, topic: ReadableTopic, index: int) -> list[ProducerView]:
        """Who writes to a partition, and which transactions are open there. Followers tell as well,
        as in Kafka: `kafka-transactions.sh find-hanging` asks one broker for all that it holds."""
        return self._led.find_copy(topic, index).ledger.producers.describe()

    def stored(
        self, topic: DescribableTopic | CreatableTopic, partitions: Iterable[PartitionIndex]
    ) -> list[StoredPartition]:
        """What this broker has of a topic."""
        return [self._stored(topic, index) for index in partitions]

    async def sizes(self) -> dict[str, int]:
        """Bytes of each topic, in partitions that this broker leads."""
        sizes: dict[str, int] = {}
        pace = Pace()  # there may be thousands
        for partition in self._led.all():
            if pace.is_over:
                await pace.rest()
            name = partition.name.topic
            sizes[name] = sizes.get(name, 0) + partition.log.size_bytes
        return sizes

    def _stored(self, topic: str, index: PartitionIndex) -> StoredPartition:
        try:
            partition = self._led.find(topic, index)
        except GoQueueError as error:
            return StoredPartition(index, None, None, None, error.message)
        return StoredPartition(
            index,
            partition.log_start_offset,
            partition.high_watermark,
            partition.log.size_bytes,
            partition.offline_reason,
        )
