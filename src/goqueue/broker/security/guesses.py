"""How fast passwords can be guessed: so many a second at one account, and from one address.

Before a password is tried that nobody here has seen to fit, its turn must come: at the address that
it comes from, and at the account that it is for, whoever tries there and whether the account is
there or not. Only who was wrong uses turns up, so that a thousand clients may log in at once. The
next turn is that of the address from which the least was wrong lately: guesses from a hundred
others do not keep a user away who comes for the first time. Who waits for too long, or finds too
many waiting, is told to come again: nothing was tried, and nothing is told of the password. What is
known to fit waits for nothing (`passwords.py`).

Attempts are counted by a hash under a key that dies with the process, in so many buckets: nobody
makes them be forgotten by naming others, and nobody knows who shares a bucket with whom.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
from collections import OrderedDict
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

from goqueue.model.security.errors import TooManyLogIns

# Persons type slower, and eight letters take centuries.
TURNS_PER_SECOND: Final = 10.0
# Before that counts: some programs with an old password, started together.
ACCOUNT_BURST: Final = 20
# Of many programs behind one address.
ADDRESS_BURST: Final = 100
# Each holds a request or a connection.
WAITING_MAX: Final = 200
# For one account from one address: who guesses leaves others at other addresses their turns, which
# come within a second.
WAITING_FROM_ADDRESS_MAX: Final = 10
# Half of what was wrong at an address is forgotten after this long.
BLAME_HALF_LIFE_S: Final = 600.0
# At each of the two: together less than Kafka's clients have to log in (sasl.login.timeout.ms).
PATIENCE_S: Final = 4.0
# Of some 300 bytes where they are used. Guesses at all names together are tried some hundred times
# a second, so that those in one bucket hardly hold up others there.
BUCKETS: Final = 16_384
# From where a user has logged in, as hashes of 100 bytes.
SEEN_MAX: Final = 10_000
# Addresses are read with every request that shows a password.
NETWORKS_MAX: Final = 10_000
# Whoever has an IPv6 address has this many bits of others beside it.
_IPV6_PREFIX_BITS: Final = 64


class _Waiting(NamedTuple):
    """`blame` is that of the address when it came."""

    network: str
    blame: int
    turn: asyncio.Future[None]


class Attempts:
    """Those at one account, or from one address; each has its turn."""

    __slots__ = ("_at_s", "_blame", "_burst", "_left", "_timer", "_waiting")

    def __init__(self, burst: int) -> None:
        self._burst = burst
        self._left = float(burst)
        self._at_s = 0.0
        # Turns that were not given back, and how many of them count still.
        self._blame = 0.0
        self._waiting: list[_Waiting] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def are_left(self) -> bool:
        self._refill()
        return self._left >= 1.0 and not self._waiting

    @property
    def blame(self) -> int:
        """Whole turns: who came a moment earlier is not to blame for less."""
        self._refill()
        return round(self._blame)

    async def take(
        self, network: str = "", blame: int = 0, *, from_network_max: int = WAITING_MAX
    ) -> None:
        """`network`: where it comes from, and how much that is to blame."""
        if self.are_left:
            self._count(1.0)
            return
        self._make_room(network, blame, from_network_max)
        loop = asyncio.get_running_loop()
        waiting = _Waiting(network, blame, loop.create_future())
        patience = loop.call_later(PATIENCE_S, _give_up, waiting.turn)
        self._waiting.append(waiting)
        self._look_later()
        try:
            await waiting.turn
        finally:
            patience.cancel()
            with suppress(ValueError):
                self._waiting.remove(waiting)

    def _make_room(self, network: str, blame: int, from_network_max: int) -> None:
        if sum(each.network == network for each in self._waiting) >= from_network_max:
            raise _too_many()
        if len(self._waiting) >= WAITING_MAX:
            last = max(self._waiting, key=_blame_of)
            if last.blame <= blame:
                raise _too_many()
            self._waiting.remove(last)
            _give_up(last.turn)

    def give_back(self) -> None:
        """It was no guess."""
        self._count(-1.0)
        self._grant()

    def use(self) -> None:
        """It was one, and did not wait."""
        self._refill()
        self._count(1.0)

    def _count(self, turns: float) -> None:
        self._left = max(-float(self._burst), min(self._left - turns, float(self._burst)))
        self._blame = max(self._blame + turns, 0.0)

    def _refill(self) -> None:
        now_s = asyncio.get_running_loop().time()
        passed_s = now_s - self._at_s
        self._at_s = now_s
        self._left = min(self._left + passed_s * TURNS_PER_SECOND, float(self._burst))
        self._blame *= 0.5 ** (passed_s / BLAME_HALF_LIFE_S)

    def _grant(self) -> None:
        self._refill()
        while self._waiting and self._left >= 1.0:
            following = min(self._waiting, key=_blame_of)
            self._waiting.remove(following)
            if not following.turn.done():
                self._count(1.0)
                following.turn.set_result(None)
        self._look_later()

    def _look_later(self) -> None:
        if self._timer is None and self._waiting:
            wait_s = (1.0 - self._left) / TURNS_PER_SECOND
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._look)

    def _look(self) -> None:
        self._timer = None
        self._grant()


class Guesses:
    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._accounts: dict[int, Attempts] = {}
        self._addresses: dict[int, Attempts] = {}
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    async def turn(self, name: str, address: str) -> None:
        """Return when something may be tried; `TooManyLogIns` if that takes too long."""
        await self.turn_from(address)
        blame = self._from(address).blame
        try:
            await self._for(name).take(
                network_of(address), blame, from_network_max=WAITING_FROM_ADDRESS_MAX
            )
        except BaseException:
            self.was_right_from(address)
            raise

    async def turn_from(self, address: str) -> None:
        """As `turn`, for what nobody guesses."""
        await self._from(address).take()

    def was_right(self, name: str, address: str) -> None:
        """What had its turn fitted."""
        self.was_right_from(address)
        self._for(name).give_back()

    def was_right_from(self, address: str) -> None:
        self._from(address).give_back()

    def was_wrong(self, name: str, address: str) -> None:
        """What was tried at once did not fit."""
        self._from(address).use()
        self._for(name).use()

    # --- who is seen again where it was, by proofs that tell nothing of the password ------

    def need_no_turn(self, name: str, address: str) -> bool:
        """It has logged in from there, and not too much was tried from there meanwhile."""
        is_seen = self._hash(name, network_of(address)) in self._seen
        return is_seen and self._from(address).are_left

    def seen(self, name: str, address: str) -> None:
        visit = self._hash(name, network_of(address))
        self._seen[visit] = None
        self._seen.move_to_end(visit)
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)

    def _for(self, name: str) -> Attempts:
        return self._at(self._accounts, name, ACCOUNT_BURST)

    def _from(self, address: str) -> Attempts:
        return self._at(self._addresses, network_of(address), ADDRESS_BURST)

    def _at(self, counted: dict[int, Attempts], name: str, burst: int) -> Attempts:
        bucket = int.from_bytes(self._hash(name)[:8]) % BUCKETS
        found = counted.get(bucket)
        if found is None:
            found = counted[bucket] = Attempts(burst)
        return found

    def _hash(self, *parts: str) -> bytes:
        return hmac.digest(self._key, repr(parts).encode(), hashlib.sha256)


@lru_cache(maxsize=NETWORKS_MAX)
def network_of(address: str) -> str:
    """What is counted together: an IPv4 address, or the network of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        # A socket in the file system.
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _IPV6_PREFIX_BITS), strict=False))


def _blame_of(waiting: _Waiting) -> int:
    return waiting.blame


def _give_up(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_exception(_too_many())


def _too_many() -> TooManyLogIns:
    return TooManyLogIns("too many log-ins failed, at this account or from this address; try again")
