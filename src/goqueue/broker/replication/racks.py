"""Which replica a reader should read from: one that stands where the reader does (KIP-392)."""

from collections.abc import Callable

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.reading import ReadableCopy
from goqueue.model.names import NodeId
from goqueue.state.metadata_image import MetadataImage


class Racks:
    def __init__(self, node_id: NodeId, image: Callable[[], MetadataImage]) -> None:
        self._node_id = node_id
        self._image = image

    def nearest(self, rack: str, copy: ReadableCopy, offset: int) -> NodeId | None:
        """A replica in the reader's rack that has what the reader asks for; None to stay here.

        Only leaders send readers away: they know how far the others are.
        """
        if not isinstance(copy, Partition) or copy.leading is None:
            return None
        brokers = self._image().brokers
        mine = brokers.get(self._node_id)
        if mine is not None and mine.rack == rack:
            return None
        for member in copy.leading.state.in_sync:
            broker = brokers.get(member.node)
            if broker is None or broker.rack != rack or broker.epoch != member.broker_epoch:
                continue
            if copy.leading.end_of(member) >= offset:
                return member.node
        return None
