"""The five lanes, and how they share the deliveries of a queue."""

from enum import Enum, IntEnum
from typing import Final


class Lane(IntEnum):
    """A message's priority; a lower number goes first. Messages without one are normal."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BACKGROUND = 4


LANES: Final = tuple(Lane)

# Of every 100 deliveries while all lanes have messages.
WEIGHTS: Final = (50, 25, 15, 7, 3)


class LaneMode(Enum):
    # Deficit round robin by weight: every lane moves.
    WEIGHTED = "weighted"
    # A lane is served only when those above it are empty.
    STRICT = "strict"
    # Priorities are ignored: one lane in offset order.
    SINGLE = "single"
