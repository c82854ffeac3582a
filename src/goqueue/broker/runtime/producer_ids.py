"""Producer ids for this broker, taken from the metadata store in blocks."""

import asyncio

from goqueue.metadata.store import Compare, MetadataStore, Put
from goqueue.model.errors import Conflict
from goqueue.state import metadata_keys as keys
from goqueue.state.transactions.producer_ids import ProducerIds

TRANSACTION_TRIES = 10


class ProducerIdSource:
    """`take` never waits; `refill` is awaited before commands that may need an id."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._ids = ProducerIds()
        self._refilling: asyncio.Task[None] | None = None

    def take(self) -> int | None:
        producer_id = self._ids.take()
        if self._ids.is_low:
            self._start_refill()
        return producer_id

    async def refill(self) -> None:
        """Return with ids at hand."""
        if self._ids.is_low:
            await asyncio.shield(self._start_refill())

    def _start_refill(self) -> "asyncio.Task[None]":
        if self._refilling is None or self._refilling.done():
            self._refilling = asyncio.create_task(self._take_block())
        return self._refilling

    async def _take_block(self) -> None:
        key = keys.PRODUCER_IDS_KEY
        for _ in range(TRANSACTION_TRIES):
            found = (await self._store.get(key)).one
            block, entry = keys.take_producer_ids(None if found is None else found.value)
            revision = 0 if found is None else found.mod_revision
            done = await self._store.transact([Compare.unchanged(key, revision)], [Put(*entry)])
            if done.succeeded:
                self._ids.add_block(block.first, block.count)
                return
        raise Conflict("producer ids are taken by others faster than by this broker; try again")
