"""What a broker says of itself when it joins a cluster, and what the cluster remembers of it."""

from typing import Final
from uuid import UUID

import msgspec

# What this release understands. A cluster's level rises when all of its brokers are new enough, and
# somebody uses what the older ones do not know; from then on these cannot join it.
# What came with which level is in `state/membership/feature_levels.py`.
FEATURE_LEVEL: Final = 3


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker says of its folder when it registers (`state/membership/identity.py`)."""

    directory: UUID
    # The incarnation admitted last, and all that began after it.
    trail: tuple[UUID, ...]
    # Whether the logs hold all that they held when the first of the trail was admitted.
    is_kept: bool
    # Whether it takes no new replicas, as its settings at the start have it (KIP-1066).
    is_cordoned: bool = False
    # What its release understands; the first ones that formed clusters did not say.
    feature_level: int = 1

    @property
    def incarnation(self) -> UUID:
        return self.trail[-1]


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster remembers of a node, also while it is down: the last one admitted."""

    directory: UUID
    incarnation: UUID
    broker_epoch: int
    # It is about to leave: it gets no new partitions, and hands over those it leads.
    is_draining: bool = False
    # As it registered: replicas are also placed while it is down.
    is_cordoned: bool = False
    # Also as it registered. One that was cut off comes back with the release that it had.
    feature_level: int = 1
