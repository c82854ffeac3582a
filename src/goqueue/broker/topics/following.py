"""Follows the metadata store: keeps the image, tells the broker what changed, in order."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from goqueue.broker.background import ended
from goqueue.metadata.store import EventKind, MetadataStore, Read, WatchBatch
from goqueue.model.errors import (
    CompactedRevision,
    GoQueueError,
    MetadataUnavailable,
    ShuttingDown,
)
from goqueue.state import metadata_keys as keys
from goqueue.state.metadata_image import ImageChanges, KeyChange, MetadataImage

logger = logging.getLogger(__name__)

# Clients give up after half a minute to a minute; until then they are told what they wait for.
APPLIED_MAX_S: Final = 30.0
# The same while this broker is at work on changes: files for a thousand partitions take a second or
# two, and half a minute on a machine that is busy with something else. Who still waits then would
# rather have the topic than be told to ask again.
AT_WORK_MAX_S: Final = 60.0
# A watch brings a change within some ms; who waits for longer may wait for what never comes.
READ_AFTER_S: Final = 1.0
# Between tries to read a store that fails. The first comes soon, for most faults are short; the
# last keeps the brokers of a cluster from hammering a store that is just coming back.
RETRY_FIRST_S: Final = 0.1
RETRY_LAST_S: Final = 5.0
# Everything is read again no faster than this on average. The store sends it to each broker: with
# 100 brokers and a million partitions, once a minute would be 350 MB a second.
RECONCILED_KEYS_PER_S: Final = 1_000

Preparation = Callable[[ImageChanges, MetadataImage], Awaitable[None]]
Reaction = Callable[[ImageChanges, MetadataImage], None]


class MetadataFollower:
    """`image` is replaced, never changed. A revision counts as applied once reactions are done.

    While the store is away the image stays as it is, and is brought up to date when the store is
    back. With `reconcile_s`, everything is read again that often, or less often where there is much
    to read: watches of some releases of etcd can miss changes.
    """

    def __init__(
        self,
        store: MetadataStore,
        *,
        prepare: Preparation,
        react: Reaction,
        reconcile_s: float | None = None,
    ) -> None:
        self.image = MetadataImage.empty()
        self._store = store
        self._prepare = prepare
        self._react = react
        self._reconcile_s = reconcile_s
        self._applied_revision = 0
        # Of every key that is there; what it takes to see what a watch missed.
        self._key_revisions: dict[str, int] = {}
        self._error: GoQueueError | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        # Held while a change is being carried out.
        self._applying = asyncio.Lock()
        # While the watch is waited for: when everything is read instead.
        self._patience: asyncio.Timeout | None = None
        # What was logged last, so that a store that is away for long fills no disk with it.
        self._noted_problem = ""

    async def load(self) -> None:
        found = await self._store.get_prefix(keys.ROOT_PREFIX)
        self.image = MetadataImage.load(
            ((kv.key, kv.value, kv.mod_revision) for kv in found.kvs), revision=found.revision
        )
        self._key_revisions = {kv.key: kv.mod_revision for kv in found.kvs}
        self._applied_revision = found.revision

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        await ended(self._task)
        self._turn_away(ShuttingDown("the broker is shutting down"))

    async def applied(self, revision: int) -> None:
        """Wait until this broker acts on everything up to `revision`."""
        if self._error is not None:
            raise self._error.with_traceback(None)
        if revision <= self._applied_revision:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((revision, future))
        reading = loop.call_later(READ_AFTER_S, self._read_now)
        # Not `asyncio.timeout`: a request's first steps run outside of a task.
        giving_up = [
            loop.call_later(APPLIED_MAX_S, self._give_up, future),
            loop.call_later(AT_WORK_MAX_S, self._give_up_work, future),
        ]
        try:
            await future
        finally:
            reading.cancel()
            for each in giving_up:
                each.cancel()
            if future.cancelled():
                self._forget(future)

    def _give_up(self, future: "asyncio.Future[None]") -> None:
        if not self._applying.locked():
            reason = self._store.unavailable_reason or "it is behind"
            self._tell(future, f"seen it within {APPLIED_MAX_S:g} s: {reason}")

    def _give_up_work(self, future: "asyncio.Future[None]") -> None:
        self._tell(future, f"carried it out within {AT_WORK_MAX_S:g} s; it goes on")

    def _tell(self, future: "asyncio.Future[None]", what: str) -> None:
        if not future.done():
            self._forget(future)
            told = f"the change is stored, but this broker has not {what}"
            future.set_exception(MetadataUnavailable(told))

    def _forget(self, future: "asyncio.Future[None]") -> None:
        self._waiting = [entry for entry in self._waiting if entry[1] is not future]

    def _read_now(self) -> None:
        """The revision that somebody waits for may be another cluster's in the same store: then
        the watch never tells of it, but reading everything does."""
        if self._patience is not None and self._reconcile_s is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())

    async def learn(self, told: Callable[[MetadataImage], Iterable[KeyChange]]) -> None:
        """Take over what others know of a later revision, while the store cannot be asked.

        `told` looks at the image first: the store may be faster.
        """
        async with self._applying:
            await self._change(self.image.revision, told(self.image))

    # --- following ------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Never ends by itself, but with the store."""
        retry_s = RETRY_FIRST_S
        while True:
            watched_from = self._applied_revision
            try:
                await self._watch()
            except CompactedRevision:
                # We were too slow for the store's memory: take everything at once.
                problem = await self._try_to_reconcile()
            except ShuttingDown as error:
                self._turn_away(error)
                return
            except Exception as error:
                problem = error
            if problem is None or self._applied_revision > watched_from:
                retry_s = RETRY_FIRST_S
            if problem is not None:
                self._note_problem(problem)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, RETRY_LAST_S)

    async def _watch(self) -> None:
        watch = self._store.watch(keys.ROOT_PREFIX, self._applied_revision + 1)
        reconcile_at = self._next_reconciling()
        try:
            while True:
                try:
                    async with asyncio.timeout_at(reconcile_at) as self._patience:
                        batch = await anext(watch)
                        self._patience = None
                except TimeoutError:
                    self._patience = None
                    await self._reconcile()
                    reconcile_at = self._next_reconciling()
                    continue
                # Reconciling may have been faster than the watch.
                if batch.revision > self._applied_revision:
                    await self._apply_batch(batch)
                # Every group may have to look at its topics: one change in a turn of the loop.
                await asyncio.sleep(0)
        except StopAsyncIteration:
            raise ShuttingDown("the metadata store was closed") from None
        finally:
            self._patience = None
            await watch.aclose()

    def _next_reconciling(self) -> float | None:
        if self._reconcile_s is None:
            return None
        pause_s = reconciling_pause_s(self._reconcile_s, len(self._key_revisions))
        return asyncio.get_running_loop().time() + pause_s

    async def _apply_batch(self, batch: WatchBatch) -> None:
        changes = batch.changes
        if any(key == keys.CLUSTER_ID_KEY and value is None for key, value, _ in changes):
            raise MetadataUnavailable(
                f"{keys.CLUSTER_ID_KEY} was deleted from the metadata store: this broker goes on "
                "with what it knew before; restore the store from a backup"
            )
        await self._apply(batch.revision, changes)
        for event in batch.events:
            if event.kind is EventKind.PUT:
                self._key_revisions[event.kv.key] = event.kv.mod_revision
            else:
                self._key_revisions.pop(event.kv.key, None)

    async def _try_to_reconcile(self) -> Exception | None:
        try:
            await self._reconcile()
        except Exception as error:
            return error
        return None

    async def _reconcile(self) -> None:
        """Read everything and apply what differs from what the watch told."""
        found = await self._store.get_prefix(keys.ROOT_PREFIX)
        self._check_same_store(found)
        stored = {kv.key: kv.mod_revision for kv in found.kvs}
        entries: list[KeyChange] = [
            (key, None, found.revision) for key in self._key_revisions if key not in stored
        ]
        changed = [kv for kv in found.kvs if self._key_revisions.get(kv.key) != kv.mod_revision]
        missed = [kv.key for kv in changed if kv.mod_revision <= self._applied_revision]
        if missed:
            logger.warning("the watch of the metadata store missed changes, such as %s", missed[0])
        entries.extend((kv.key, kv.value, kv.mod_revision) for kv in changed)
        if entries or found.revision > self._applied_revision:
            await self._apply(found.revision, entries)
        self._key_revisions = stored

    def _check_same_store(self, found: Read) -> None:
        """Another store, or an older copy of this one, must not delete what is on this disk."""
        if found.revision < self._applied_revision:
            raise MetadataUnavailable(
                f"the metadata store is at revision {found.revision}, but was at "
                f"{self._applied_revision} before: it was restored from a backup. This broker goes "
                "on with what it knew; restart it to take over what was restored"
            )
        if not self.image.cluster_id:
            return
        id_now = next((kv.value for kv in found.kvs if kv.key == keys.CLUSTER_ID_KEY), None)
        if id_now != keys.cluster_id_entry(self.image.cluster_id).value:
            raise MetadataUnavailable(
                f"the metadata store is not that of cluster {self.image.cluster_id} any more: "
                "this broker goes on with what it knew before"
            )

    def _note_problem(self, problem: Exception) -> None:
        text = str(problem)
        if text == self._noted_problem:
            return
        self._noted_problem = text
        unforeseen = None if isinstance(problem, GoQueueError) else problem
        logger.error("metadata cannot be followed, tried again: %s", text, exc_info=unforeseen)

    # --- applying -------------------------------------------------------------------------

    async def _apply(self, revision: int, entries: Iterable[KeyChange]) -> None:
        async with self._applying:
            await self._change(revision, entries)
        self._mark_applied(revision)
        if self._noted_problem:
            self._noted_problem = ""
            logger.info("metadata is followed again, from revision %d on", revision)

    async def _change(self, revision: int, entries: Iterable[KeyChange]) -> None:
        image, changes = self.image.apply(revision, entries)
        try:
            await self._prepare(changes, image)
        except Exception:
            logger.exception("metadata change %d was not carried out", revision)
        self.image = image
        try:
            self._react(changes, image)
        except Exception:
            logger.exception("metadata change %d was not carried out in full", revision)

    def _mark_applied(self, revision: int) -> None:
        self._applied_revision = revision
        still_waiting = []
        for wanted, future in self._waiting:
            if wanted > revision:
                still_waiting.append((wanted, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = still_waiting

    def _turn_away(self, error: GoQueueError) -> None:
        self._error = error
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()


def reconciling_pause_s(least_s: float, key_count: int) -> float:
    """Between one reading of everything and the next."""
    return max(least_s, key_count / RECONCILED_KEYS_PER_S)
