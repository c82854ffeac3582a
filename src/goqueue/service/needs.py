"""What an operation of a door needs: declared beside it, required when the door is built.

The declarations are what the documentation of access and the test with a caller without any right
are made from; the checks themselves are made by the services, which no door can go around.
"""

from dataclasses import dataclass
from enum import Enum, auto

from goqueue.model.rights import Resource, Verb


class Refused(Enum):
    """What a caller without the right gets."""

    # The whole answer is the refusal.
    WHOLE = auto()
    # Each named thing is refused by itself, and the others are answered.
    EACH = auto()
    # What the caller may not see is left out.
    LEFT_OUT = auto()


@dataclass(frozen=True, slots=True)
class Need:
    """`names` says where the request names what it is about: fields of a Kafka request in dots
    (`topics.name`), a part of a path or a field of a body, several with commas; empty for the
    cluster and for lists. `or_cluster`: the same right on the cluster is enough; `or_verb`: this
    one is."""

    resource: Resource
    verb: Verb
    names: str = ""
    refused: Refused = Refused.WHOLE
    or_cluster: bool = False
    or_verb: Verb | None = None


# `OPEN` in place of needs: anyone may ask, and the answer tells nothing of what is stored.
OPEN: tuple[Need, ...] = ()
