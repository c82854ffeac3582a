"""How old the oldest message is that somebody still has to deal with.

The time of a message is in its batch, on disk. What is not in the page cache takes a while, and on
a disk that hangs it takes for ever: then the figures are told without the ages.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.model.errors import GoQueueError

# Batches looked at for one answer, some 30 µs each when in the page cache.
LOOKS_MAX: Final = 2_000
# Prometheus gives a scrape ten seconds by default.
WAIT_SECONDS: Final = 2.0

K = TypeVar("K")


class StoredAt(NamedTuple):
    """Where a message is whose age is asked for."""

    partition: HostedPartition
    offset: int


class Ages:
    def __init__(self) -> None:
        self._looking: asyncio.Future[list[int | None]] | None = None

    async def oldest(self, stored: Iterable[tuple[K, StoredAt]], now_ms: int) -> Mapping[K, float]:
        """The greatest age in seconds of the messages of each key; none where it is not known."""
        if self._looking is not None and not self._looking.done():
            return {}
        asked = [pair for pair, _ in zip(stored, range(LOOKS_MAX), strict=False)]
        looking = asyncio.to_thread(_timestamps_ms, [at for _, at in asked])
        self._looking = asyncio.ensure_future(looking)
        done, _ = await asyncio.wait([self._looking], timeout=WAIT_SECONDS)
        ages: dict[K, float] = {}
        found = self._looking.result() if done else []
        for (key, _), at_ms in zip(asked, found, strict=False):
            if at_ms is not None:
                ages[key] = max(ages.get(key, 0.0), (now_ms - at_ms) / 1000)
        return ages


def _timestamps_ms(stored: Sequence[StoredAt]) -> list[int | None]:
    return [_timestamp_ms(at) for at in stored]


def _timestamp_ms(at: StoredAt) -> int | None:
    partition, offset = at
    try:
        header = next(partition.log.headers_from(max(offset, partition.log_start_offset)), None)
    except (GoQueueError, OSError):
        # Deleted meanwhile, or offline, which has a figure of its own.
        return None
    return None if header is None or header.max_timestamp_ms < 0 else header.max_timestamp_ms
