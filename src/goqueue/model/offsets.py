"""Ranges of offsets."""

from typing import NamedTuple


class OffsetRange(NamedTuple):
    """The offsets from `start` to before `end`."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start
