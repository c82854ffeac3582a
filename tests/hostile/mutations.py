"""Damage to bytes that were right: what a fuzzer does, without looking at what comes of it."""

import random
from collections.abc import Callable, Sequence
from typing import Final

_TELLING_BYTES: Final = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
_LONG_LENGTHS: Final = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80")


def mutated(chance: random.Random, data: bytes, begin: int = 0) -> bytes:
    """`begin`: what stands before stays, so that the rest is looked at."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        if len(changed) > begin:
            chance.choice(_MUTATIONS)(chance, changed, chance.randrange(begin, len(changed)))
    return bytes(changed)


def _flip(chance: random.Random, data: bytearray, at: int) -> None:
    data[at] = chance.choice(_TELLING_BYTES)


def _bit(chance: random.Random, data: bytearray, at: int) -> None:
    data[at] ^= 1 << chance.randrange(8)


def _cut(_: random.Random, data: bytearray, at: int) -> None:
    del data[at:]


def _repeat(chance: random.Random, data: bytearray, at: int) -> None:
    data[at:at] = data[at : at + chance.randrange(1, 64)] * chance.randrange(1, 20)


def _lengthen(chance: random.Random, data: bytearray, at: int) -> None:
    data[at : at + 4] = chance.choice(_LONG_LENGTHS)


_MUTATIONS: Final[Sequence[Callable[[random.Random, bytearray, int], None]]] = (
    _flip,
    _flip,
    _bit,
    _bit,
    _cut,
    _repeat,
    _lengthen,
)
