"""Carries the state of queues over to companions (`broker/runtime/carry_over.py`).

Records are written as they are, for the last value of a key wins. Those of one queue come with its
head last: a queue whose head is in the companion is there as a whole.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import Final
from uuid import UUID

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.runtime.carry_over import Carried, on_disk
from goqueue.broker.runtime.shard import encode_state
from goqueue.broker.runtime.stored_records import making_sense
from goqueue.broker.runtime.table import StateTable
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.queues.messages import QueueKey
from goqueue.model.topics import TopicView
from goqueue.state.machine import StateRecord
from goqueue.state.queues.records import HeadKey, decode

QUEUES: Final = "queues"
DROPPED: Final = "queues of topics that are gone, dropped"

Queues = dict[QueueKey, list[StateRecord]]


class StateCarrier:
    def __init__(self, host: QueueHost, ensure: Callable[[TopicView], Awaitable[str]]) -> None:
        """`ensure` makes the companion of a topic and returns its name."""
        self._host = host
        self._ensure = ensure

    async def carry(self, shard: Partition) -> Carried:
        counts: Counter[str] = Counter()
        places: list[TopicPartition] = []
        by_topic: dict[UUID, dict[int, Queues]] = defaultdict(lambda: defaultdict(dict))
        for key, records in (await self._queues(shard)).items():
            by_topic[key.topic_id][key.partition][key] = records
        for topic_id, partitions in by_topic.items():
            count = sum(map(len, partitions.values()))
            topic = self._host.image.topics_by_id.get(topic_id)
            if topic is None:
                counts[DROPPED] += count
                continue
            companion = await self._ensure(topic)
            for index, queues in partitions.items():
                place = topic_partition(companion, index)
                await self._write(place, queues)
                places.append(place)
            counts[QUEUES] += count
        return Carried(counts, places)

    async def _write(self, place: TopicPartition, queues: Queues) -> None:
        partition = self._host.partition(*place)
        known = await self._queues(partition)
        missing = (records for key, records in queues.items() if key not in known)
        data = encode_state(chain.from_iterable(missing), now_ms=self._host.clock_ms())
        if data:
            partition.append_own(data)
        await on_disk(partition)

    async def _queues(self, partition: Partition) -> Queues:
        """By queue: what the log says of it, its head last. One without a head was deleted."""
        log, end = partition.log, partition.log_end_offset
        table = await asyncio.get_running_loop().run_in_executor(
            self._host.hosted.readers, lambda: StateTable.load(log, up_to=end)
        )
        heads: dict[QueueKey, StateRecord] = {}
        others: Queues = {}
        with making_sense():
            for key, value in table.entries.items():
                record = StateRecord(key, value)
                queue, record_key, _ = decode(record)
                if isinstance(record_key, HeadKey):
                    heads[queue] = record
                else:
                    others.setdefault(queue, []).append(record)
        return {queue: [*others.get(queue, ()), head] for queue, head in heads.items()}
