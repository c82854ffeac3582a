"""Elections that an administrator asks for (KIP-460), and what comes of them."""

from enum import Enum


class ElectionKind(Enum):
    # The first of the replicas, if it is in sync.
    PREFERRED = "preferred"
    # Anyone that is there, if nobody leads: what it does not have is lost.
    UNCLEAN = "unclean"


class ElectionAnswer(Enum):
    ELECTED = "elected"
    NOT_NEEDED = "not needed"
    PREFERRED_NOT_AVAILABLE = "preferred leader not available"
    ELIGIBLE_NOT_AVAILABLE = "no replica is available"
    UNKNOWN_PARTITION = "unknown partition"
    # Somebody else changed the partition meanwhile.
    CONFLICT = "changed meanwhile"
