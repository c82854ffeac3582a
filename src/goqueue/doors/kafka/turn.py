"""What connections do between two looks at their sockets: one step for all of them, then the next.

Requests that arrived together are read together, carried out together and answered together. The
interpreter runs a step that it ran just before in about two thirds of the time. A turn in which the
requests take long to read ends there; the connections behind have the next one.

Where several tenants or users are connected, theirs come one after the other, so that a thousand
connections of one do not stand before the only one of another, and turns are shorter.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sized
from operator import methodcaller
from time import perf_counter
from typing import Final, Protocol

log = logging.getLogger(__name__)


class OfParty(Protocol):
    @property
    def party(self) -> str: ...


class TakesTurns(Protocol):
    @property
    def quota(self) -> OfParty: ...
    def read_requests(self) -> None: ...
    def start_requests(self) -> None: ...
    def send_answers(self) -> None: ...
    def abort(self) -> None: ...


# Reading is about a quarter of the work.
READING_MAX_SECONDS: Final = 0.01
# Somebody who has one request waits for a turn of the others.
READING_SHARED_MAX_SECONDS: Final = 0.002

STEPS: Final = tuple(map(methodcaller, ("read_requests", "start_requests", "send_answers")))


class Turn:
    def __init__(self, parties: Sized = ()) -> None:
        """`parties` are the tenants and users that are connected."""
        self._parties = parties
        self._loop = asyncio.get_running_loop()
        self._joined: list[TakesTurns] = []

    def join(self, connection: TakesTurns) -> None:
        """Take part in the next turn; to be called once for each."""
        if not self._joined:
            self._loop.call_soon(self._run)
        self._joined.append(connection)

    def _run(self) -> None:
        joined, self._joined = self._joined, []
        steps = STEPS
        if len(joined) > 1:
            is_shared = len(self._parties) > 1
            joined = self._read(in_turn(joined) if is_shared else joined, is_shared)
            steps = STEPS[1:]
        for step in steps:
            for connection in joined:
                try:
                    step(connection)
                except Exception:
                    _close(connection)

    def _read(self, joined: list[TakesTurns], is_shared: bool) -> list[TakesTurns]:
        """Let them read, and return those that did; the others have the next turn."""
        seconds = READING_SHARED_MAX_SECONDS if is_shared else READING_MAX_SECONDS
        stop_at = perf_counter() + seconds
        for count, connection in enumerate(joined, 1):
            try:
                connection.read_requests()
            except Exception:
                _close(connection)
            if perf_counter() > stop_at and count < len(joined):
                self._joined = joined[count:] + self._joined
                self._loop.call_soon(self._run)
                return joined[:count]
        return joined


def in_turn(joined: list[TakesTurns]) -> list[TakesTurns]:
    """The first of each party, then the second of each, and so on; in the order they came."""
    seen: Counter[object] = Counter()
    ranks: list[int] = []
    for connection in joined:
        party = connection.quota.party or connection
        ranks.append(seen[party])
        seen[party] += 1
    if len(seen) in (1, len(joined)):
        return joined
    return [joined[at] for at in sorted(range(len(joined)), key=ranks.__getitem__)]


def _close(connection: TakesTurns) -> None:
    """Nobody else's turn ends with it."""
    log.exception("a connection is closed: its turn failed")
    connection.abort()
