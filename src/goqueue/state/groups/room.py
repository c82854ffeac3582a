"""How many bytes groups take, so that a member, a group and all groups together are bounded."""

from collections.abc import Iterable
from typing import Final

from goqueue.model.fairness.amounts import Amounts
from goqueue.state.machine import StateRecord

# What the objects of a record, or of a member, take in memory besides the bytes that they hold.
OBJECT_BYTES: Final = 300
# What a string takes besides its characters. Names count even if they are short: whenever a group
# changes, all names that its members subscribe to are gone through, some 0.3 µs each.
NAME_BYTES: Final = 48


def names_bytes(names: Iterable[str]) -> int:
    return sum(NAME_BYTES + len(name) for name in names)


class StoredBytes:
    """The size of what stands in the log: the last record under every key."""

    def __init__(self) -> None:
        self.held = Amounts()
        self._sizes: dict[bytes, int] = {}

    def replayed(self, group_id: str, record: StateRecord) -> None:
        key, value = record
        if value is None:
            self.held.add(group_id, -self._sizes.pop(key, 0))
            return
        size = OBJECT_BYTES + len(key) + len(value)
        self.held.add(group_id, size - self._sizes.get(key, 0))
        self._sizes[key] = size
