"""Replicas that go from broker to broker: begun, taken back, held back, listed, planned."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.cluster_config import CORDONED_LOG_DIRS
from goqueue.model.companions import is_companion
from goqueue.model.configs import ConfigChange, ConfigOp
from goqueue.model.errors import GoQueueError, PolicyViolation
from goqueue.model.moves import MovePlan, Moves
from goqueue.model.names import NodeId, TopicPartition, topic_partition
from goqueue.model.replication_config import MOVE_RATE, MOVES_PAUSED
from goqueue.model.rights import Resource
from goqueue.model.topics import PartitionView
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited

_ALL_BROKERS: Final = ""


def _refused_moves(answers: Mapping[TopicPartition, GoQueueError | None]) -> str:
    """Of the first that was not begun."""
    return next((error.code for error in answers.values() if error is not None), "")


class ReplicaMoveService:
    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._moves = node.replica_moves
        self._access = access

    @audited("moves.alter", Resource.CLUSTER, about="wanted", failure=_refused_moves)
    async def alter(
        self,
        caller: Caller,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        *,
        keep_factor: bool = False,
    ) -> dict[TopicPartition, GoQueueError | None]:
        """Begin moves to these brokers; for None, take back the one that is under way. Says of each
        why not. `keep_factor`: refuse another number of replicas."""
        right = self._access.alterable_cluster(caller)
        answers = await self._moves.moving.alter(right, wanted, keep_factor=keep_factor)
        await self._node.news.spread()
        return answers

    async def cancel(
        self, caller: Caller, topic: str | None, partition: int | None
    ) -> dict[TopicPartition, GoQueueError | None]:
        """Of all that are under way, or of one topic or partition. What belongs to a topic follows
        it by itself."""
        self._access.alterable_cluster(caller)
        wanted = [
            name
            for name, _ in self._under_way()
            if topic in (None, name.topic)
            and partition in (None, name.partition)
            and not is_companion(name.topic)
        ]
        return await self.alter(caller, dict.fromkeys(wanted))

    def under_way(self, caller: Caller) -> list[tuple[TopicPartition, PartitionView]]:
        """Partitions that are moved, as the metadata have it."""
        self._access.describable_cluster(caller)
        return list(self._under_way())

    def _under_way(self) -> Iterator[tuple[TopicPartition, PartitionView]]:
        for topic in self._node.image.topics.values():
            for view in topic.partitions:
                if view.state.move is not None:
                    yield topic_partition(topic.name, view.index), view

    async def going_on(self, caller: Caller) -> Moves:
        """With how far they are; of topics that the caller may know of."""
        self._access.describable_cluster(caller)
        topics = self._node.image.topics
        visible = [name for name in topics if self._access.sees_topic(caller, name)]
        return await self._moves.plans.going_on(visible)

    # --- plans ----------------------------------------------------------------------------

    async def drain_plan(self, caller: Caller, node: NodeId) -> MovePlan:
        """Moves with which a broker has no replicas any more."""
        self._access.alterable_cluster(caller)
        return await self._moves.plans.drain(node)

    async def rebalance_plan(self, caller: Caller) -> MovePlan:
        """Moves with which all brokers carry about the same."""
        self._access.alterable_cluster(caller)
        return await self._moves.plans.rebalance()

    # --- settings -------------------------------------------------------------------------

    @audited("moves.hold_back", Resource.CLUSTER, detail=("is_paused", "rate_bytes"))
    async def hold_back(
        self, caller: Caller, *, is_paused: bool | None = None, rate_bytes: int | None = None
    ) -> None:
        """Pause all moves, or let them go on; let them take so many bytes per second of each
        broker, or any number for 0 (`NO_MOVE_LIMIT`). What is None stays as it is."""
        changes = []
        if is_paused is not None:
            changes.append(_change(MOVES_PAUSED, "true" if is_paused else None))
        if rate_bytes is not None:
            changes.append(_change(MOVE_RATE, str(rate_bytes)))
        right = self._access.configurable_cluster(caller)
        await self._node.broker_configs.alter(right, _ALL_BROKERS, changes)
        await self._node.news.spread()

    @audited("node.cordon", Resource.CLUSTER, about="node", detail=("is_cordoned",))
    async def cordon(self, caller: Caller, node: NodeId, *, is_cordoned: bool) -> None:
        """Whether a broker gets no new replicas; of a node of one, that would leave nobody."""
        if self._node.is_alone:
            self._access.configurable_cluster(caller)
            raise PolicyViolation("a node of one is not cordoned: there is no other")
        change = ConfigChange(
            name=CORDONED_LOG_DIRS, op=ConfigOp.SET, value="*" if is_cordoned else ""
        )
        right = self._access.configurable_cluster(caller)
        await self._node.broker_configs.alter(right, str(node), [change])
        await self._node.news.spread()


def _change(name: str, value: str | None) -> ConfigChange:
    if value is None:
        return ConfigChange(name=name, op=ConfigOp.DELETE)
    return ConfigChange(name=name, op=ConfigOp.SET, value=value)
