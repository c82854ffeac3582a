"""Follows the metadata store: keeps the image, tells the broker what changed, in order."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from goqueue.metadata.store import MetadataStore
from goqueue.state.metadata_image import ImageChanges, MetadataImage

logger = logging.getLogger(__name__)

EVERYTHING = "/"

Reaction = Callable[[ImageChanges, MetadataImage], Awaitable[None]]


class MetadataFollower:
    """`image` is replaced, never changed. A revision counts as applied once reactions are done."""

    def __init__(self, store: MetadataStore, react: Reaction) -> None:
        self.image = MetadataImage.empty()
        self._store = store
        self._react = react
        self._applied_revision = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def load(self) -> None:
        found = await self._store.get_prefix(EVERYTHING)
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

    async def applied(self, revision: int) -> None:
        """Wait until this broker acts on everything up to `revision`."""
        if revision <= self._applied_revision:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((revision, future))
        await future

    async def _follow(self) -> None:
        watch = self._store.watch(EVERYTHING, self._applied_revision + 1)
        async for batch in watch:
            self.image, changes = self.image.apply(batch.revision, batch.changes)
            try:
                await self._react(changes, self.image)
            except Exception:
                logger.exception("metadata change %d was not carried out", batch.revision)
            self._mark_applied(batch.revision)

    def _mark_applied(self, revision: int) -> None:
        self._applied_revision = revision
        still_waiting = []
        for wanted, future in self._waiting:
            if wanted > revision:
                still_waiting.append((wanted, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = still_waiting
