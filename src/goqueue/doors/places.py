"""Who has the connections of a door where everybody logs in, and who makes room when all are taken.

Of somebody who has just connected nothing is known, so it may log in beside all others, together
with a few more; who does not is pushed out by those that come later. Once it is known whose it is,
the party that has most connections loses one. If that is its own, the newcomer goes: were it one of
those that are there, its client would come again, and push out the next.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, Generic, TypeVar

from goqueue.model.fairness.belongings import Belongings

T = TypeVar("T")

# Beyond the places, for those who have not logged in yet: a sixteenth of them, and where there are
# few places as many as may log in at the same moment.
UNKNOWN_PART: Final = 16
UNKNOWN_MIN: Final = 16
# Of the party that has most: among its oldest, the one that can best be done without. All of them
# may be ten thousand.
LOOKED_AT_MAX: Final = 100


class Places(Generic[T]):
    def __init__(
        self,
        limit: int,
        *,
        worth: Callable[[T], tuple[bool, float]],
        hang_up: Callable[[T], None],
    ) -> None:
        """`limit`: at least one. `worth`: the least of several goes. `hang_up` ends one, which has
        left already."""
        self.limit = limit
        self._worth = worth
        self._hang_up = hang_up
        # In the order in which they came.
        self._unknown: dict[T, None] = {}
        self._parties: dict[T, str] = {}
        self._held: Belongings[T] = Belongings()

    def __len__(self) -> int:
        return len(self._unknown) + len(self._parties)

    def take(self, one: T) -> None:
        """Somebody has connected."""
        spare = max(UNKNOWN_MIN, self.limit // UNKNOWN_PART)
        if len(self) >= self.limit and len(self._unknown) >= spare:
            # Whoever it is has had the longest time to log in.
            self._end(next(iter(self._unknown)))
        self._unknown[one] = None

    def known(self, one: T, party: str) -> None:
        """It has logged in; as somebody else than before, perhaps."""
        if one not in self._unknown and self._parties.get(one, party) == party:
            return
        self.leave(one)
        if len(self._parties) >= self.limit:
            loser = self._held.gives_way(party)
            if loser == party:
                self._hang_up(one)
                return
            self._end(min(islice(self._held.of(loser), LOOKED_AT_MAX), key=self._worth))
        self._parties[one] = party
        self._held.add(party, one)

    def leave(self, one: T) -> None:
        self._unknown.pop(one, None)
        party = self._parties.pop(one, None)
        if party is not None:
            self._held.remove(party, one)

    def _end(self, one: T) -> None:
        self.leave(one)
        self._hang_up(one)
