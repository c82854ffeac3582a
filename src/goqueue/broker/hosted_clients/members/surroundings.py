"""What members need of the broker they live in, and of the client they live there for."""

from collections.abc import Callable, Iterable
from typing import Protocol

from goqueue.broker.groups.groups import Groups, exists
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.partitions.log import Log
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.groups.messages import OffsetCommit
from goqueue.model.log import FetchPart
from goqueue.model.names import TopicPartition
from goqueue.model.rights import ReadableCommit, ReadableGroup, ReadablePart, ReadableTopic
from goqueue.state.metadata_image import MetadataImage


class MemberRights(Protocol):
    """What a member's client may do; it comes with every request, as rules may have changed."""

    @property
    def group(self) -> ReadableGroup: ...

    def topic(self, name: str) -> ReadableTopic | None:
        """None if the client may not read the topic: its partitions are left out."""
        ...

    def part(self, part: FetchPart) -> ReadablePart | None: ...

    def commit(self, request: OffsetCommit) -> ReadableCommit:
        """Raises if one of the topics may not be read."""
        ...


class MemberSurroundings(Protocol):
    config: BrokerConfig
    clock_ms: Callable[[], int]
    groups: Groups
    log: Log
    hosted: HostedPartitions

    @property
    def image(self) -> MetadataImage: ...


def readable(
    partitions: Iterable[TopicPartition], image: MetadataImage, rights: MemberRights
) -> frozenset[TopicPartition]:
    """Those that are there, and that the client may read; a leader may have assigned others."""
    return frozenset(
        place
        for place in partitions
        if exists(image.topics, *place) and rights.topic(place.topic) is not None
    )
