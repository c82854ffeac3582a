"""Waiting for transactions that are being ended: told by whoever writes their markers."""

import asyncio


class Endings:
    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def ended(self, transactional_id: str) -> None:
        """Its markers are written, or a try of them is over: those who wait look again."""
        for future in self._waiting.pop(transactional_id, ()):
            if not future.done():
                future.set_result(None)

    def give_up(self) -> None:
        """All who wait look again: what they wait for may not come to pass here."""
        for transactional_id in list(self._waiting):
            self.ended(transactional_id)

    async def next(self, transactional_id: str) -> None:
        """Return when `ended` is called; cancelled, nothing is left behind."""
        future = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(transactional_id, set())
        waiting.add(future)
        try:
            await future
        finally:
            waiting.discard(future)
            if not waiting and self._waiting.get(transactional_id) is waiting:
                del self._waiting[transactional_id]
