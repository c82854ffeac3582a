"""Who has the connections of a door where everybody logs in, and who makes room when all are taken.

Of somebody who has just connected nothing is known, so it gets a place: one of the party that has
most connections loses one. Those who do not log in have a small part of the places when there is
need, and then push out each other: they cost nobody else more than that.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, Generic, TypeVar

from goqueue.model.fairness.belongings import Belongings

T = TypeVar("T")

# A sixteenth of the places, when all are taken, is for those who have not logged in yet.
UNKNOWN_PART: Final = 16
# Of the party that has most: among its oldest, the one that can best be done without. All of them
# may be ten thousand.
LOOKED_AT_MAX: Final = 100
_UNKNOWN: Final = ""


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
        self._parties: dict[T, str] = {}
        # In the order in which they came, or were known.
        self._held: Belongings[T] = Belongings()

    def __len__(self) -> int:
        return len(self._parties)

    def take(self, one: T) -> None:
        """Somebody has connected."""
        if len(self._parties) >= self.limit:
            self._make_room()
        self._add(one, _UNKNOWN)

    def known(self, one: T, party: str) -> None:
        """It has logged in; as somebody else than before, perhaps."""
        if one in self._parties and self._parties[one] != party:
            self.leave(one)
            self._add(one, party)

    def leave(self, one: T) -> None:
        party = self._parties.pop(one, None)
        if party is not None:
            self._held.remove(party, one)

    def _add(self, one: T, party: str) -> None:
        self._parties[one] = party
        self._held.add(party, one)

    def _make_room(self) -> None:
        loser = self._held.gives_way(_UNKNOWN)
        unknown = self._held.of(_UNKNOWN)
        if loser == _UNKNOWN or len(unknown) >= max(1, self.limit // UNKNOWN_PART):
            # Whoever it is has had the longest time to log in.
            lost = next(iter(unknown))
        else:
            lost = min(islice(self._held.of(loser), LOOKED_AT_MAX), key=self._worth)
        self.leave(lost)
        self._hang_up(lost)
