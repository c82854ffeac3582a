"""`LocalStore`: the metadata of a single node, in its own data directory.

A transaction is decided and replayed in memory at once, on the event loop, so revisions follow
the order of calls. Its record then joins the group that waits for the disk; while one group is
being synced in the worker thread the next one gathers. No answer and no watch event leaves
before everything it shows is on disk.

When the disk fails, nothing is answered and no watch ends: the store forgets what is not on disk,
and tries to write a new generation of its files until that works. That is synced as a whole, so it
does not matter what a failed sync has dropped. Then it goes on, and every lease has its full time
again, for nobody could renew one meanwhile.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import msgspec

from goqueue.metadata.feed import Feed, LocalWatch
from goqueue.metadata.files import Files
from goqueue.metadata.journal import Journal
from goqueue.metadata.keyspace import (
    EMPTY,
    Committed,
    Keyspace,
    LeaseEnded,
    LeaseGranted,
    Record,
    Snapshot,
)
from goqueue.metadata.leases import LeaseDeadlines
from goqueue.metadata.store import (
    Compare,
    LeaseId,
    MetadataStore,
    Op,
    Read,
    TxnResult,
    WatchBatch,
)
from goqueue.model.errors import (
    InvalidRequest,
    MetadataCorrupt,
    MetadataUnavailable,
    ShuttingDown,
)
from goqueue.model.measuring.histograms import Histogram
from goqueue.model.settings import INT32_MAX

logger = logging.getLogger(__name__)

_ENCODER: Final = msgspec.msgpack.Encoder()
_GROUP_DECODER: Final = msgspec.msgpack.Decoder(list[Committed | LeaseGranted | LeaseEnded])
_SNAPSHOT_DECODER: Final = msgspec.msgpack.Decoder(Snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStoreLimits:
    # Reading it back stays well under a second. A larger snapshot raises the bound to its own
    # size, so that a change costs the same on average however many keys there are.
    log_max_bytes: int = 8 * 1024 * 1024
    # Far more than a watch falls behind within one turn of the event loop.
    history_max_revisions: int = 10_000
    history_max_bytes: int = 16 * 1024 * 1024
    # The largest topic (100,000 partitions at about 200 bytes) is made in one transaction.
    transaction_max_bytes: int = 64 * 1024 * 1024
    # Above this new transactions wait for the disk before they are decided.
    waiting_max_bytes: int = 64 * 1024 * 1024
    # After a failure. Space may be there again at any moment, and a try costs little.
    retry_ms: int = 1_000


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


@dataclass(slots=True)
class _Group:
    """Records that go to disk together, and what to tell once they are there."""

    records: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    batches: list[WatchBatch] = field(default_factory=list)
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    # Why it did not get to disk.
    failure: str | None = None

    def payload(self) -> bytes:
        return _ENCODER.encode([msgspec.Raw(record) for record in self.records])


class LocalStore(MetadataStore):
    """Make one with `open`. Leases get their full time again when a store is opened."""

    def __init__(
        self,
        journal: Journal,
        keyspace: Keyspace,
        feed: Feed,
        clock_ms: Callable[[], int],
        limits: LocalStoreLimits,
    ) -> None:
        self._journal = journal
        self._keyspace = keyspace
        self._feed = feed
        self._clock_ms = clock_ms
        self._limits = limits
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="goqueue-metadata")
        self._gathering = _Group()
        self._syncing: _Group | None = None
        self._committer: asyncio.Task[None] | None = None
        self._coming_back: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self._latencies = Histogram()
        self._closed = False
        self._deadlines = LeaseDeadlines()
        self._lease_timer: asyncio.TimerHandle | None = None
        self._renew_all_leases()

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        clock_ms: Callable[[], int] = _monotonic_ms,
        files: Files | None = None,
        limits: LocalStoreLimits | None = None,
    ) -> Self:
        """Open or create the store in `path`; `MetadataCorrupt` where it is damaged.

        `clock_ms` measures the leases only; it must not go backwards.
        """
        limits = limits or LocalStoreLimits()
        journal = Journal(path, files or Files())
        try:
            keyspace, feed = await asyncio.to_thread(_recover, journal, limits)
        except OSError as error:
            journal.close(seal=False)
            raise MetadataUnavailable(f"metadata in {path} cannot be opened: {error}") from error
        return cls(journal, keyspace, feed, clock_ms, limits)

    @property
    def unavailable_reason(self) -> str | None:
        return self._failure

    @property
    def latencies(self) -> Histogram:
        return self._latencies

    # --- reads and transactions -----------------------------------------------------------

    async def get(self, key: str) -> Read:
        self._check_open()
        read = Read(self._keyspace.get(key), self._keyspace.revision)
        await self._all_durable()
        return read

    async def get_prefix(self, prefix: str) -> Read:
        self._check_open()
        read = Read(self._keyspace.get_prefix(prefix), self._keyspace.revision)
        await self._all_durable()
        return read

    async def transact(
        self,
        compares: Sequence[Compare],
        success_ops: Sequence[Op],
        failure_ops: Sequence[Op] = (),
    ) -> TxnResult:
        started = time.perf_counter()
        await self._room_to_gather()
        decision = self._keyspace.decide(compares, success_ops, failure_ops)
        if decision.record is not None:
            self._commit(decision.record)
        result = TxnResult(decision.succeeded, self._keyspace.revision, decision.responses)
        await self._all_durable()
        self._latencies.observe(time.perf_counter() - started)
        return result

    # --- watches --------------------------------------------------------------------------

    def watch(self, prefix: str, from_revision: int) -> LocalWatch:
        self._check_open()
        return LocalWatch(self._feed, prefix, from_revision)

    # --- leases ---------------------------------------------------------------------------

    async def grant_lease(self, ttl_ms: int) -> LeaseId:
        if not 1 <= ttl_ms <= INT32_MAX:
            raise InvalidRequest(f"ttl_ms: {ttl_ms} is not between 1 and {INT32_MAX}")
        await self._room_to_gather()
        lease = LeaseId(self._keyspace.last_lease + 1)
        self._commit(LeaseGranted(lease, ttl_ms))
        self._deadlines.set(lease, self._clock_ms() + ttl_ms)
        self._arm_lease_timer()
        await self._all_durable()
        return lease

    async def keep_alive(self, lease: LeaseId) -> int:
        self._check_open()
        now_ms = self._clock_ms()
        self._end_due_leases(now_ms)
        ttl_ms = self._keyspace.lease_ttl_ms(lease)
        self._deadlines.set(lease, now_ms + ttl_ms)
        await self._all_durable()
        return ttl_ms

    async def revoke(self, lease: LeaseId) -> None:
        await self._room_to_gather()
        self._commit(self._keyspace.decide_lease_end(lease))
        self._deadlines.remove(lease)
        await self._all_durable()

    async def expire_leases(self) -> None:
        """End what is due by the clock now. A timer does this too; tests drive it by hand."""
        self._check_open()
        self._end_due_leases(self._clock_ms())
        await self._all_durable()

    def _end_due_leases(self, now_ms: int) -> None:
        for lease in self._deadlines.take_due(now_ms):
            self._commit(self._keyspace.decide_lease_end(lease))
        self._arm_lease_timer()

    def _renew_all_leases(self) -> None:
        self._deadlines = LeaseDeadlines()
        now_ms = self._clock_ms()
        for lease, ttl_ms in self._keyspace.leases.items():
            self._deadlines.set(lease, now_ms + ttl_ms)
        self._arm_lease_timer()

    def _arm_lease_timer(self) -> None:
        if self._lease_timer is not None:
            self._lease_timer.cancel()
            self._lease_timer = None
        deadline_ms = self._deadlines.next_deadline_ms()
        if deadline_ms is not None:
            # A whole millisecond at least, so that a clock that stands still does not spin.
            delay_ms = max(1, deadline_ms - self._clock_ms())
            loop = asyncio.get_running_loop()
            self._lease_timer = loop.call_later(delay_ms / 1000, self._on_lease_timer)

    def _on_lease_timer(self) -> None:
        self._lease_timer = None
        if self._failure is None and not self._closed:
            self._end_due_leases(self._clock_ms())

    # --- to disk --------------------------------------------------------------------------

    def _commit(self, record: Record) -> None:
        encoded = _ENCODER.encode(record)
        if len(encoded) > self._limits.transaction_max_bytes:
            raise InvalidRequest(
                f"transaction of {len(encoded)} bytes; "
                f"the limit is {self._limits.transaction_max_bytes}"
            )
        batch = self._keyspace.replay(record)
        group = self._gathering
        group.records.append(encoded)
        group.size_bytes += len(encoded)
        if batch is not None:
            group.batches.append(batch)
        if self._committer is None:
            self._committer = asyncio.get_running_loop().create_task(self._commit_groups())

    async def _commit_groups(self) -> None:
        loop = asyncio.get_running_loop()
        while self._gathering.records:
            group, self._gathering = self._gathering, _Group()
            self._syncing = group
            snapshot = self._keyspace.snapshot() if self._must_roll(group) else None
            try:
                await loop.run_in_executor(self._worker, self._journal.append, group.payload())
                self._settle(group)
                if snapshot is not None:
                    await loop.run_in_executor(self._worker, self._roll, snapshot)
            except Exception as error:
                self._fail(error)
                break
        self._committer = None

    def _must_roll(self, group: _Group) -> bool:
        bound = max(self._limits.log_max_bytes, self._journal.snapshot_size_bytes)
        return self._journal.log_size_bytes + group.size_bytes > bound

    def _roll(self, snapshot: Snapshot) -> None:
        self._journal.roll(_ENCODER.encode(snapshot))

    def _settle(self, group: _Group) -> None:
        self._syncing = None
        group.settled.set()
        self._feed.publish(group.batches)

    def _fail(self, error: Exception) -> None:
        """Memory is ahead of the disk and must not be shown: nobody gets an answer."""
        self._failure = f"metadata cannot be written: {error}"
        for group in (self._syncing, self._gathering):
            if group is not None:
                group.failure = self._failure
                group.settled.set()
        self._syncing, self._gathering = None, _Group()
        if isinstance(error, OSError):
            logger.error("%s; trying again until it works", self._failure)
            self._coming_back = asyncio.get_running_loop().create_task(self._come_back())
        else:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        logger.error("metadata stays unavailable until a restart", exc_info=error)
        self._failure = f"metadata cannot be used: {error}. Start the broker again"
        self._feed.end(MetadataUnavailable(self._failure))

    async def _come_back(self) -> None:
        """Go on from what is on disk, as soon as something can be written there again."""
        loop = asyncio.get_running_loop()
        while self._failure is not None:
            await asyncio.sleep(self._limits.retry_ms / 1000)
            try:
                self._keyspace = await loop.run_in_executor(self._worker, self._reopen)
            except OSError as error:
                self._failure = f"metadata cannot be written: {error}"
            except Exception as error:
                self._give_up(error)
                return
            else:
                self._failure = None
        self._renew_all_leases()
        logger.warning("metadata can be written again")

    def _reopen(self) -> Keyspace:
        """Blocking: what is on disk, written anew."""
        self._journal.cut_back()
        keyspace, _ = _recover(self._journal, self._limits)
        return keyspace

    async def _all_durable(self) -> None:
        """Wait until everything that is in memory now is on disk too."""
        group = self._gathering if self._gathering.records else self._syncing
        if group is None:
            return
        await group.settled.wait()
        if group.failure is not None:
            raise MetadataUnavailable(group.failure)

    async def _room_to_gather(self) -> None:
        self._check_open()
        while self._gathering.size_bytes >= self._limits.waiting_max_bytes:
            await self._gathering.settled.wait()
            self._check_open()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise MetadataUnavailable(self._failure)
        if self._closed:
            raise ShuttingDown("the metadata store is closed")

    # --- end ------------------------------------------------------------------------------

    async def close(self) -> None:
        """Finish what was begun, then seal the log. Watches end."""
        if self._closed:
            return
        self._closed = True
        if self._lease_timer is not None:
            self._lease_timer.cancel()
        if self._committer is not None:
            await asyncio.shield(self._committer)
        if self._coming_back is not None:
            self._coming_back.cancel()
            await asyncio.wait([self._coming_back])
        failure = self._failure
        self._feed.end(None if failure is None else MetadataUnavailable(failure))
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(
                self._worker, lambda: self._journal.close(seal=self._failure is None)
            )
        except OSError as error:
            raise MetadataUnavailable(f"the metadata log could not be sealed: {error}") from error
        finally:
            self._worker.shutdown(wait=False)


def stored_revision(path: Path) -> int:
    """Blocking: where a store is that nobody has open. Changes nothing; `MetadataCorrupt`."""
    return _stored(path).revision


def stored_entries(path: Path) -> dict[str, bytes]:
    """Blocking: every key of a store that nobody has open, as `stored_revision`."""
    return {kv.key: kv.value for kv in _stored(path).get_prefix("")}


def _stored(path: Path) -> Keyspace:
    keyspace, groups = _read(Journal(path, Files()))
    for group in groups:
        for record in group:
            keyspace.replay(record)
    return keyspace


def _read(journal: Journal) -> tuple[Keyspace, list[list[Record]]]:
    """The keys of the snapshot, and what came after it."""
    recovered = journal.recover()
    try:
        keyspace = Keyspace(_SNAPSHOT_DECODER.decode(recovered.snapshot) if recovered else EMPTY)
        groups = [_GROUP_DECODER.decode(entry) for entry in recovered.entries] if recovered else []
    except msgspec.MsgspecError as error:
        raise MetadataCorrupt(
            f"the metadata has whole entries that make no sense: {error}. "
            "Start the release that wrote them, or restore a backup"
        ) from error
    return keyspace, [list(group) for group in groups]


def _recover(journal: Journal, limits: LocalStoreLimits) -> tuple[Keyspace, Feed]:
    """Blocking. Rebuild the keys and make the journal ready to append."""
    keyspace, groups = _read(journal)
    feed = Feed(
        revision=keyspace.revision,
        max_revisions=limits.history_max_revisions,
        max_bytes=limits.history_max_bytes,
    )
    replayed = (keyspace.replay(record) for group in groups for record in group)
    feed.publish(batch for batch in replayed if batch is not None)
    journal.roll(_ENCODER.encode(keyspace.snapshot()))
    return keyspace, feed
