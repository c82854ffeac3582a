"""The connections that are open now, and a way to wait until none is."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Generic, TypeVar

from goqueue.doors.places import Places
from goqueue.model.measuring.traffic import ConnectionCounts

T = TypeVar("T")


class OpenConnections(Generic[T]):
    def __init__(
        self,
        limit: int,
        counts: ConnectionCounts | None = None,
        *,
        limit_per_host: int,
        places: Places[T] | None = None,
    ) -> None:
        """`places`: where everybody logs in, so that it is known who has most."""
        self._limit = limit
        self._places = places
        self.limit_per_host = limit_per_host
        self._by_host: Counter[str] = Counter()
        self._counts = counts or ConnectionCounts()
        self._open: set[T] = set()
        self._none_open = asyncio.Event()
        self._none_open.set()

    def limit_to(self, limit: int, *, per_host: int) -> None:
        """Those that are open beyond a lower limit stay."""
        self._limit, self.limit_per_host = limit, per_host
        if self._places is not None:
            self._places.limit = limit

    def refusal(self, connection: T, host: str) -> str | None:
        """Why there is no place for one more from `host`; None if there is, which it then has."""
        if self._by_host[host] >= self.limit_per_host:
            return f"max.connections.per.ip is {self.limit_per_host}"
        if self._places is not None:
            self._places.take(connection)
            return None
        return None if len(self._open) < self._limit else f"max.connections is {self._limit}"

    def known(self, connection: T, party: str) -> None:
        """Somebody has logged in on it."""
        if self._places is not None:
            self._places.known(connection, party)

    def spare(self, connection: T) -> None:
        """It is a broker's: there are few, and nobody is served without them. So they have places
        beside those of clients, and never make room."""
        if self._places is not None:
            self._places.leave(connection)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[T]:
        """Over a copy: closing one takes it out."""
        return iter(tuple(self._open))

    def add(self, connection: T, host: str) -> None:
        self._open.add(connection)
        self._by_host[host] += 1
        self._counts.accepted += 1
        self._counts.open = len(self._open)
        self._none_open.clear()

    def refuse(self) -> None:
        self._counts.refused += 1

    def discard(self, connection: T, host: str) -> None:
        if self._places is not None:
            self._places.leave(connection)
        if connection not in self._open:
            return
        self._open.discard(connection)
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        self._counts.open = len(self._open)
        if not self._open:
            self._none_open.set()

    async def wait_none_open(self) -> None:
        await self._none_open.wait()
