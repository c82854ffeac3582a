"""The part of the broker that queues stand on."""

from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from goqueue.broker.calls.calls import Calls
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.reading.log_anywhere import LogAnywhere
from goqueue.broker.runtime.slices import AtLeisure
from goqueue.broker.runtime.topic import InternalTopics
from goqueue.model.log import Published
from goqueue.model.names import NodeId
from goqueue.model.publishing import Outcome
from goqueue.model.records import NewRecord
from goqueue.model.rights import CreatableTopic, WritableTopic
from goqueue.model.topic_config import TopicConfig
from goqueue.model.topics import NewTopic, TopicView
from goqueue.state.metadata_image import MetadataImage


class OwnPublishing(Protocol):
    async def publish(self, topic: WritableTopic, records: Sequence[NewRecord]) -> list[Outcome]:
        """Store records that fit the topic's schemas; say of each what came of it."""
        ...

    async def store_own(
        self, topic: WritableTopic, records: Sequence[NewRecord], *, partition: int | None = None
    ) -> list[Published]:
        """Store dead letters, whatever schemas say of them."""
        ...

    async def store_led(
        self, topic: WritableTopic, partition: Partition, records: Sequence[NewRecord]
    ) -> None:
        """As `store_own`, under this leadership of the partition or not at all."""
        ...


class Topics(InternalTopics, Protocol):
    async def create(
        self, topic: CreatableTopic, new: NewTopic, *, validate_only: bool = False
    ) -> TopicView: ...


class QueueHost(Protocol):
    node_id: NodeId
    clock_ms: Callable[[], int]
    calls: Calls
    hosted: HostedPartitions
    leisure: AtLeisure
    log_anywhere: LogAnywhere

    @property
    def is_alone(self) -> bool: ...
    @property
    def topics(self) -> Topics: ...
    @property
    def publishing(self) -> OwnPublishing: ...
    @property
    def image(self) -> MetadataImage: ...
    def topic(self, name: str) -> TopicView: ...
    def topic_by_id(self, topic_id: UUID) -> TopicView: ...
    def topic_config(self, topic: TopicView) -> TopicConfig: ...
    def partition(self, topic: str, index: int) -> Partition: ...
    def check_awake(self) -> None: ...
