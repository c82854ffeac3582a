"""A range of one partition as the broker stores it: whole record batches, undecoded."""

import datetime
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v16.request import FetchPartition, FetchRequest, FetchTopic
from kio.static.primitive import i8, i32, i32Timedelta, i64

from goqueue.client.blocking_cluster import LeaderMoved
from goqueue.client.blocking_connection import BlockingConnection
from goqueue.client.errors import BrokerUnreachable, RequestRefused
from goqueue.client.fetch_answer import FetchAnswer, read_fetch_answer
from goqueue.client.group_facts import PartitionKey
from goqueue.client.log_cluster import LEADER_ERRORS, LogCluster
from goqueue.client.log_ranges import (
    DEFAULT_FETCH_BYTES,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    LogRange,
)
from goqueue.model.aborted import AbortedBatches, AbortedTransaction
from goqueue.model.batch import BatchHeader, Buffer, check_batch
from goqueue.model.errors import CorruptBatch, OffsetOutOfRange, UnknownTopicId
from goqueue.model.settings import INT64_MAX

# How long the broker may wait for the first byte; only a reader at the log's end waits at all.
_MAX_WAIT: Final = i32Timedelta.parse(datetime.timedelta(milliseconds=500))
# What was committed when the range was chosen is there; that it is not must not become a hang.
_STALL_SECONDS: Final = 30.0
_HEADER_BYTES_TO_KNOW_THE_SIZE: Final = 12


class LocatedBatch(NamedTuple):
    """A batch at `position` of the bytes it came with."""

    position: int
    header: BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedBatches:
    """`batches` are those with records for the reader: no markers, nothing aborted.

    The content is good until the next fetch is asked for.
    """

    content: Buffer
    batches: list[LocatedBatch]


def read_range(
    cluster: LogCluster,
    wanted: LogRange,
    *,
    isolation: int = READ_COMMITTED,
    fetch_bytes: int = DEFAULT_FETCH_BYTES,
) -> Iterator[FetchedBatches]:
    """Fetch the range; the next fetch is under way while the caller works on this one."""
    for answer, located in _answers(cluster, wanted, isolation, fetch_bytes):
        content = answer.records
        yield FetchedBatches(
            content=content,
            batches=_for_reader(content, located, answer, wanted, isolation),
        )


def read_stored(
    cluster: LogCluster, wanted: LogRange, *, fetch_bytes: int = DEFAULT_FETCH_BYTES
) -> Iterator[FetchedBatches]:
    """As `read_range`, with markers and what open and aborted transactions wrote."""
    for answer, located in _answers(cluster, wanted, READ_UNCOMMITTED, fetch_bytes):
        within = [batch for batch in located if batch.header.base_offset < wanted.end]
        yield FetchedBatches(content=answer.records, batches=within)


def _answers(
    cluster: LogCluster, wanted: LogRange, isolation: int, fetch_bytes: int
) -> Iterator[tuple[FetchAnswer, list[LocatedBatch]]]:
    ask = _Fetches(cluster, wanted, isolation, fetch_bytes)
    offset = wanted.start
    ask.send(offset)
    stalled_since: float | None = None
    while offset < wanted.end:
        answer = ask.receive(offset)
        located, next_offset = _whole_batches(answer.records, wanted.place)
        if next_offset is None:
            now = time.monotonic()
            stalled_since = stalled_since or now
            if now - stalled_since > _STALL_SECONDS:
                raise BrokerUnreachable(
                    f"{wanted.topic}-{wanted.partition}: no record at offset {offset} within "
                    f"{_STALL_SECONDS:g} s, though the range ends at {wanted.end}; "
                    "see the broker's log"
                )
            ask.send(offset)
            continue
        stalled_since = None
        offset = max(offset, next_offset)
        if offset < wanted.end:
            ask.send(offset)
        yield answer, located


class _Fetches:
    """One fetch at a time, asked again when the connection or the leader is lost."""

    def __init__(
        self, cluster: LogCluster, wanted: LogRange, isolation: int, fetch_bytes: int
    ) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._isolation = isolation
        self._fetch_bytes = fetch_bytes
        self._asked: BlockingConnection | None = None

    def send(self, offset: int) -> None:
        def ask() -> None:
            connection = self._cluster.leader(self._wanted.place)
            connection.send(self._request(offset))
            self._asked = connection

        self._cluster.patiently(ask)

    def receive(self, offset: int) -> FetchAnswer:
        def take() -> FetchAnswer:
            if self._asked is None:
                self.send(offset)
            asked, self._asked = self._asked, None
            assert asked is not None, "send has asked"
            frame = asked.receive_frame()
            answer = read_fetch_answer(frame, asked.correlation_id, asked.address)
            return self._checked(answer, offset)

        return self._cluster.patiently(take)

    def _request(self, offset: int) -> FetchRequest:
        partition = FetchPartition(
            partition=i32(self._wanted.partition),
            fetch_offset=i64(offset),
            partition_max_bytes=i32(self._fetch_bytes),
        )
        return FetchRequest(
            max_wait=_MAX_WAIT,
            min_bytes=i32(1),
            max_bytes=i32(self._fetch_bytes),
            isolation_level=i8(self._isolation),
            topics=(FetchTopic(topic_id=self._wanted.topic_id, partitions=(partition,)),),
            forgotten_topics_data=(),
        )

    def _checked(self, answer: FetchAnswer, offset: int) -> FetchAnswer:
        subject = f"{self._wanted.topic}-{self._wanted.partition}"
        code = answer.error
        if code in LEADER_ERRORS:
            raise LeaderMoved(f"the leader of {subject} has moved")
        if code is ErrorCode.offset_out_of_range:
            raise OffsetOutOfRange(
                f"{subject} no longer has offset {offset}: retention or a deletion of records "
                "removed it"
            )
        if code in (ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition):
            raise UnknownTopicId(
                f"topic {self._wanted.topic!r} was deleted while it was read"
                " (a new topic of that name is another topic)"
            )
        if code is not ErrorCode.none:
            raise RequestRefused(f"{subject}: {code.name.replace('_', ' ')}", int(code))
        return answer


def _whole_batches(content: Buffer, place: PartitionKey) -> tuple[list[LocatedBatch], int | None]:
    """The batches and the offset after the last; a batch cut off at the end is left out."""
    located = []
    position = 0
    next_offset = None
    while len(content) - position >= _HEADER_BYTES_TO_KNOW_THE_SIZE:
        length = int.from_bytes(content[position + 8 : position + 12], "big", signed=True)
        if position + _HEADER_BYTES_TO_KNOW_THE_SIZE + length > len(content):
            break
        try:
            header = check_batch(content, position)
        except CorruptBatch as error:
            base_offset = int.from_bytes(content[position : position + 8], "big", signed=True)
            raise CorruptBatch(f"{place[0]}-{place[1]} at offset {base_offset}: {error}") from error
        located.append(LocatedBatch(position, header))
        next_offset = header.next_offset
        position += header.size_bytes
    return located, next_offset


def _for_reader(
    content: Buffer,
    located: list[LocatedBatch],
    answer: FetchAnswer,
    wanted: LogRange,
    isolation: int,
) -> list[LocatedBatch]:
    if isolation == READ_COMMITTED and answer.aborted:
        located = without_aborted(content, located, answer.aborted)
    return [
        batch
        for batch in located
        if not batch.header.is_control
        and batch.header.base_offset < wanted.end
        and batch.header.last_offset >= wanted.start
    ]


def without_aborted(
    content: Buffer, located: list[LocatedBatch], aborted: list[tuple[int, int]]
) -> list[LocatedBatch]:
    """Leave out what aborted transactions wrote; they are given as (first offset, producer id).

    A fetch does not tell where they end: each does with its producer's next abort marker (KIP-98).
    """
    # Needs a decoder of records, which takes longer to load than most tasks to start.
    from goqueue.model.control import MarkerType, decode_marker

    markers: dict[int, list[int]] = {}
    for position, header in located:
        if header.is_control:
            marker = decode_marker(content[position : position + header.size_bytes])
            if marker is not None and marker.type is MarkerType.ABORT:
                markers.setdefault(header.producer_id, []).append(header.base_offset)
    transactions = []
    for first_offset, producer_id in aborted:
        ends = (offset for offset in markers.get(producer_id, ()) if offset > first_offset)
        last_offset = next(ends, INT64_MAX)
        transactions.append(AbortedTransaction(producer_id, first_offset, last_offset, 0))
    batches = AbortedBatches(transactions)
    return [batch for batch in located if not batches.has(batch.header)]
