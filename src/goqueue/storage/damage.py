"""What is known about bytes in a log that are not what was written."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from goqueue.model.names import TopicPartition

logger = logging.getLogger(__name__)


class Gap(NamedTuple):
    """A stretch of a segment file that holds no valid batch, and the offsets lost with it."""

    position: int
    end_position: int
    first_offset: int
    next_offset: int
    reason: str


class Damage(NamedTuple):
    """A gap as reported to people: where it is and which offsets cannot be read."""

    name: TopicPartition
    path: Path
    position: int
    offset: int
    next_offset: int
    reason: str

    def __str__(self) -> str:
        lost = f"offsets {self.offset} to {self.next_offset - 1} are damaged"
        if self.offset == self.next_offset:
            lost = f"there are stray bytes before offset {self.offset}"
        return (
            f"{self.name}: {lost} ({self.path} at byte {self.position}: {self.reason}); "
            "data before and after is served"
        )


class Gaps:
    """The gaps known in one segment; replaced whole, so any thread may look."""

    __slots__ = ("_all", "_name")

    def __init__(self, name: TopicPartition) -> None:
        self._name = name
        self._all: tuple[Gap, ...] = ()

    def at(self, position: int) -> Gap | None:
        """The gap that has this position of the file."""
        for gap in self._all:
            if gap.position <= position < gap.end_position:
                return gap
        return None

    def holding(self, offset: int) -> Gap | None:
        """The gap that this offset was lost in."""
        for gap in self._all:
            if gap.first_offset <= offset < gap.next_offset:
                return gap
        return None

    def reach(self, size: int) -> bool:
        """Whether a file of this size ends in a gap."""
        return any(gap.end_position == size for gap in self._all)

    def replace(self, gaps: Iterable[Gap], path: Path) -> None:
        known, self._all = self._all, tuple(gaps)
        for gap in self._all:
            if gap not in known:
                logger.error("%s", self.describe(gap, path))

    def damage(self, path: Path) -> list[Damage]:
        return [self.describe(gap, path) for gap in self._all]

    def describe(self, gap: Gap, path: Path) -> Damage:
        return Damage(self._name, path, gap.position, gap.first_offset, gap.next_offset, gap.reason)
