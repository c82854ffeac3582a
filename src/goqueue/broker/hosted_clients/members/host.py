"""The part of the broker that members stand on."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from goqueue.broker.groups.groups import Groups
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.log import FetchedPart, FetchPart, Isolation, ListedOffset
from goqueue.model.names import TopicPartition
from goqueue.state.metadata_image import MetadataImage


class MemberHost(Protocol):
    config: BrokerConfig
    clock_ms: Callable[[], int]
    groups: Groups
    hosted: HostedPartitions

    @property
    def image(self) -> MetadataImage: ...

    async def fetch(
        self,
        wanted: Sequence[FetchPart],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: Isolation,
    ) -> list[FetchedPart]: ...

    async def list_offset(
        self,
        topic: str,
        index: int,
        timestamp: int,
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        leader_epoch: int = -1,
    ) -> ListedOffset: ...


def existing(
    partitions: Iterable[TopicPartition], image: MetadataImage
) -> frozenset[TopicPartition]:
    """Those that are there; a leader may have assigned others."""
    return frozenset(
        partition
        for partition in partitions
        if (topic := image.topics.get(partition.topic)) is not None
        and 0 <= partition.partition < len(topic.partitions)
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found
