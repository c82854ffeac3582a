"""What is known about bytes in a log that are not what was written."""

from pathlib import Path
from typing import NamedTuple

from goqueue.model.names import TopicPartition


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
