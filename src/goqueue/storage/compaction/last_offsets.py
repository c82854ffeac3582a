"""Where each key was written last: the bounded memory of a compaction run."""

from hashlib import blake2b
from typing import Final

# Longer keys are known by a digest of this size. With 2^64 keys, two might share one.
DIGEST_BYTES: Final = 16


class LastOffsets:
    """Filled in log order. A key shorter than a digest stands for itself."""

    __slots__ = ("_limit", "_offsets")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._limit

    def note(self, key: bytes, offset: int) -> None:
        self._offsets[_known_as(key)] = offset

    def is_replaced(self, key: bytes, offset: int) -> bool:
        """Whether the key was written again after this offset."""
        return self._offsets.get(_known_as(key), -1) > offset


def _known_as(key: bytes) -> bytes:
    return key if len(key) < DIGEST_BYTES else blake2b(key, digest_size=DIGEST_BYTES).digest()
