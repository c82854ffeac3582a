"""A copy of a partition that can be read: what readers of a leader and of a follower have alike."""

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from goqueue.broker.partitions.waiting import Waiter, wake_all
from goqueue.model.aborted import AbortedTransaction
from goqueue.model.errors import (
    FencedLeaderEpoch,
    GoQueueError,
    OffsetNotAvailable,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from goqueue.model.log import EpochEnd, Isolation
from goqueue.model.names import TopicPartition
from goqueue.model.topic_config import TopicConfig
from goqueue.storage.log import LogRead

if TYPE_CHECKING:
    from goqueue.broker.partitions.hosted import HostedPartition


class ReadableCopy(ABC):
    """As long as its role lasts; who holds it longer gets an error that says so."""

    def __init__(self, hosted: "HostedPartition", leader_epoch: int) -> None:
        self.hosted = hosted
        self.log = hosted.log
        self.ledger = hosted.ledger
        self.counts = hosted.counts
        self.leader_epoch = leader_epoch
        self.waiters: dict[Waiter, None] = {}
        self._readers = hosted.readers
        self._over: GoQueueError | None = hosted.offline_error

    @property
    def name(self) -> TopicPartition:
        return self.log.name

    @property
    def config(self) -> TopicConfig:
        return self.log.config

    @property
    @abstractmethod
    def high_watermark(self) -> int: ...

    @property
    def last_stable_offset(self) -> int:
        # Deleting records may pass the start of an open transaction.
        stable_offset = self.ledger.producers.last_stable_offset(self.high_watermark)
        return max(stable_offset, self.log.log_start_offset)

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def offline_reason(self) -> str | None:
        """Why nobody is served here any more: a failure, or the end of this role."""
        return None if self._over is None else str(self._over)

    def check_online(self) -> None:
        if self._over is not None:
            # Each time anew: an error that is raised again keeps every place where it ever was.
            raise self._over.with_traceback(None)

    def check_leader_epoch(self, epoch: int) -> None:
        """Refuse a caller that knows an older or newer leader than us (KIP-320); -1 is any."""
        if epoch in (-1, self.leader_epoch):
            return
        known = f"{self.name} is at leader epoch {self.leader_epoch}, the request at {epoch}"
        raise FencedLeaderEpoch(known) if epoch < self.leader_epoch else UnknownLeaderEpoch(known)

    # --- reading --------------------------------------------------------------------------

    def readable_end(self, isolation: Isolation) -> int:
        if isolation is Isolation.READ_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark

    async def read(
        self, offset: int, max_bytes: int, *, isolation: Isolation, at_least_one: bool
    ) -> LogRead:
        """Whole batches from the one that holds `offset`, as they are stored."""
        found = await self.look(offset, max_bytes, isolation=isolation, at_least_one=at_least_one)
        self.counts.bytes_out += len(found.data)
        self.counts.messages_out += found.next_offset - offset
        return found

    async def look(
        self, offset: int, max_bytes: int, *, isolation: Isolation, at_least_one: bool = True
    ) -> LogRead:
        """As `read`, for the broker's own eyes: it is no traffic."""
        self.check_online()
        return await self._look(offset, max_bytes, self.readable_end(isolation), at_least_one)

    async def _look(self, offset: int, max_bytes: int, up_to: int, at_least_one: bool) -> LogRead:
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.name}: offset {offset} is outside {self.log.log_start_offset} to "
                f"{self.log.log_end_offset}"
            )
        if offset >= up_to or max_bytes <= 0:
            return LogRead(b"", offset)
        try:
            found = self.log.read(
                offset, max_bytes, up_to=up_to, at_least_one=at_least_one, may_block=False
            )
        except BlockingIOError:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(
                self._readers, self._read_cold, offset, max_bytes, up_to, at_least_one
            )
        return found

    def _read_cold(self, offset: int, max_bytes: int, up_to: int, at_least_one: bool) -> LogRead:
        return self.log.read(
            offset, max_bytes, up_to=up_to, at_least_one=at_least_one, may_block=True
        )

    def aborted_between(self, offset: int, end_offset: int) -> tuple[AbortedTransaction, ...]:
        """What a read-committed reader of these offsets must leave out."""
        return tuple(self.ledger.aborted.overlapping(offset, end_offset))

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        found = self.log.epochs.end_offset_for(epoch, self.log.log_end_offset)
        return EpochEnd(*found)

    def divergence(self, offset: int, last_fetched_epoch: int) -> EpochEnd | None:
        """Where a reader that saw `last_fetched_epoch` up to `offset` left our log (KIP-595)."""
        if last_fetched_epoch < 0:
            return None
        end = self.end_of_epoch(last_fetched_epoch)
        if end.epoch < 0:
            raise OffsetOutOfRange(
                f"{self.name}: leader epoch {last_fetched_epoch} was never seen here"
            )
        if end.epoch < last_fetched_epoch or end.end_offset < offset:
            return end
        return None


class Followed(ReadableCopy):
    """Of a leader elsewhere: for readers who are closer to this broker (KIP-392)."""

    @property
    def high_watermark(self) -> int:
        return self.hosted.high_watermark

    async def _look(self, offset: int, max_bytes: int, up_to: int, at_least_one: bool) -> LogRead:
        if offset > self.log.log_end_offset:
            raise OffsetNotAvailable(
                f"{self.name}: offset {offset} is not copied yet; this copy ends at "
                f"{self.log.log_end_offset}"
            )
        return await super()._look(offset, max_bytes, up_to, at_least_one)

    def advanced(self) -> None:
        """More is committed."""
        if self.waiters:
            wake_all(self.waiters)

    def end(self, error: GoQueueError) -> None:
        """From now on every request gets `error`."""
        self._over = error
        wake_all(self.waiters)
