"""The connections that are open now, and a way to wait until none is."""

import asyncio
from collections.abc import Iterator
from typing import Generic, TypeVar

from goqueue.model.measuring.traffic import ConnectionCounts

T = TypeVar("T")


class OpenConnections(Generic[T]):
    def __init__(self, limit: int, counts: ConnectionCounts | None = None) -> None:
        self.limit = limit
        self._counts = counts or ConnectionCounts()
        self._open: set[T] = set()
        self._none_open = asyncio.Event()
        self._none_open.set()

    @property
    def is_full(self) -> bool:
        return len(self._open) >= self.limit

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[T]:
        """Over a copy: closing one takes it out."""
        return iter(tuple(self._open))

    def add(self, connection: T) -> None:
        self._open.add(connection)
        self._counts.accepted += 1
        self._counts.open = len(self._open)
        self._none_open.clear()

    def refuse(self) -> None:
        self._counts.refused += 1

    def discard(self, connection: T) -> None:
        self._open.discard(connection)
        self._counts.open = len(self._open)
        if not self._open:
            self._none_open.set()

    async def wait_none_open(self) -> None:
        await self._none_open.wait()
