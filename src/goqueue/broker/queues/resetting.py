"""Queues that begin anew or are deleted, at the leaders of their partitions."""

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import UUID

import msgspec

from goqueue.broker.calls.calls import LEADER_PATIENCE_S, before_anything_is_done
from goqueue.broker.calls.passing import PASSING
from goqueue.broker.queues.fifo_order import FifoOrders
from goqueue.broker.queues.gates import QueueGates
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.leaders import LOOK_S
from goqueue.broker.queues.registry import QueueRegistry
from goqueue.model.calls import Method
from goqueue.model.companions import QUEUE_STATE, kind_and_owner
from goqueue.model.errors import GoQueueError, NotLeader
from goqueue.model.names import NO_LEADER, TopicPartition, topic_partition
from goqueue.model.queues.messages import QueueKey
from goqueue.model.rights import DeletableGroup, DeletableTopic, ReadableGroup, ReadableTopic
from goqueue.state.queues.messages import DeleteQueues

# Partitions that are emptied at the same time; a topic may have thousands.
PURGING_MAX: Final = 50


class ResetQueue(msgspec.Struct, frozen=True):
    """To `offset`, or to the end as the leader knows it."""

    group: ReadableGroup
    topic: ReadableTopic | DeletableTopic
    index: int
    offset: int | None


class DeleteState(msgspec.Struct, frozen=True):
    """Of a group, whichever partitions it has read; or of one topic."""

    group: DeletableGroup
    topic_id: UUID | None


RESET: Final = Method("queues.reset", ResetQueue, bool)
DELETE: Final = Method("queues.delete", DeleteState, bool)


class QueueResetting:
    def __init__(
        self, host: QueueHost, registry: QueueRegistry, orders: FifoOrders, gates: QueueGates
    ) -> None:
        self._host = host
        self._registry = registry
        self._orders = orders
        self._gates = gates
        host.calls.serve(RESET, self._reset_here)
        host.calls.serve(DELETE, self._delete_here)

    async def reset(
        self, group: ReadableGroup, topic: ReadableTopic, index: int, offset: int
    ) -> None:
        """Begin anew at `offset`; every lease and acknowledgement is forgotten."""
        await self._reset(ResetQueue(group, topic, index, offset))

    async def purge(self, group: ReadableGroup, topic: DeletableTopic) -> None:
        """Nothing of what is there now is delivered any more; readers by offset keep it.

        If a leader does not answer, others may be done.
        """
        turns = asyncio.Semaphore(PURGING_MAX)

        async def purge(index: int) -> None:
            async with turns:
                await self._reset(ResetQueue(group, topic, index, None))

        parts = self._host.topic(topic).partitions
        purged = await asyncio.gather(
            *(purge(part.index) for part in parts), return_exceptions=True
        )
        for failure in purged:
            if failure is not None:
                raise failure

    async def _reset(self, request: ResetQueue) -> None:
        place = topic_partition(request.topic, request.index)
        await self._host.calls.ask(RESET, place, request)

    async def _reset_here(self, request: ResetQueue) -> bool:
        group, topic, index, offset = request.group, request.topic, request.index, request.offset
        key = self._registry.key(group, topic, index)
        with before_anything_is_done():
            await self._registry.open_known(group, topic)
            await self._registry.state.known_shard(key)
            if offset is None:
                offset = await self._registry.end(topic, index)
        await self._registry.reset(group, topic, index, offset)
        self._forget(lambda known: known == key)
        return True

    # --- deletion -------------------------------------------------------------------------

    async def delete(self, group: DeletableGroup, topic: ReadableTopic | None = None) -> bool:
        """All queues of a group, or those that it has of one topic: all of them, or an error.

        Whether there were any.
        """
        request = DeleteState(group, None if topic is None else self._host.topic(topic).id)
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + LEADER_PATIENCE_S
        had_any = False
        while True:
            leaders = self._leaders(request.topic_id)
            failure: GoQueueError | None = None
            if NO_LEADER in {leader for leader, _ in leaders.values()}:
                failure = NotLeader(f"queues of {group!r} have no leader just now")
            else:
                gathered = await self._host.calls.gather(DELETE, request)
                failure = next(iter(gathered.failures.values()), None)
                had_any = had_any or any(gathered.answers.values())
                if failure is None and leaders == self._leaders(request.topic_id):
                    return had_any
            # What is deleted twice is deleted once.
            if failure is not None and not isinstance(failure, PASSING):
                raise failure
            if loop.time() >= give_up_at:
                raise failure or NotLeader(f"queues of {group!r} change their leaders just now")
            await self._host.calls.until_changed(LOOK_S)

    def _leaders(self, topic_id: UUID | None) -> dict[TopicPartition, tuple[int, int]]:
        """Leader and epoch of every partition with the state of queues."""
        return {
            topic_partition(view.name, part.index): (part.leader, part.leader_epoch)
            for view in self._host.image.topics.values()
            if _keeps_queues(view.name, topic_id)
            for part in view.partitions
        }

    async def _delete_here(self, asked: DeleteState) -> bool:
        request = DeleteQueues(group=asked.group, topic_id=asked.topic_id)
        had_any = await self._registry.delete(request)
        self._forget(request.concerns)
        return had_any

    def _forget(self, concerns: Callable[[QueueKey], bool]) -> None:
        """What begins anew begins with the parents of partitions that were split."""
        self._orders.forget(concerns)
        self._gates.forget(concerns)


def _keeps_queues(name: str, topic_id: UUID | None) -> bool:
    companion = kind_and_owner(name)
    if companion is None or companion[0] != QUEUE_STATE:
        return False
    return topic_id is None or companion[1] == topic_id
