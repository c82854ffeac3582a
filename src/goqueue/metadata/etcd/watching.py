"""A watch on etcd that survives lost connections: it goes on where it ended."""

import asyncio
import logging
from collections.abc import Callable
from itertools import groupby
from typing import Any, Final, Self

from goqueue.metadata.etcd import messages
from goqueue.metadata.etcd.client import WATCH, EtcdClient
from goqueue.metadata.store import Event, EventKind, KeyValue, WatchBatch
from goqueue.model.errors import CompactedRevision, GoQueueError, ShuttingDown

logger = logging.getLogger(__name__)

# etcd is asked again as soon as it is there; its clients are few.
_RETRY_S: Final = 0.2
# A reader this far behind is slower than the cluster changes; then etcd's own buffers fill.
_WAITING_MAX: Final = 10_000
_DELETE: Final = 1


class EtcdWatch:
    """Read by a task of its own, so that a cancelled wait loses nothing."""

    def __init__(
        self,
        client: EtcdClient,
        key_range: tuple[bytes, bytes],
        from_revision: int,
        kv: Callable[[Any], KeyValue],
        watches: set["EtcdWatch"],
    ) -> None:
        self._client = client
        self._range = key_range
        self._next_revision = from_revision
        self._kv = kv
        self._watches = watches
        self._waiting: asyncio.Queue[WatchBatch | GoQueueError | None] = asyncio.Queue(_WAITING_MAX)
        self._ended: GoQueueError | None = None
        self._is_over = False
        self._task = asyncio.create_task(self._read())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        if self._is_over and self._waiting.empty():
            if self._ended is not None:
                raise self._ended
            raise StopAsyncIteration
        match await self._waiting.get():
            case WatchBatch() as batch:
                return batch
            case None:
                self._is_over = True
                raise StopAsyncIteration
            case error:
                self._is_over, self._ended = True, error
                raise error

    async def aclose(self) -> None:
        self._watches.discard(self)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        # Nothing more is read: what waits is dropped, and whoever waits is told.
        while not self._waiting.empty():
            self._waiting.get_nowait()
        self._waiting.put_nowait(None)

    async def _read(self) -> None:
        while True:
            try:
                await self._follow()
            except CompactedRevision as error:
                await self._waiting.put(error)
                return
            except ShuttingDown:
                await self._waiting.put(None)
                return
            except GoQueueError as error:
                logger.debug("a watch goes on from revision %d: %s", self._next_revision, error)
                await asyncio.sleep(_RETRY_S)

    async def _follow(self) -> None:
        start, end = self._range
        create = messages.WatchCreateRequest(
            key=start,
            range_end=end,
            start_revision=self._next_revision,
            progress_notify=True,
        )
        stream = self._client.stream(WATCH, messages.WatchRequest(create_request=create))
        async for answer in stream:
            if answer.compact_revision:
                raise CompactedRevision(
                    f"revision {self._next_revision} is forgotten",
                    oldest_revision=answer.compact_revision,
                )
            # A revision's events come in one answer, an answer may have several revisions.
            for revision, events in groupby(answer.events, key=lambda event: event.kv.mod_revision):
                await self._waiting.put(WatchBatch(revision, tuple(map(self._event, events))))
                self._next_revision = revision + 1

    def _event(self, event: Any) -> Event:
        kind = EventKind.DELETE if event.type == _DELETE else EventKind.PUT
        return Event(kind, self._kv(event.kv))
