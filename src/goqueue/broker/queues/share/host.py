"""The part of the broker that share groups stand on."""

from typing import Protocol
from uuid import UUID

from goqueue.broker.calls.calls import Calls
from goqueue.broker.partitions.partition import Partition
from goqueue.model.topics import TopicView
from goqueue.state.metadata_image import MetadataImage


class ShareHost(Protocol):
    calls: Calls

    @property
    def is_alone(self) -> bool: ...
    @property
    def image(self) -> MetadataImage: ...
    def topic(self, name: str) -> TopicView: ...
    def topic_by_id(self, topic_id: UUID) -> TopicView: ...
    def partition(self, topic: str, index: int) -> Partition: ...
    def clock_ms(self) -> int: ...
