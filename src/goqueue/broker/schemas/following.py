"""What is registered, at a broker that does not lead the log of the registry.

It asks the leader for what was committed since, over and over, and so has a copy that is some
milliseconds old. Who must see all that any client was told asks once more before it looks. Only
what is committed is read: no id that is shown here is ever given to another schema.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from uuid import UUID

import msgspec

from goqueue.broker.background import ended
from goqueue.broker.calls.calls import Calls
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.stored_records import making_sense
from goqueue.model.batch import check_batch
from goqueue.model.calls import Method
from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.errors import GoQueueError, NotLeader, OffsetOutOfRange, RequestTimedOut
from goqueue.model.log import Isolation
from goqueue.model.names import TopicPartition
from goqueue.model.records import open_records
from goqueue.model.topics import TopicView
from goqueue.state.machine import StateRecord
from goqueue.state.schemas.catalogue import Catalogue
from goqueue.state.schemas.machine import SchemaMachine

logger = logging.getLogger(__name__)

# Bounds what one answer holds in memory, and how long the event loop waits for its records.
READ_BYTES: Final = 256 * 1024
# A question that the leader keeps until something is registered.
WAIT_S: Final = 20.0
# One that is answered at once. Who waits for longer is shown what the copy has.
FRESH_TIMEOUT_S: Final = 2.0
# A leader that was killed has a successor within a second.
FRESH_PATIENCE_S: Final = 1.5
# Between two questions that failed.
PAUSE_S: Final = 0.5
FROM_THE_START: Final = -1


class ReadSince(msgspec.Struct, frozen=True):
    """What is committed from `offset` on; `last_epoch` is that of the last record before it."""

    offset: int
    last_epoch: int
    wait_s: float


class Committed(msgspec.Struct, frozen=True):
    """Batches from `offset` on, which is not where they were asked from if the asker has what is
    not in the log any more. `end`: how far the log is committed. Deletions below
    `deletions_gone_before` cannot be read any more.
    """

    offset: int
    batches: bytes
    next_offset: int
    end: int
    deletions_gone_before: int


SINCE: Final = Method("schemas.since", ReadSince, Committed, waits=True, is_repeatable=True)


async def read_since(partition: Partition, request: ReadSince) -> Committed:
    """The leader's part."""
    offset = _checked(partition, request)
    if offset >= partition.high_watermark and request.wait_s > 0:
        with suppress(RequestTimedOut):
            await partition.wait_committed(offset + 1, int(request.wait_s * 1_000))
    while True:
        gone_before = partition.log.compaction.tombstones_gone_before
        end = partition.high_watermark
        part = await partition.look(offset, READ_BYTES, isolation=Isolation.READ_UNCOMMITTED)
        # What was read may have been compacted just then.
        if partition.log.compaction.tombstones_gone_before == gone_before:
            return Committed(offset, bytes(part.data), part.next_offset, end, gone_before)


def _checked(partition: Partition, request: ReadSince) -> int:
    """The offset, if all that lies before it is what this log has, too."""
    start = partition.log_start_offset
    if request.offset < start:
        return start
    try:
        parted = partition.divergence(request.offset, request.last_epoch)
    except OffsetOutOfRange:
        return start
    is_within = request.offset <= partition.log_end_offset
    return request.offset if parted is None and is_within else start


class _Copy:
    """The log as far as it was read."""

    def __init__(self, machine: SchemaMachine, begun: Committed) -> None:
        self.machine = machine
        self.next_offset = begun.offset
        # Of the leader that wrote the last record that was read.
        self.last_epoch = -1
        # What these deleted was gone before the first record was read.
        self._deletions_gone_before = begun.deletions_gone_before

    def may_lack_deletions(self, gone_before: int) -> bool:
        """Whether one went before it was read, of something that was."""
        return gone_before > max(self.next_offset, self._deletions_gone_before)

    def take(self, answer: Committed) -> None:
        """Records that were read already are passed over."""
        data, position = answer.batches, 0
        while position < len(data):
            header = check_batch(data, position)
            batch = data[position : position + header.size_bytes]
            position += header.size_bytes
            if header.next_offset <= self.next_offset:
                continue
            if not header.is_control:
                with making_sense():
                    for record in open_records(batch, DecodingBounds.of_own(len(batch))):
                        if record.key is not None and record.offset >= self.next_offset:
                            self.machine.replay(StateRecord(record.key, record.value))
            self.next_offset, self.last_epoch = header.next_offset, header.leader_epoch


class FollowedCatalogue:
    def __init__(
        self,
        place: TopicPartition,
        calls: Calls,
        topic: Callable[[], TopicView | None],
        make: Callable[[], SchemaMachine],
    ) -> None:
        """`topic`: the registry's, as the metadata have it now."""
        self._place = place
        self._calls = calls
        self._topic = topic
        self._make = make
        # What is shown, and what is read: another one while it is read anew.
        self._shown: _Copy | None = None
        self._read: _Copy | None = None
        self._topic_id: UUID | None = None
        # Clients learned here of everything below.
        self._told_before = 0
        # Questions, counted: who waits is served by any that began after it came.
        self._turn = asyncio.Lock()
        self._begun = 0
        self._answered = 0
        self._failure: GoQueueError | None = None
        self._following: asyncio.Task[None] | None = None

    @property
    def catalogue(self) -> Catalogue:
        """As it was read last."""
        if self._shown is None:
            raise NotLeader(f"{self._place.topic} is not loaded; try again soon")
        return self._shown.machine.catalogue

    @property
    def position(self) -> object:
        """Another one after anything was read."""
        return None if self._shown is None else (self._shown, self._shown.next_offset)

    def told(self, end: int) -> None:
        """Clients learned here of everything below this offset, and must find it here."""
        self._told_before = max(self._told_before, end)

    async def loaded(self) -> Catalogue:
        """As `catalogue`, waiting for the first."""
        return await self.fresh() if self._shown is None else self.catalogue

    async def fresh(self) -> Catalogue:
        """With all that is committed now. If the leader cannot be asked, what the copy has, unless
        clients were told of more here."""
        failure = await self._ask_once_more()
        shown = self._shown
        if failure is not None and (shown is None or shown.next_offset < self._told_before):
            raise failure.with_traceback(None)
        return self.catalogue

    async def catch_up(self) -> None:
        """As `fresh`, and raises if the leader cannot be asked."""
        failure = await self._ask_once_more()
        if failure is not None:
            raise failure.with_traceback(None)

    # --- asking ---------------------------------------------------------------------------

    async def _ask_once_more(self) -> GoQueueError | None:
        """Many who come at once share one question, and its failure."""
        wanted = self._begun + 1
        async with self._turn:
            if self._answered < wanted:
                self._begun = number = self._begun + 1
                self._failure = await self._read_all()
                self._answered = number
            return self._failure

    async def _read_all(self) -> GoQueueError | None:
        """All that is committed when this begins."""
        end: int | None = None
        try:
            while end is None or self._shown is None or self._shown.next_offset < end:
                answer = await self._ask(0.0)
                end = answer.end if end is None else min(end, answer.end)
        except GoQueueError as error:
            return error
        return None

    async def _ask(self, wait_s: float) -> Committed:
        self._forget_another_topic()
        read = self._read
        request = ReadSince(FROM_THE_START, -1, 0.0)
        if read is not None:
            request = ReadSince(read.next_offset, read.last_epoch, wait_s)
        answer = await self._calls.ask(
            SINCE,
            self._place,
            request,
            timeout_s=FRESH_TIMEOUT_S + wait_s,
            patience_s=FRESH_PATIENCE_S,
        )
        if read is self._read:
            self._take(read, request, answer)
        return answer

    def _take(self, read: _Copy | None, request: ReadSince, answer: Committed) -> None:
        if read is not None and answer.offset != request.offset:
            # Lost with the replicas that had it: an administrator decided so.
            self._told_before = min(self._told_before, answer.end)
            self._shown = read = None
        if read is None:
            read = self._read = _Copy(self._make(), answer)
        elif read.may_lack_deletions(answer.deletions_gone_before):
            self._read = None
            return
        read.take(answer)
        if read.next_offset >= answer.end:
            self._shown = read

    def _forget_another_topic(self) -> None:
        topic = self._topic()
        topic_id = None if topic is None else topic.id
        if topic_id != self._topic_id:
            self._topic_id, self._told_before = topic_id, 0
            self._shown = self._read = None

    # --- in the background ----------------------------------------------------------------

    def start(self) -> None:
        self._following = asyncio.create_task(self._follow())

    async def close(self) -> None:
        await ended(self._following)

    async def _follow(self) -> None:
        while True:
            if self._topic() is None or self._calls.is_here(self._place):
                # The leader has it all, and needs no copy.
                self._shown = self._read = None
                await self._calls.until_changed()
                continue
            try:
                await self._ask(WAIT_S)
            except GoQueueError as error:
                logger.debug("%s could not be followed: %s", self._place.topic, error)
                await asyncio.sleep(PAUSE_S)
