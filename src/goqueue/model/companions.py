"""Companions: internal topics that keep what belongs to the partitions of one other topic.

What is acknowledged in the queues of a topic, and what is delayed on its way there, is worked on by
the leader of each partition. These logs must be where the partition is led: so each topic that
needs them has its own, with as many partitions on the same brokers, and the controller lets the
same brokers lead them (decision 14). An earlier release kept all of a kind in one topic, which had
the name of the kind.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

QUEUE_STATE: Final = "__queue_state"
DELAYED: Final = "__delayed"
KINDS: Final = (QUEUE_STATE, DELAYED)

_NAME: Final = re.compile(rf"({'|'.join(KINDS)})\.([0-9a-f]{{32}})", re.ASCII)


def companion_of(kind: str, topic_id: UUID) -> str:
    """By the id: names may be too long to be lengthened, and are used again."""
    return f"{kind}.{topic_id.hex}"


def is_companion(name: str) -> bool:
    return name.startswith("__") and _NAME.fullmatch(name) is not None


def kind_and_owner(name: str) -> tuple[str, UUID] | None:
    """None for a topic that is no companion."""
    if not name.startswith("__"):
        return None
    found = _NAME.fullmatch(name)
    return None if found is None else (found[1], UUID(hex=found[2]))


def companions_of_kind(kind: str, names: Iterable[str]) -> Iterator[UUID]:
    """The ids of the topics to which those of these topics belong that are such companions."""
    for name in names:
        companion = kind_and_owner(name)
        if companion is not None and companion[0] == kind:
            yield companion[1]
