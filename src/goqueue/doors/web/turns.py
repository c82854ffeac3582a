"""Requests over HTTP begin a few at a time, those of tenants and users in turn.

Every connection may have one request on its way. If all that came together began together, somebody
who has one connection would wait for everything that hundreds of connections of another have asked
for, and again with each step of its own request. So a few begin, then the loop goes on with others
and looks at its sockets; who came meanwhile is in the next turn. While there is one party, or
nobody has logged in, everything begins at once.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Final

from goqueue.model.caller import Principal
from goqueue.model.fairness.headcount import Headcount
from goqueue.model.fairness.line import Line
from goqueue.service.security.quotas import party_of

# From one turn to the next; a request of another party waits for about one of them.
TURN_SECONDS: Final = 0.002
# Requests that begin in a turn: short ones take about as long as a turn should. Fewer cost
# throughput, since there are more looks at the sockets.
BEGIN_MAX: Final = 16


def begin_next(begun_max: int, seconds: float) -> int:
    """How many may begin in a turn, after one of so many took so long. What they do may take many
    turns, so there are soon fewer, and slowly more again."""
    if seconds > TURN_SECONDS:
        return max(1, begun_max // 2)
    return min(BEGIN_MAX, begun_max + 1)


def _nothing(_party: str) -> None:
    """For those who need not know."""


class Turns:
    def __init__(self, parties: Headcount) -> None:
        """`parties` are the tenants and users that are connected, and by how many connections; by
        whichever door."""
        self._parties = parties
        self._line: Line[Callable[[], None]] = Line()
        self._begin_max = BEGIN_MAX
        self._room = BEGIN_MAX
        self._is_due = False
        self._since = 0.0

    def of_connection(self, on_known: Callable[[str], None] = _nothing) -> "ConnectionParty":
        """`on_known` is told whose it is, whenever that changes."""
        return ConnectionParty(self._parties, on_known)

    def take(self, party: str, begin: Callable[[], None]) -> None:
        """Call `begin` when it is the party's turn; mostly now."""
        if len(self._parties) <= 1 and not self._line:
            begin()
            return
        if not self._is_due:
            self._come_again()
        if self._room and not self._line:
            self._room -= 1
            begin()
        else:
            self._line.add(party, begin)

    def stop(self) -> None:
        """What still waits never begins."""
        self._line = Line()

    def _come_again(self) -> None:
        """When the loop has gone on with what there is, and looked at its sockets."""
        self._is_due = True
        self._since = perf_counter()
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_due = False
        self._begin_max = begin_next(self._begin_max, perf_counter() - self._since)
        self._room = self._begin_max
        if self._line:
            self._come_again()
        while self._room and self._line:
            self._room -= 1
            self._line.take()()


class ConnectionParty:
    """Whose requests come on a connection: those of whoever logged in with the last one."""

    __slots__ = ("_is_over", "_on_known", "_parties", "_principal", "name")

    def __init__(self, parties: Headcount, on_known: Callable[[str], None]) -> None:
        self._parties = parties
        self._on_known = on_known
        self._is_over = False
        self._principal: Principal | None = None
        # Empty until it is known; those of whom nothing is known yet are one party.
        self.name = ""

    def seen(self, principal: Principal) -> None:
        if principal is self._principal or principal == self._principal or self._is_over:
            return
        self._leave()
        self._principal = principal
        self.name = party_of(principal)
        self._parties.add(self.name)
        self._on_known(self.name)

    def end(self) -> None:
        """The connection is lost. A request may still be logging in, which counts no more."""
        self._leave()
        self._is_over = True
        # It knows the connection, which is to be freed without a look for cycles.
        self._on_known = _nothing

    def _leave(self) -> None:
        if self._principal is None:
            return
        self._principal = None
        self._parties.remove(self.name)
