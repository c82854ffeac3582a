"""Fetches that wait for more bytes. Commits wake them; nothing polls."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Protocol

from goqueue.model.log import FetchedPart


class Waiter(ABC):
    """Is told what happens in a partition while it stands among its waiters."""

    __slots__ = ()

    @abstractmethod
    def credit(self, readable_bytes: int) -> None:
        """More bytes can be read."""

    @abstractmethod
    def wake(self) -> None:
        """Look, whatever there is: also on errors, deletions and shutdown."""


class Watched(Protocol):
    """Something a fetch can wait on: it calls `credit` on each of its waiters."""

    waiters: dict[Waiter, None]


class Ending(Watched, Protocol):
    """What ends a wait for another reason than bytes, once it has woken its waiters: they answer
    with what is left of what there is."""

    @property
    def is_over(self) -> bool: ...
    def left(self, parts: list[FetchedPart]) -> list[FetchedPart]: ...


class Waiters:
    """`Watched`, and nothing else."""

    __slots__ = ("waiters",)

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}


class FetchWaiter(Waiter):
    """Waits until enough bytes became readable in any of the watched partitions."""

    __slots__ = ("_future", "_needed_bytes")

    def __init__(self, needed_bytes: int) -> None:
        self._needed_bytes = needed_bytes
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def credit(self, readable_bytes: int) -> None:
        self._needed_bytes -= readable_bytes
        if self._needed_bytes <= 0:
            self.wake()

    @property
    def is_woken(self) -> bool:
        return self._future.done() and not self._future.cancelled()

    def wake(self) -> None:
        """Answer now, with what there is."""
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self, watched: Iterable[Watched], max_wait_s: float) -> None:
        partitions = tuple(watched)
        for partition in partitions:
            partition.waiters[self] = None
        timer = asyncio.get_running_loop().call_later(max_wait_s, self.wake)
        try:
            await self._future
        finally:
            timer.cancel()
            for partition in partitions:
                partition.waiters.pop(self, None)


def credit_all(waiters: Iterable[Waiter], readable_bytes: int) -> None:
    for waiter in tuple(waiters):
        waiter.credit(readable_bytes)


def wake_all(waiters: Iterable[Waiter]) -> None:
    for waiter in tuple(waiters):
        waiter.wake()
