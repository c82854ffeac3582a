"""What a hostile client sends in one go, and how the answers to it are counted."""

import random
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class Burst(NamedTuple):
    data: bytes
    frames: int


class Frames(Protocol):
    def burst(self) -> Burst:
        """Cheap to make: a million of them are sent."""

    def costly(self) -> Burst:
        """What takes the broker long, in turn."""


def in_turn(chance: random.Random, items: Sequence[T]) -> Iterator[T]:
    """All of them in some order, again and again."""
    return cycle(chance.sample(items, len(items)))


class KafkaAnswers:
    """Counts frames by the lengths before them."""

    def __init__(self) -> None:
        self.count = 0
        self._left = 0
        self._head = b""

    def feed(self, data: bytes) -> None:
        position = 0
        while position < len(data):
            if self._left:
                step = min(self._left, len(data) - position)
                self._left -= step
                position += step
                continue
            missing = 4 - len(self._head)
            self._head += data[position : position + missing]
            position += missing
            if len(self._head) == 4:
                self._left = int.from_bytes(self._head, "big")
                self._head = b""
                self.count += 1


class HttpAnswers:
    """Counts status lines; bodies do not hold any."""

    def __init__(self) -> None:
        self.count = 0
        self._end = b""

    def feed(self, data: bytes) -> None:
        data = self._end + data
        self.count += data.count(b"HTTP/1.1 ")
        self._end = data[-8:]
