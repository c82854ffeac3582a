"""Which dead letters were sent back, whoever did it: a topic of marks beside the dead letters.

Pipelines on Spark write a message and its mark in one transaction; a redrive of the broker writes
the mark after the message. Each leaves out what has a mark.
"""

from collections import defaultdict
from collections.abc import Mapping, Set
from typing import Final

from goqueue.broker.own_grants import OwnWork, own_create, own_read, own_write
from goqueue.broker.queues.host import QueueHost
from goqueue.model.errors import TopicExists
from goqueue.model.log import Isolation
from goqueue.model.queues.dead_letters import (
    BROKER_MARK,
    MARKS_PARTITIONS,
    MARKS_SETTINGS,
    mark_key,
    marks_topic,
    read_mark_key,
)
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic

_PAGE_RECORDS: Final = 10_000
_PAGE_BYTES: Final = 1_048_576


class RedriveMarks:
    """Of one dead-letter topic, which must be there."""

    def __init__(self, host: QueueHost, letters: str) -> None:
        self._host = host
        self._letters_id = host.topic(letters).id
        self._topic = marks_topic(letters)

    async def read(self, floors: Mapping[int, int]) -> Mapping[int, Set[int]]:
        """Offsets of marked letters by partition; below the floors nobody asks for them."""
        found: dict[int, set[int]] = defaultdict(set)
        if self._topic not in self._host.image.topics:
            return found
        topic = own_read(self._topic, OwnWork.REDRIVE)
        offset, end = await self._host.log_anywhere.ends(topic, 0)
        while offset < end:
            page = await self._host.log_anywhere.read_records(
                topic,
                0,
                offset,
                limit=_PAGE_RECORDS,
                max_bytes=_PAGE_BYTES,
                isolation=Isolation.READ_COMMITTED,
            )
            if page.next_offset == offset:
                break
            offset = page.next_offset
            for record in page.records:
                place = read_mark_key(self._letters_id, record.key)
                if place is not None and place[1] >= floors.get(place[0], 0):
                    found[place[0]].add(place[1])
        return found

    async def add(self, partition: int, offset: int) -> None:
        if self._topic not in self._host.image.topics:
            await self._make()
        mark = NewRecord(key=mark_key(self._letters_id, partition, offset), value=BROKER_MARK)
        await self._host.publishing.store_own(
            own_write(self._topic, OwnWork.REDRIVE), [mark], partition=0
        )

    async def _make(self) -> None:
        new = NewTopic(name=self._topic, partitions=MARKS_PARTITIONS, config=dict(MARKS_SETTINGS))
        try:
            await self._host.topics.create(own_create(self._topic, OwnWork.REDRIVE), new)
        except TopicExists:
            return
