"""Requests over HTTP begin a few at a time, those of tenants and users in turn.

Every connection may have one request on its way. If all that came together began together, somebody
who has one connection would wait for everything that hundreds of connections of another have asked
for, and again with each step of its own request. So a few begin, then the loop goes on with others
and looks at its sockets; who came meanwhile is in the next turn. While one party asks, its turns
are longer, since what begins together is cheaper, and one who comes then waits for one of those.
Where nobody logs in, everything begins at once.
"""

import asyncio
from collections.abc import Callable
from time import thread_time
from typing import Final, NamedTuple

from goqueue.model.caller import Principal
from goqueue.model.fairness.headcount import Headcount
from goqueue.model.fairness.line import Line
from goqueue.model.fairness.parties import party_of


class Pace(NamedTuple):
    """How much work a turn should be, and how many requests begin in it at most."""

    seconds: float
    begin_max: int


# Somebody else waits for about one turn. Short requests take about as long as a turn should; fewer
# cost throughput, since there are more looks at the sockets and smaller writes.
SHARED: Final = Pace(0.002, 16)
# What the only one notices of turns is below what can be measured.
ALONE: Final = Pace(0.02, 128)
# So long after the last request of another party turns are still short. Who asks less often waits
# for a longer turn.
SHARED_FOR_SECONDS: Final = 1.0


def begin_next(begun_max: int, seconds: float, pace: Pace) -> int:
    """How many may begin in a turn, after one of so many took so long. What they do may take many
    turns, so there are soon fewer, and slowly more again."""
    wanted = begun_max // 2 if seconds > pace.seconds else begun_max + 1
    return min(max(1, wanted), pace.begin_max)


def _nothing(_party: str) -> None:
    """For those who need not know."""


class Turns:
    def __init__(self, *, is_on: bool) -> None:
        """Not `is_on` where nobody logs in."""
        self._is_on = is_on
        self._line: Line[Callable[[], None]] = Line()
        self._begin_max = self._room = SHARED.begin_max
        self._is_due = False
        self._since = 0.0
        self._last_party = ""
        self._shared_until = 0.0

    def take(self, party: str, begin: Callable[[], None]) -> None:
        """Call `begin` when it is the party's turn; mostly now."""
        if not self._is_on:
            begin()
            return
        if party != self._last_party:
            self._share(party)
        if not self._is_due:
            self._come_again()
        if self._room and not self._line:
            self._room -= 1
            begin()
        else:
            self._line.add(party, begin)

    def _share(self, party: str) -> None:
        """Another party asks than the last time."""
        self._last_party = party
        self._shared_until = asyncio.get_running_loop().time() + SHARED_FOR_SECONDS
        self._room = min(self._room, SHARED.begin_max)

    def stop(self) -> None:
        """What still waits never begins."""
        self._line = Line()

    def _come_again(self) -> None:
        """When the loop has gone on with what there is, and looked at its sockets."""
        self._is_due = True
        # Not by the clock: that the machine does something else is no reason to begin fewer.
        self._since = thread_time()
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_due = False
        is_shared = asyncio.get_running_loop().time() < self._shared_until
        pace = SHARED if is_shared else ALONE
        self._begin_max = begin_next(self._begin_max, thread_time() - self._since, pace)
        self._room = self._begin_max
        if self._line:
            self._come_again()
        while self._room and self._line:
            self._room -= 1
            self._line.take()()


class ConnectionParty:
    """Whose requests come on a connection: those of whoever logged in with the last one."""

    __slots__ = ("_is_over", "_on_known", "_parties", "_principal", "name")

    def __init__(
        self, parties: Headcount, address: str, on_known: Callable[[str], None] = _nothing
    ) -> None:
        """`parties` are the tenants and users that are connected by whichever door, and by how many
        connections. `on_known` is told whose this one is, whenever that changes."""
        self._parties = parties
        self._on_known = on_known
        self._is_over = False
        self._principal: Principal | None = None
        # Until more is known; those who come from one machine are one party.
        self.name = f"at {address}"

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
