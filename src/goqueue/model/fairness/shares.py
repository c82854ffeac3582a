"""Who may have more of a table that all fill and nothing falls out of by itself.

A part is kept for the cluster's administrators, so that they get in whatever others did. Half of
the rest is divided evenly among the parties: nobody gets what is promised to another one. The other
half is for whoever comes first. So a party that is alone may have everything but the reserve, and
a large one among many about half of everything.
"""

from dataclasses import dataclass
from typing import Final

from goqueue.model.fairness.headcount import Headcount

# A twentieth is kept for administrators: enough to remove what is too much by more users and rules.
RESERVED_PART: Final = 20


@dataclass(frozen=True, slots=True)
class Shares:
    capacity: int
    # Of the capacity.
    reserve: int = 0

    @classmethod
    def secured(cls, capacity: int, *, is_on: bool) -> "Shares":
        """Where nobody logs in, there are no administrators either."""
        return cls(capacity, capacity // RESERVED_PART if is_on else 0)

    @property
    def is_free_below(self) -> int:
        """Nobody is refused while there are fewer in all: until then nobody need be counted."""
        return (self.capacity - self.reserve) // 2

    def promised(self, parties: int) -> int:
        """What each may have, whatever the others have."""
        room = self.capacity - self.reserve
        return room if parties <= 1 else room // 2 // parties

    def told(self, wanted: int) -> str:
        """What a refusal says behind the bound itself, where there would be `wanted` in all."""
        if wanted > self.capacity:
            return ""
        if wanted > self.capacity - self.reserve:
            return f", of which the last {self.reserve} are for administrators of the cluster"
        return ", of which its tenant has its share"

    def may_add(
        self,
        party: str,
        held: Headcount,
        parties: int,
        *,
        count: int = 1,
        administers_cluster: bool = False,
    ) -> bool:
        return count <= self.room(party, held, parties, administers_cluster=administers_cluster)

    def room(
        self, party: str, held: Headcount, parties: int, *, administers_cluster: bool = False
    ) -> int:
        """How much more it may have; negative where there is too much already. `parties`: how many
        there are, whether they have something or not."""
        room = self.capacity - (0 if administers_cluster else self.reserve) - held.total
        if administers_cluster or parties <= 1:
            return room
        share = self.promised(parties)
        of_others = held.beyond(share) - max(0, held[party] - share)
        free = max(0, (self.capacity - self.reserve) // 2 - of_others)
        return min(room, share + free - held[party])
