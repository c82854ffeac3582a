"""What the durable state says of one offset, as a small number: deliveries times eight plus kind.

Zero, which takes no room, is a message that nobody has got yet.
"""

from enum import IntEnum
from typing import Final

FRESH: Final = 0
SETTLED: Final = 1

_KIND_BITS: Final = 3
_KIND_MASK: Final = (1 << _KIND_BITS) - 1


class DeadLetterReason(IntEnum):
    """Why a message is on its way to the dead letters. Stored; above `SETTLED`."""

    REJECTED = 2
    MAX_DELIVERIES = 3
    EXPIRED = 4
    UNREADABLE = 5


def delivered(count: int) -> int:
    return count << _KIND_BITS


def dying(count: int, reason: DeadLetterReason) -> int:
    return count << _KIND_BITS | reason


def delivery_count(mark: int) -> int:
    return mark >> _KIND_BITS


def is_open(mark: int) -> bool:
    """Neither settled nor on its way to the dead letters."""
    return mark & _KIND_MASK == 0


def is_returned(mark: int) -> bool:
    """Open, and not fresh."""
    return mark != FRESH and mark & _KIND_MASK == 0


def death_of(mark: int) -> DeadLetterReason | None:
    kind = mark & _KIND_MASK
    return DeadLetterReason(kind) if kind > SETTLED else None
