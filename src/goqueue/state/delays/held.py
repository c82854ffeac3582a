"""Delayed messages of transactions that have not ended: nobody has them scheduled yet.

They came with batches of a transactional producer and are kept until the partition's marker: then
they are scheduled, or forgotten. Memory has only where they stand in the log.
"""

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from goqueue.state.delays.records import ANY_EPOCH, NO_SPLIT, TargetKey


class HeldPart(NamedTuple):
    """What one batch brought."""

    producer_epoch: int
    base_sequence: int
    offset: int
    size_bytes: int
    split_at_ms: int = NO_SPLIT


class HeldMessages:
    def __init__(self) -> None:
        self._parts: dict[tuple[TargetKey, int], list[HeldPart]] = {}

    def add(self, target: TargetKey, producer_id: int, part: HeldPart) -> None:
        self._parts.setdefault((target, producer_id), []).append(part)

    def end(
        self, target: TargetKey, producer_id: int, producer_epoch: int, base_sequence: int
    ) -> int:
        """Forget the part of this batch, and return its bytes."""
        key = (target, producer_id)
        ended: list[HeldPart] = []
        left: list[HeldPart] = []
        for part in self._parts.get(key, []):
            is_meant = part.base_sequence == base_sequence and (
                producer_epoch in (part.producer_epoch, ANY_EPOCH)
            )
            (ended if is_meant else left).append(part)
        if left:
            self._parts[key] = left
        else:
            self._parts.pop(key, None)
        return sum(part.size_bytes for part in ended)

    def drop(self, topic_id: UUID) -> int:
        """Forget what waits for a topic, and return its bytes."""
        gone = [key for key in self._parts if key[0].topic_id == topic_id]
        return sum(part.size_bytes for key in gone for part in self._parts.pop(key))

    def of(self, target: TargetKey, producer_id: int) -> list[HeldPart]:
        """In the order of the log."""
        return list(self._parts.get((target, producer_id), ()))

    def split_at_ms(
        self, target: TargetKey, producer_id: int, producer_epoch: int, base_sequence: int
    ) -> int | None:
        """By which time this batch was split; None if nothing of it is held."""
        for part in self._parts.get((target, producer_id), ()):
            if part[:2] == (producer_epoch, base_sequence):
                return part.split_at_ms
        return None

    def first_offset(self) -> int | None:
        """The log must be kept from here on."""
        offsets = [part.offset for parts in self._parts.values() for part in parts]
        return min(offsets, default=None)

    def __iter__(self) -> Iterator[tuple[TargetKey, int, list[HeldPart]]]:
        return ((target, producer, parts) for (target, producer), parts in self._parts.items())
