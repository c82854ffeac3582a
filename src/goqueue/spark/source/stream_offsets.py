"""How far a stream has come, as it stands in Spark's checkpoint.

`{"offsets": {"orders": {"0": 23}}, "ids": {"orders": "…"}}`: the next offset of each partition, and
the ids of the topics, for a topic that is made again under its name begins anew.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from goqueue.client.group_facts import PartitionKey


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    next_offsets: Mapping[PartitionKey, int]
    topic_ids: Mapping[str, uuid.UUID]

    def to_json(self) -> dict[str, Any]:
        offsets: dict[str, dict[str, int]] = {topic: {} for topic in sorted(self.topic_ids)}
        for (topic, partition), offset in sorted(self.next_offsets.items()):
            offsets[topic][str(partition)] = offset
        ids = {topic: str(self.topic_ids[topic]) for topic in sorted(self.topic_ids)}
        return {"offsets": offsets, "ids": ids}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> "StreamOffsets":
        return cls(
            {
                (topic, int(partition)): int(offset)
                for topic, partitions in written["offsets"].items()
                for partition, offset in partitions.items()
            },
            {topic: uuid.UUID(text) for topic, text in written["ids"].items()},
        )
