"""Figures of queues: what is ready, leased, waiting or dying in each partition of each group."""

from collections.abc import Iterator
from typing import NamedTuple

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.queues import Queues
from goqueue.model.errors import GoQueueError
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.messages import QueueDescription


class QueueFigures(NamedTuple):
    topic: str
    partition: Partition
    seen: QueueDescription


def queue_figures(host: QueueHost, queues: Queues) -> Iterator[QueueFigures]:
    """Queue by queue, in no order; those of deleted and offline partitions are left out."""
    for shard in queues.registry.state.loaded_shards():
        for key in shard.machine.list_queues():
            view = host.image.topics_by_id.get(key.topic_id)
            if view is None:
                continue
            try:
                partition = host.partition(view.name, key.partition)
            except GoQueueError:
                continue
            readable = OffsetRange(partition.log_start_offset, partition.last_stable_offset)
            seen = shard.machine.look(key, readable, partition.lanes.index)
            if seen is not None:
                yield QueueFigures(view.name, partition, seen)
