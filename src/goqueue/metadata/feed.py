"""What watches read: the latest changes, bounded, and word of new ones.

A watch is a place in this history and nothing more, so that a slow one costs no memory; when the
history leaves it behind it ends with `CompactedRevision`.
"""

import asyncio
from collections.abc import Iterable
from typing import Self

from goqueue.metadata.keyspace import FIRST_REVISION
from goqueue.metadata.store import WatchBatch
from goqueue.model.errors import CompactedRevision, GoQueueError, InvalidRequest


class Feed:
    """Revisions from `oldest` to `newest`, without a hole."""

    def __init__(self, *, revision: int, max_revisions: int, max_bytes: int) -> None:
        self.oldest = revision + 1
        self.newest = revision
        self.ended = False
        self.failure: GoQueueError | None = None
        self._max_revisions = max_revisions
        self._max_bytes = max_bytes
        self._batches: dict[int, tuple[WatchBatch, int]] = {}
        self._size_bytes = 0
        self._news = asyncio.Event()

    def publish(self, batches: Iterable[WatchBatch]) -> None:
        for batch in batches:
            self._add(batch)
        self.wake()

    def end(self, failure: GoQueueError | None) -> None:
        """Nothing more will come. Watches still get what is here, then end or raise."""
        self.ended = True
        self.failure = failure
        self.wake()

    def wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def wait(self) -> None:
        await self._news.wait()

    def at(self, revision: int) -> WatchBatch:
        if revision < self.oldest:
            raise CompactedRevision(
                f"revision {revision} is no longer kept; the oldest is {self.oldest}. "
                "Read the prefix again and watch from the revision of that read",
                self.oldest,
            )
        return self._batches[revision][0]

    def _add(self, batch: WatchBatch) -> None:
        size_bytes = sum(len(event.kv.key) + len(event.kv.value) for event in batch.events)
        self._batches[batch.revision] = batch, size_bytes
        self._size_bytes += size_bytes
        self.newest = batch.revision
        # The newest stays whatever its size, or a large transaction would cut off every watch.
        while len(self._batches) > 1 and (
            len(self._batches) > self._max_revisions or self._size_bytes > self._max_bytes
        ):
            self._size_bytes -= self._batches.pop(self.oldest)[1]
            self.oldest += 1


class LocalWatch:
    def __init__(self, feed: Feed, prefix: str, from_revision: int) -> None:
        if from_revision < FIRST_REVISION:
            raise InvalidRequest(
                f"from_revision: {from_revision} is below the first revision, {FIRST_REVISION}"
            )
        self._feed = feed
        self._prefix = prefix
        # Nothing ever happened at the first revision, so it cannot be missing.
        self._next_revision = max(from_revision, FIRST_REVISION + 1)
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        while not self._closed:
            while self._next_revision <= self._feed.newest:
                batch = self._feed.at(self._next_revision)
                self._next_revision += 1
                if mine := self._under_prefix(batch):
                    return mine
            if self._feed.ended:
                if self._feed.failure is not None:
                    raise self._feed.failure
                break
            await self._feed.wait()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._closed = True
        self._feed.wake()

    def _under_prefix(self, batch: WatchBatch) -> WatchBatch | None:
        events = tuple(e for e in batch.events if e.kv.key.startswith(self._prefix))
        return WatchBatch(batch.revision, events) if events else None
