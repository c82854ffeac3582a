"""The part of the broker that queues stand on."""

from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.partitions.partition import Partition
from goqueue.model.log import Published, RecordPage
from goqueue.model.records import NewRecord
from goqueue.model.topic_config import TopicConfig
from goqueue.model.topics import NewTopic, TopicView
from goqueue.state.metadata_image import MetadataImage


class QueueHost(Protocol):
    clock_ms: Callable[[], int]
    hosted: HostedPartitions

    @property
    def image(self) -> MetadataImage: ...
    def topic(self, name: str) -> TopicView: ...
    def topic_by_id(self, topic_id: UUID) -> TopicView: ...
    def topic_config(self, topic: TopicView) -> TopicConfig: ...
    def partition(self, topic: str, index: int) -> Partition: ...
    async def create_topic(self, new: NewTopic, *, validate_only: bool = False) -> TopicView: ...
    async def publish(
        self,
        topic: str,
        records: Sequence[NewRecord],
        *,
        partition: int | None = None,
        is_checked: bool = False,
    ) -> list[Published]: ...
    async def read_records(
        self, topic: str, index: int, offset: int, *, limit: int, max_bytes: int
    ) -> RecordPage: ...
