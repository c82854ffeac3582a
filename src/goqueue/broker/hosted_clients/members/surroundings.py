"""What members need of the broker they live in."""

from collections.abc import Callable, Iterable
from typing import Protocol

from goqueue.broker.calls.calls import Calls
from goqueue.broker.groups.commits import exists
from goqueue.broker.groups.groups import Groups
from goqueue.broker.reading.log_anywhere import LogAnywhere
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.names import TopicPartition
from goqueue.model.rights import MemberRights
from goqueue.state.metadata_image import MetadataImage


class MemberSurroundings(Protocol):
    config: BrokerConfig
    clock_ms: Callable[[], int]
    groups: Groups
    calls: Calls
    log_anywhere: LogAnywhere

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
