"""Compaction in the background: the dirtiest partition first, one at a time.

The copying is done by a process of its own, so that the event loop only plans a run and renames
files after it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from goqueue.broker.partitions.holding import Holding
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.uninterrupted import uninterrupted
from goqueue.model.aborted import AbortedTransaction
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.errors import GoQueueError
from goqueue.storage.compaction.dirt import Dirt
from goqueue.storage.compaction.plan import Compacted, CompactionPlan, Failed
from goqueue.storage.compaction.worker import CompactionWorker

logger = logging.getLogger(__name__)

T = TypeVar("T")

# After a failure, such as a full disk: long enough not to fill the log with it.
RETRY_AFTER_MS: Final = 5 * 60 * 1000
_NEVER_MS: Final = 2**63 - 1


@dataclass(slots=True)
class CompactionCounts:
    """Since the start."""

    runs: int = 0
    failures: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float = 0.0


class _Candidate(NamedTuple):
    partition: HostedPartition
    dirt: Dirt


class Compactor:
    """Owned by the broker. A partition that closes cancels the run that works on it."""

    def __init__(
        self,
        partitions: Iterable[HostedPartition],
        *,
        clock_ms: Callable[[], int],
        retry_after_ms: int = RETRY_AFTER_MS,
        holding: Holding | None = None,
    ) -> None:
        self.counts = CompactionCounts()
        self.backoff_ms = BrokerConfig().log_cleaner_backoff_ms
        self._partitions = partitions
        self._clock_ms = clock_ms
        self._retry_after_ms = retry_after_ms
        self._holding = holding
        self._not_before_ms: dict[HostedPartition, int] = {}
        self._turn = asyncio.Lock()
        # Waits for the worker, and for the disk; never for more than one of them at a time.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="goqueue-compact")

    async def run_forever(self) -> None:
        """Ends when cancelled, and then leaves no worker behind."""
        try:
            while True:
                try:
                    found = await self.compact_dirtiest()
                except Exception:
                    logger.exception("compaction failed; trying again later")
                    found = False
                if not found:
                    await asyncio.sleep(self.backoff_ms / 1000)
        finally:
            self._thread.shutdown(wait=True)

    async def compact_dirtiest(self) -> bool:
        """Run once, if any partition is worth it; False if none was, or logs are being copied."""
        async with self._turn:
            if self._holding is not None and self._holding.is_on:
                return False
            candidate = await self._choose()
            # It may have been closed while others were looked at.
            if candidate is None or not candidate.partition.is_at_rest:
                return False
            return await self._watch(candidate)

    async def _watch(self, candidate: _Candidate) -> bool:
        partition = candidate.partition
        task = asyncio.create_task(self._compact(*candidate))
        partition.compacting = task
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await uninterrupted(asyncio.wait([task]))
            raise
        finally:
            partition.compacting = None
        # A partition that was closed meanwhile has cancelled its run.
        return task.cancelled() or task.result()

    # --- which ----------------------------------------------------------------------------

    async def _choose(self) -> _Candidate | None:
        now_ms = self._clock_ms()
        present = [p for p in self._partitions if p.config.is_compacted]
        self._not_before_ms = {
            p: ms for p, ms in self._not_before_ms.items() if ms > now_ms and p in present
        }
        waiting = [p for p in present if p.is_at_rest and p not in self._not_before_ms]
        for partition in waiting:
            partition.roll_if_old()
        stable = [(partition, partition.last_stable_offset) for partition in waiting]
        candidates = await self._blocking(lambda: _measure(stable, now_ms))
        # Overdue ones come first, then the share of dirt decides.
        return max(candidates, key=lambda c: (c.dirt.is_overdue, c.dirt.ratio), default=None)

    # --- how ------------------------------------------------------------------------------

    async def _compact(self, partition: HostedPartition, dirt: Dirt) -> bool:
        """What goes wrong changes nothing in the log; it is said once and tried again later."""
        try:
            if partition.log.compaction.is_swapping:
                # An earlier swap met a failing disk. It is decided, so this must be done first.
                await uninterrupted(self._swap(partition))
            else:
                await self._run(partition, dirt)
        except (_RunFailed, OSError, GoQueueError) as error:
            is_lasting = isinstance(error, _RunFailed) and error.is_lasting
            self._pause(partition, str(error), is_lasting=is_lasting)
        return True

    def _pause(self, partition: HostedPartition, reason: str, *, is_lasting: bool) -> None:
        self.counts.failures += 1
        then = "not tried again before a restart" if is_lasting else "trying again later"
        logger.error("compaction of %s failed: %s; %s", partition.name, reason, then)
        until_ms = _NEVER_MS if is_lasting else self._clock_ms() + self._retry_after_ms
        self._not_before_ms[partition] = until_ms

    async def _run(self, partition: HostedPartition, dirt: Dirt) -> None:
        log = partition.log
        now_ms, started_at = self._clock_ms(), time.monotonic()
        aborted = _aborted(partition, dirt)
        producers = partition.ledger.producers.kept_batches()
        plan = await self._blocking(
            lambda: log.compaction.plan(
                dirt, log.config, now_ms=now_ms, aborted=aborted, producers=producers
            )
        )
        try:
            compacted = await self._copy(plan)
            # From here on it takes milliseconds, and half a swap is of no use.
            await uninterrupted(self._take_in(partition, plan, compacted))
        finally:
            if not log.compaction.is_swapping:
                await uninterrupted(self._blocking(lambda: _discard(partition, plan)))
        self._count(partition, compacted, time.monotonic() - started_at)

    def _count(self, partition: HostedPartition, compacted: Compacted, seconds: float) -> None:
        counts = self.counts
        counts.runs += 1
        counts.bytes_read += compacted.bytes_before
        counts.bytes_written += compacted.bytes_after
        counts.seconds += seconds
        logger.info(
            "compacted %s up to offset %d: %d bytes before, %d after, %d records removed, %.1f s",
            partition.name,
            compacted.end_offset,
            compacted.bytes_before,
            compacted.bytes_after,
            compacted.records_removed,
            seconds,
        )
        if compacted.undecoded_batches:
            logger.warning(
                "%s: %d batches stay as they are, for they cannot be decoded",
                partition.name,
                compacted.undecoded_batches,
            )

    async def _copy(self, plan: CompactionPlan) -> Compacted:
        worker = CompactionWorker(plan)
        running = asyncio.get_running_loop().run_in_executor(self._thread, worker.run)
        try:
            answer = await asyncio.shield(running)
        except asyncio.CancelledError:
            worker.kill()
            await uninterrupted(asyncio.wait([running]))
            raise
        if isinstance(answer, Failed):
            raise _RunFailed(answer)
        return answer

    async def _take_in(
        self, partition: HostedPartition, plan: CompactionPlan, compacted: Compacted
    ) -> None:
        compaction, config = partition.log.compaction, partition.log.config
        # The records of these transactions went in an earlier run, so this can stand by itself.
        partition.ledger.forget_aborted(compacted.removed_markers)
        if not compaction.accept(plan, compacted):
            raise _RunFailed(Failed(reason="retention has taken segments meanwhile"))
        now_ms = self._clock_ms()
        if not await self._blocking(lambda: compaction.commit(compacted, config, now_ms=now_ms)):
            raise _RunFailed(Failed(reason="the log was cut meanwhile"))
        await self._swap(partition)

    async def _swap(self, partition: HostedPartition) -> None:
        log = partition.log
        due_ms = self._clock_ms() + log.config.file_delete_delay_ms
        # Renames can wait for the journal of a file system that is busy with the copies.
        while await self._blocking(log.compaction.rename_next):
            log.compaction.show_next(due_ms=due_ms)
        await self._blocking(log.compaction.finish)

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class _RunFailed(Exception):
    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.reason)
        self.is_lasting = failed.is_lasting


def _discard(partition: HostedPartition, plan: CompactionPlan) -> None:
    """Blocking. What stays is removed at the next start."""
    try:
        partition.log.compaction.discard(plan)
    except OSError as error:
        logger.warning("%s: copies of a compaction stay: %s", partition.name, error)


def _measure(stable: list[tuple[HostedPartition, int]], now_ms: int) -> list[_Candidate]:
    """Blocking: the partitions that are worth a run."""
    found = []
    for partition, stable_offset in stable:
        log = partition.log
        try:
            dirt = log.compaction.measure(log.config, stable_offset=stable_offset, now_ms=now_ms)
        except (OSError, GoQueueError) as error:
            logger.warning("%s cannot be looked at for compaction: %s", partition.name, error)
            continue
        if log.compaction.is_swapping or dirt.is_worth_a_run(log.config):
            found.append(_Candidate(partition, dirt))
    return found


def _aborted(partition: HostedPartition, dirt: Dirt) -> list[AbortedTransaction]:
    if not dirt.segments:
        return []
    first_offset, end_offset = dirt.segments[0].base_offset, dirt.segments[-1].next_offset
    return partition.ledger.aborted.overlapping(first_offset, end_offset)
