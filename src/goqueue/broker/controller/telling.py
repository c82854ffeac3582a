"""Tells the controller where logs of this broker end that are in doubt (`log_ends.py`)."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from goqueue.broker.background import ended
from goqueue.broker.membership.membership import Membership
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.metadata.store import MetadataStore, Put
from goqueue.model.errors import GoQueueError
from goqueue.model.names import NodeId, TopicPartition
from goqueue.model.replication import Member, PartitionState
from goqueue.state import metadata_keys as keys
from goqueue.state.metadata_image import ImageChanges, MetadataImage

logger = logging.getLogger(__name__)

# A log that is being cut takes its role a little later than the metadata says.
_RETRY_S: Final = 0.2


class LogEndTelling:
    def __init__(
        self,
        store: MetadataStore,
        membership: Membership,
        hosted: HostedPartitions,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._store = store
        self._membership = membership
        self._hosted = hosted
        self._image = image
        self._known_as: Member | None = None
        self._untold: set[TopicPartition] = set()
        self._task: asyncio.Task[None] | None = None

    def image_changed(self, changes: ImageChanges) -> None:
        """After partitions have taken the roles that the image gives them."""
        me = self._membership.me
        if me is None:
            return
        if me != self._known_as:
            self._known_as = me
            concerned: Iterable[TopicPartition] = [p.name for p in self._hosted]
        else:
            concerned = changes.partitions_changed
        self._untold.update(name for name in concerned if self._asked(name, me.node) is not None)
        if self._untold and self._task is None:
            self._task = asyncio.create_task(self._tell_all())

    async def close(self) -> None:
        await ended(self._task)

    def _asked(self, name: TopicPartition, node: NodeId) -> PartitionState | None:
        """The partition's state if this broker's log is one of those that are to be compared."""
        topic = self._image().topics.get(name.topic)
        if topic is None or name.partition >= len(topic.partitions):
            return None
        state = topic.partitions[name.partition].state
        is_in_doubt = not (state.has_leader or state.in_sync or state.eligible)
        return state if is_in_doubt and node in state.doubtful else None

    async def _tell_all(self) -> None:
        while self._untold:
            for name in tuple(self._untold):
                me = self._membership.me
                if me is None:
                    continue
                try:
                    await self._tell(name, me)
                except GoQueueError as error:
                    logger.debug("%s: its end is told later: %s", name, error)
                except Exception:
                    # The others must not wait for it.
                    logger.exception("%s: its end cannot be told; tried again", name)
            await asyncio.sleep(_RETRY_S)
        self._task = None

    async def _tell(self, name: TopicPartition, me: Member) -> None:
        state, partition = self._asked(name, me.node), self._hosted.get(*name)
        if state is None or partition is None:
            self._untold.discard(name)
            return
        # Before it has accepted the epoch it may still copy from an older leader; and nobody knows
        # what is left of a log that failed before it is opened again.
        if partition.leader_epoch != state.leader_epoch or partition.offline_reason is not None:
            return
        last_epoch, end_offset = partition.replica_end
        value = keys.LogEndValue(
            node=me.node,
            broker_epoch=me.broker_epoch,
            leader_epoch=state.leader_epoch,
            last_epoch=last_epoch,
            end_offset=end_offset,
        )
        logger.warning("%s is in doubt: this broker's log ends at %d", name, end_offset)
        await self._store.transact(
            (), [Put(*keys.log_end_entry(*name, value), self._membership.lease)]
        )
        self._untold.discard(name)
