"""What is read of a log, asked of the leader of each partition."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from goqueue.broker.calls.calls import (
    GATHER_TIMEOUT_S,
    LATE_MAX_S,
    LEADER_PATIENCE_S,
    Calls,
    Gathered,
)
from goqueue.broker.partitions.leading import LedPartitions
from goqueue.broker.partitions.log import Log
from goqueue.broker.reading.several_logs import SeveralLogs
from goqueue.model.calls import Method
from goqueue.model.errors import GoQueueError, UnknownPartition, UnknownTopic
from goqueue.model.log import (
    CountRequest,
    Isolation,
    ListedOffset,
    LogEnds,
    PageRequest,
    RecordCount,
    RecordPage,
)
from goqueue.model.names import (
    NO_LEADER,
    NodeId,
    PartitionIndex,
    TopicPartition,
    topic_partition,
)
from goqueue.model.rights import CreatableTopic, DescribableTopic, ReadableTopic
from goqueue.model.topics import StoredPartition, TopicView

# A leader that takes longer to commit has failed for whoever waits.
COMMIT_TIMEOUT_MS: Final = 30_000
# For a description nobody waits longer: a leader hears of a new topic a moment later than others.
NEWS_PATIENCE_S: Final = 2.0


class ReadPage(msgspec.Struct, frozen=True):
    topic: ReadableTopic
    index: int
    wanted: PageRequest
    consumer: str


class ReadRecords(msgspec.Struct, frozen=True):
    topic: ReadableTopic
    index: int
    offset: int
    limit: int
    max_bytes: int
    isolation: Isolation


class CountRecords(msgspec.Struct, frozen=True):
    topic: ReadableTopic
    index: int
    wanted: CountRequest
    asker: str


class ListOffset(msgspec.Struct, frozen=True):
    topic: DescribableTopic | ReadableTopic
    index: int
    timestamp: int
    isolation: Isolation


class AskEnds(msgspec.Struct, frozen=True):
    topic: ReadableTopic
    index: int
    # Only when everything that is appended is committed.
    is_settled: bool


class AskAllEnds(msgspec.Struct, frozen=True):
    topics: dict[DescribableTopic, list[int]]


class AskStored(msgspec.Struct, frozen=True):
    topic: DescribableTopic | CreatableTopic
    partitions: list[PartitionIndex]


class AskSizes(msgspec.Struct, frozen=True):
    """Of all topics: whoever asked gets only those that it may know of."""


READ_PAGE: Final = Method("log.read_page", ReadPage, RecordPage, waits=True, is_repeatable=True)
READ_RECORDS: Final = Method("log.read_records", ReadRecords, RecordPage, is_repeatable=True)
COUNT: Final = Method("log.count", CountRecords, RecordCount, is_repeatable=True)
LIST_OFFSET: Final = Method("log.list_offset", ListOffset, ListedOffset, is_repeatable=True)
ENDS: Final = Method("log.ends", AskEnds, LogEnds, is_repeatable=True)
ALL_ENDS: Final = Method(
    "log.all_ends", AskAllEnds, list[tuple[str, int, LogEnds]], is_repeatable=True
)
STORED: Final = Method("log.stored", AskStored, list[StoredPartition], is_repeatable=True)
# Bytes by topic.
SIZES: Final = Method("log.sizes", AskSizes, dict[str, int], is_repeatable=True)


class LogAnywhere:
    def __init__(self, log: Log, led: LedPartitions, calls: Calls) -> None:
        self._log = log
        self._led = led
        self._calls = calls
        self.several = SeveralLogs(log, led, calls)
        calls.serve(READ_PAGE, self._read_page_here)
        calls.serve(READ_RECORDS, self._read_records_here)
        calls.serve(COUNT, self._count_here)
        calls.serve(LIST_OFFSET, self._list_offset_here)
        calls.serve(ENDS, self._ends_here)
        calls.serve(ALL_ENDS, self._all_ends_here)
        calls.serve(STORED, self._stored_here)
        calls.serve(SIZES, self._sizes_here)

    # --- records --------------------------------------------------------------------------

    async def read_page(
        self, topic: ReadableTopic, index: int, wanted: PageRequest, *, consumer: str
    ) -> RecordPage:
        """Single records, without what was not committed; waits at the leader."""
        request = ReadPage(topic, index, wanted, consumer)
        timeout_s = wanted.max_wait_ms / 1000 + LATE_MAX_S
        place = topic_partition(topic, index)
        return await self._calls.ask(READ_PAGE, place, request, timeout_s=timeout_s)

    async def _read_page_here(self, request: ReadPage) -> RecordPage:
        return await self._log.read_page(
            request.topic, request.index, request.wanted, consumer=request.consumer
        )

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
        request = ReadRecords(topic, index, offset, limit, max_bytes, isolation)
        return await self._calls.ask(READ_RECORDS, topic_partition(topic, index), request)

    async def _read_records_here(self, request: ReadRecords) -> RecordPage:
        return await self._log.read_records(
            request.topic,
            request.index,
            request.offset,
            limit=request.limit,
            max_bytes=request.max_bytes,
            isolation=request.isolation,
        )

    async def count_records(
        self, topic: ReadableTopic, index: int, wanted: CountRequest, *, asker: str
    ) -> RecordCount:
        """How many records lie between two offsets; none is read. Askers take turns."""
        request = CountRecords(topic, index, wanted, asker)
        return await self._calls.ask(COUNT, topic_partition(topic, index), request)

    async def _count_here(self, request: CountRecords) -> RecordCount:
        return await self._log.count_records(
            request.topic, request.index, request.wanted, asker=request.asker
        )

    # --- offsets --------------------------------------------------------------------------

    async def list_offset(
        self,
        topic: DescribableTopic | ReadableTopic,
        index: int,
        timestamp: int,
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        patience_s: float = LEADER_PATIENCE_S,
    ) -> ListedOffset:
        """The offset at a time, or at either end of a partition. Waits so long for a leader."""
        request = ListOffset(topic, index, timestamp, isolation)
        place = topic_partition(topic, index)
        return await self._calls.ask(LIST_OFFSET, place, request, patience_s=patience_s)

    async def _list_offset_here(self, request: ListOffset) -> ListedOffset:
        return await self._log.list_offset(
            request.topic, request.index, request.timestamp, isolation=request.isolation
        )

    async def ends(self, topic: ReadableTopic, index: int, *, is_settled: bool = False) -> LogEnds:
        """`is_settled`: once everything is committed that is appended when this is asked."""
        request = AskEnds(topic, index, is_settled)
        return await self._calls.ask(ENDS, topic_partition(topic, index), request)

    async def _ends_here(self, request: AskEnds) -> LogEnds:
        partition = self._led.find(request.topic, request.index)
        partition.check_online()
        if request.is_settled:
            await partition.wait_committed(partition.log_end_offset, COMMIT_TIMEOUT_MS)
        return LogEnds(partition.log_start_offset, partition.high_watermark)

    async def ends_of(
        self, topics: Mapping[DescribableTopic, Iterable[int]]
    ) -> dict[TopicPartition, LogEnds]:
        """Of all these partitions, without those that nobody can tell of just now."""
        by_leader: dict[NodeId, dict[DescribableTopic, list[int]]] = defaultdict(dict)
        for topic, indexes in topics.items():
            for index in indexes:
                with suppress(UnknownTopic, UnknownPartition):
                    leader = self._calls.leader_of(topic_partition(topic, index))
                    by_leader[leader].setdefault(topic, []).append(index)
        by_leader.pop(NO_LEADER, None)
        found: dict[TopicPartition, LogEnds] = {}
        for told in await asyncio.gather(*(self._ends_at(*each) for each in by_leader.items())):
            found.update((topic_partition(topic, index), ends) for topic, index, ends in told)
        return found

    async def _ends_at(
        self, leader: NodeId, topics: dict[DescribableTopic, list[int]]
    ) -> list[tuple[str, int, LogEnds]]:
        request = AskAllEnds(topics)
        try:
            return await self._calls.ask_broker(
                ALL_ENDS, leader, request, timeout_s=GATHER_TIMEOUT_S
            )
        except GoQueueError:
            return []

    async def _all_ends_here(self, request: AskAllEnds) -> list[tuple[str, int, LogEnds]]:
        found: list[tuple[str, int, LogEnds]] = []
        for topic, indexes in request.topics.items():
            for index in indexes:
                with suppress(GoQueueError):
                    partition = self._led.find(topic, index)
                    ends = LogEnds(partition.log_start_offset, partition.high_watermark)
                    found.append((topic, index, ends))
        return found

    # --- what is stored -------------------------------------------------------------------

    async def stored(
        self, right: DescribableTopic | CreatableTopic, topic: TopicView
    ) -> list[StoredPartition]:
        """What the leader has of each partition, or why nobody can tell."""
        by_leader: dict[NodeId, list[PartitionIndex]] = defaultdict(list)
        for view in topic.partitions:
            by_leader[view.leader].append(view.index)
        found: dict[PartitionIndex, StoredPartition] = {}
        for stored in await asyncio.gather(
            *(self._stored_at(leader, right, parts) for leader, parts in by_leader.items())
        ):
            found.update((partition.index, partition) for partition in stored)
        return [found[view.index] for view in topic.partitions]

    async def _stored_at(
        self,
        leader: NodeId,
        right: DescribableTopic | CreatableTopic,
        partitions: list[PartitionIndex],
    ) -> list[StoredPartition]:
        if leader == NO_LEADER:
            return _untold(partitions, "there is no leader just now")
        try:
            # Who leads the first of them leads all, or led them a moment ago.
            return await self._calls.ask(
                STORED,
                topic_partition(right, partitions[0]),
                AskStored(right, partitions),
                timeout_s=GATHER_TIMEOUT_S,
                patience_s=NEWS_PATIENCE_S,
            )
        except GoQueueError as error:
            return _untold(partitions, error.message)

    async def _stored_here(self, request: AskStored) -> list[StoredPartition]:
        return self._log.stored(request.topic, request.partitions)

    async def sizes(self) -> Gathered[dict[str, int]]:
        """Bytes of each topic, of the partitions that each broker leads."""
        return await self._calls.gather(SIZES, AskSizes())

    async def _sizes_here(self, _: AskSizes) -> dict[str, int]:
        return await self._log.sizes()


def _untold(partitions: list[PartitionIndex], reason: str) -> list[StoredPartition]:
    return [StoredPartition(index, None, None, None, reason) for index in partitions]
