"""Changes of the metadata, told to all brokers before they are answered.

A client that makes a topic at one broker may write to it at the next. Every broker follows the
metadata by itself, a few milliseconds behind. A call tells how much the asking broker knows, and
the one that is asked catches up with it first: so an empty call is enough.
"""

import asyncio
from typing import Final

import msgspec

from goqueue.broker.calls.calls import Calls
from goqueue.model.calls import Method
from goqueue.model.errors import GoQueueError
from goqueue.model.names import NodeId

# Who takes longer is cut off, or about to be gone: clients that ask it are told what it knows.
SPREAD_S: Final = 1.0
# For so long it is not waited for again: a request may make a thousand topics.
DEAF_S: Final = 10.0

# Between tries to tell a broker that does not answer; it may be gone by then.
AGAIN_S: Final = 0.25


class HearNews(msgspec.Struct, frozen=True):
    pass


HEAR: Final = Method("calls.hear", HearNews, bool, waits=True, is_repeatable=True)


class News:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        # Those that did not hear the last time, and until when they are left out.
        self._deaf: dict[NodeId, float] = {}
        calls.serve(HEAR, self._heard)

    async def spread(self) -> None:
        """Return once the others know what this broker knows; or without, where that takes long."""
        others = self._calls.others()
        if others:
            now = asyncio.get_running_loop().time()
            self._deaf = {node: until for node, until in self._deaf.items() if until > now}
            await asyncio.gather(*(self._tell(node) for node in others if node not in self._deaf))

    async def _tell(self, node: NodeId) -> None:
        if not await self._hears(node):
            self._deaf[node] = asyncio.get_running_loop().time() + DEAF_S

    async def told_all(self, within_s: float) -> bool:
        """Return once each of the others knows what this broker knows now, or is gone; False where
        the time is over first. For what must not begin while somebody tells clients otherwise."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + within_s
        told: set[NodeId] = set()
        while missing := [node for node in self._calls.others() if node not in told]:
            heard = await asyncio.gather(*(self._hears(node) for node in missing))
            told.update(node for node, has_heard in zip(missing, heard, strict=True) if has_heard)
            if not all(heard):
                if loop.time() >= give_up_at:
                    return False
                await asyncio.sleep(AGAIN_S)
        return True

    async def _hears(self, node: NodeId) -> bool:
        try:
            return await self._calls.ask_broker(HEAR, node, HearNews(), timeout_s=SPREAD_S)
        except GoQueueError:
            return False

    async def _heard(self, _: HearNews) -> bool:
        return True
