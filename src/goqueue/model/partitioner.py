"""Which partition a key belongs to: the same one that Kafka's own clients choose."""

from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """Austin Appleby's MurmurHash2, 32 bits, with the seed that Kafka's Java client uses."""
    length = len(key)
    value = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(key[position : position + 4], "little")
        word = (word * _MULTIPLIER) & _MASK
        word ^= word >> 24
        word = (word * _MULTIPLIER) & _MASK
        value = ((value * _MULTIPLIER) & _MASK) ^ word
    if whole < length:
        value ^= int.from_bytes(key[whole:], "little")
        value = (value * _MULTIPLIER) & _MASK
    value ^= value >> 13
    value = (value * _MULTIPLIER) & _MASK
    return value ^ (value >> 15)


def partition_for_key(key: bytes, partition_count: int) -> int:
    # The sign bit is cleared, not the absolute value taken: that is what Kafka's clients do.
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
