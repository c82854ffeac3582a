"""Follows the metadata store: keeps the image, tells the broker what changed, in order."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from goqueue.metadata.store import MetadataStore
from goqueue.model.errors import (
    CompactedRevision,
    GoQueueError,
    MetadataUnavailable,
    ShuttingDown,
)
from goqueue.state import metadata_keys as keys
from goqueue.state.metadata_image import ImageChanges, MetadataImage

logger = logging.getLogger(__name__)

Preparation = Callable[[ImageChanges, MetadataImage], Awaitable[None]]
Reaction = Callable[[ImageChanges, MetadataImage], None]


class MetadataFollower:
    """`image` is replaced, never changed. A revision counts as applied once reactions are done."""

    def __init__(self, store: MetadataStore, *, prepare: Preparation, react: Reaction) -> None:
        self.image = MetadataImage.empty()
        self._store = store
        self._prepare = prepare
        self._react = react
        self._applied_revision = 0
        self._error: GoQueueError | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def load(self) -> None:
        found = await self._store.get_prefix(keys.ROOT_PREFIX)
        self.image = MetadataImage.load(
            ((kv.key, kv.value) for kv in found.kvs), revision=found.revision
        )
        self._applied_revision = found.revision

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._turn_away(ShuttingDown("the broker is shutting down"))

    async def applied(self, revision: int) -> None:
        """Wait until this broker acts on everything up to `revision`."""
        if self._error is not None:
            raise self._error
        if revision <= self._applied_revision:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((revision, future))
        await future

    async def _follow(self) -> None:
        while True:
            try:
                await self._watch()
            except CompactedRevision:
                # We were too slow for the store's memory: take everything at once.
                await self._catch_up()
            except GoQueueError as error:
                logger.error("metadata can no longer be followed: %s", error)
                self._turn_away(error)
                return
            except Exception as error:
                logger.exception("metadata can no longer be followed")
                self._turn_away(MetadataUnavailable(f"metadata cannot be followed: {error}"))
                return

    async def _watch(self) -> None:
        watch = self._store.watch(keys.ROOT_PREFIX, self._applied_revision + 1)
        try:
            async for batch in watch:
                await self._apply(batch.revision, batch.changes)
                # Every group may have to look at its topics: one change in a turn of the loop.
                await asyncio.sleep(0)
        finally:
            await watch.aclose()
        raise MetadataUnavailable("the metadata store was closed")

    async def _catch_up(self) -> None:
        found = await self._store.get_prefix(keys.ROOT_PREFIX)
        stored = {kv.key: kv.value for kv in found.kvs}
        gone = [(key, None) for key in self.image.known_keys() if key not in stored]
        await self._apply(found.revision, [*gone, *stored.items()])

    async def _apply(self, revision: int, entries: Iterable[tuple[str, bytes | None]]) -> None:
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
        self._mark_applied(revision)

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
