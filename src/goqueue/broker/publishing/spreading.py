"""Single records over partitions, and where each was stored."""

import random
from collections.abc import Sequence
from itertools import repeat
from typing import Final

from goqueue.model.batch import NO_TIMESTAMP
from goqueue.model.log import Appended, Produced, Published
from goqueue.model.names import NO_LEADER
from goqueue.model.partitioner import partition_for_key
from goqueue.model.records import NewRecord
from goqueue.model.topics import TopicView

# A topic may have thousands of partitions: most of them are led at any time.
LOOKS_MAX: Final = 10


def led_partition(topic: TopicView) -> int:
    """Any one that has a leader just now, if that is not hard to find."""
    partitions = topic.partitions
    index = random.randrange(len(partitions))
    if partitions[index].leader == NO_LEADER:
        for other in random.sample(range(len(partitions)), min(LOOKS_MAX, len(partitions))):
            if partitions[other].leader != NO_LEADER:
                return other
    return index


def spread(
    records: Sequence[NewRecord],
    chosen: Sequence[int | None] | None,
    partition_count: int,
    *,
    sticky: int | None = None,
) -> dict[int, list[int]]:
    """Positions of records by the partition that was chosen for each, else by its key.

    Records without a key stick to one partition per call, so that they share a batch (KIP-480).
    """
    if sticky is None:
        sticky = random.randrange(partition_count)
    by_partition: dict[int, list[int]] = {}
    choices = repeat(None, len(records)) if chosen is None else chosen
    for position, (record, index) in enumerate(zip(records, choices, strict=True)):
        if index is None:
            index = sticky if record.key is None else partition_for_key(record.key, partition_count)
        by_partition.setdefault(index, []).append(position)
    return by_partition


def published(
    records: Sequence[NewRecord], index: int, stored: Appended | Produced, now_ms: int
) -> list[Published]:
    """Where each record of one batch went."""
    answers: list[Published] = []
    for delta, record in enumerate(records):
        timestamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
        if stored.append_time_ms != NO_TIMESTAMP:
            timestamp_ms = stored.append_time_ms
        answers.append(Published(index, stored.base_offset + delta, timestamp_ms))
    return answers
