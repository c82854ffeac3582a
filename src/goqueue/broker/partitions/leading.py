"""The partitions that this node leads: what operations of callers read and write.

`HostedPartitions` has all that lie on this node, for upkeep. An operation that a caller asked for
takes its partition from here, so that a copy whose leader is elsewhere never answers.
"""

from collections.abc import Callable, Iterator

from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.reading import ReadableCopy
from goqueue.model.errors import NotLeader, UnknownPartition, UnknownTopic
from goqueue.state.metadata_image import MetadataImage


class LedPartitions:
    def __init__(self, hosted: HostedPartitions, image: Callable[[], MetadataImage]) -> None:
        self._hosted = hosted
        self._image = image

    def find(self, topic: str, index: int) -> Partition:
        """The partition, or an error that says what is there instead."""
        hosted = self._hosted.get(topic, index)
        if hosted is not None and hosted.led is not None:
            return hosted.led
        self._hosted.check_opened(topic, index)
        view = self._image().topics.get(topic)
        if view is None or self._hosted.is_dropping(topic):
            raise UnknownTopic(f"there is no topic {topic!r}")
        if not 0 <= index < len(view.partitions):
            raise UnknownPartition(
                f"topic {topic!r} has {len(view.partitions)} partitions, no partition {index}"
            )
        leader = self._image().brokers.get(view.partitions[index].leader)
        raise NotLeader(
            f"{topic}-{index} is not led by this broker"
            + (f"; ask broker {leader.node_id}, {leader.http_url}" if leader is not None else ""),
            leader_url="" if leader is None else leader.http_url,
        )

    def all(self) -> Iterator[Partition]:
        """Every partition that this node leads."""
        return (hosted.led for hosted in self._hosted if hosted.led is not None)

    def find_copy(self, topic: str, index: int) -> ReadableCopy:
        """Also a copy of another's, for readers who are closer to it (KIP-392)."""
        hosted = self._hosted.get(topic, index)
        if hosted is not None and hosted.followed is not None:
            return hosted.followed
        return self.find(topic, index)
