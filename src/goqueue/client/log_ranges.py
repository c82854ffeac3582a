"""Words of log reading: ranges, ends and isolation. Imports nothing that takes time."""

import uuid
from dataclasses import dataclass
from typing import Final

from goqueue.client.group_facts import PartitionKey

# In place of a time, in ListOffsets.
EARLIEST: Final = -2
LATEST: Final = -1

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

DEFAULT_FETCH_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """Offsets `start` up to, not including, `end`. The id tells a topic from its successor."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    start: int
    end: int

    @property
    def place(self) -> PartitionKey:
        return self.topic, self.partition
