"""What is registered, as a broker knows it: the leader's own state, or a copy that follows it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from goqueue.broker.calls.calls import Calls
from goqueue.broker.runtime.shard import StateShard
from goqueue.broker.runtime.topic import ShardHost, StateTopic
from goqueue.broker.schemas.following import (
    SINCE,
    Committed,
    FollowedCatalogue,
    ReadSince,
    read_since,
)
from goqueue.state.schemas.catalogue import Catalogue
from goqueue.state.schemas.machine import SchemaMachine

SCHEMAS_TOPIC: Final = "_schemas"

_NOTHING: Final = Catalogue()


class Catalogues:
    def __init__(self, host: ShardHost, calls: Calls, make: Callable[[], SchemaMachine]) -> None:
        self.state: StateTopic[SchemaMachine] = StateTopic(
            host,
            SCHEMAS_TOPIC,
            partitions=1,
            make=lambda _index: make(),
            perform=lambda _index, _effects: None,
        )
        # The only partition: whoever leads it decides what is registered.
        self.place = self.state.place(0)
        self._is_alone = host.is_alone
        self._followed = FollowedCatalogue(
            self.place, calls, lambda: host.image.topics.get(SCHEMAS_TOPIC), make
        )
        calls.serve(SINCE, self._since_here)

    async def start(self) -> None:
        await self.state.start()
        if not self._is_alone:
            self._followed.start()

    async def close(self) -> None:
        self.state.close()
        await self._followed.close()

    # --- looking --------------------------------------------------------------------------

    @property
    def now(self) -> Catalogue:
        """What is known here without asking. `NotLeader` while nothing is."""
        for shard in self.state.loaded_shards():
            return shard.machine.catalogue
        return self._followed.catalogue if self.state.exists else _NOTHING

    @property
    def leaders_own(self) -> Catalogue | None:
        """None where another broker leads, or it is being loaded."""
        if not self.state.exists:
            return _NOTHING
        return next((shard.machine.catalogue for shard in self.state.loaded_shards()), None)

    async def loaded(self) -> Catalogue:
        """As `now`, waiting for it."""
        if await self._shard() is not None or not self.state.exists:
            return self.now
        return await self._followed.loaded()

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[Catalogue]:
        """With all that any client was told anywhere. What was looked at is committed when this
        ends: nobody is shown what a change of leaders could take back.
        """
        shard = await self._shard()
        if shard is not None:
            yield shard.machine.catalogue
            await shard.settled()
        else:
            yield await self._followed.fresh() if self.state.exists else _NOTHING

    async def _shard(self) -> StateShard[SchemaMachine] | None:
        return next(iter(await self.state.all_shards()), None)

    def told(self, end: int) -> None:
        """Clients learned here of everything below this offset, and must find it here."""
        self._followed.told(end)

    # --- what this broker may lack --------------------------------------------------------

    @property
    def position(self) -> object:
        """Another one after something was registered elsewhere and became known here."""
        return self._followed.position

    async def catch_up(self) -> None:
        """Know all that is registered anywhere; raises if the leader cannot be asked."""
        if self.state.exists and await self._shard() is None:
            await self._followed.catch_up()

    # --- for other brokers ----------------------------------------------------------------

    async def _since_here(self, request: ReadSince) -> Committed:
        # Once it is loaded, all that the leaders before have told is committed.
        shard = await self.state.shard(self.place.partition)
        return await read_since(shard.partition, request)
