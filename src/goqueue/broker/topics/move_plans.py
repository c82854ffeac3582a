"""Moves as they go on, and such as could be made: from the metadata, and what brokers have."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from goqueue.broker.calls.calls import Calls, Gathered
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.topics.copies import Copies, Copy
from goqueue.broker.topics.following import MetadataFollower
from goqueue.broker.topics.moving import Moving
from goqueue.broker.topics.placing import Placing
from goqueue.metadata.store import MetadataStore
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.companions import kind_and_owner
from goqueue.model.errors import UnknownNode
from goqueue.model.moves import CopyProgress, MoveOfPlan, MovePlan, Moves, PartitionMove
from goqueue.model.names import NodeId, TopicPartition, topic_partition
from goqueue.model.replication_config import MOVE_RATE, UNLIMITED
from goqueue.model.topics import PartitionView
from goqueue.state.cluster_condition import partitions_of
from goqueue.state.controller.rebalancing import Plan, Weighed, drained, rebalanced
from goqueue.state.membership.move_settings import are_moves_paused, rate_of
from goqueue.state.metadata_image import MetadataImage


class MovePlans:
    def __init__(self, copies: Copies, follower: MetadataFollower, config: BrokerConfig) -> None:
        self._copies = copies
        self._follower = follower
        self._config = config

    # --- as they go on --------------------------------------------------------------------

    async def going_on(self, visible: Iterable[str]) -> Moves:
        """Of these topics, by topic and number."""
        image, topics = self._follower.image, set(visible)
        found = await asyncio.to_thread(
            lambda: [
                (topic, view)
                for topic, view in partitions_of(image)
                if topic in topics and view.state.move is not None
            ]
        )
        told: Gathered[list[Copy]] | None = None
        if found:
            told = await self._copies.ask([topic_partition(t, view.index) for t, view in found])
        answers = {} if told is None else told.answers
        known = {node: {copy.name: copy for copy in copies} for node, copies in answers.items()}
        rate = rate_of(image, None, MOVE_RATE)
        return Moves(
            moves=[
                PartitionMove(topic, view, _progress(topic, view, known)) for topic, view in found
            ],
            is_paused=are_moves_paused(image),
            rate_bytes=None if rate == UNLIMITED else rate,
            unanswered=() if told is None else told.unanswered,
        )

    # --- as they could be made ------------------------------------------------------------

    async def drain(self, node: NodeId) -> MovePlan:
        image = self._follower.image
        # One that was forgotten may have left replicas behind.
        if node not in image.nodes and not any(
            node in view.state.wanted for _, view in partitions_of(image)
        ):
            raise UnknownNode(f"there is no node {node}")
        return await self._planned(node)

    async def rebalance(self) -> MovePlan:
        return await self._planned(None)

    async def _planned(self, node: NodeId | None) -> MovePlan:
        """To empty a node; without one, to give all the same share."""
        told = await self._copies.ask()
        image, config = self._follower.image, self._config

        def work() -> Plan:
            placing = Placing(image, config)
            partitions = _weighed(image, told.answers.values())
            if node is None:
                return rebalanced(partitions, placing.candidates, placing.room())
            return drained(partitions, node, placing.candidates, placing.room())

        plan = await asyncio.to_thread(work)
        return MovePlan(
            moves=[
                MoveOfPlan(*move.name, move.before, move.target, move.size_bytes)
                for move in plan.moves
            ],
            stuck=[(name.topic, name.partition) for name in plan.stuck],
            copied_bytes=sum(len(move.added) * move.size_bytes for move in plan.moves),
            unanswered=told.unanswered,
        )


def _progress(
    topic: str, view: PartitionView, known: Mapping[NodeId, Mapping[TopicPartition, Copy]]
) -> list[CopyProgress]:
    name = topic_partition(topic, view.index)
    whole = known.get(view.leader, {}).get(name)
    progress = []
    for node in view.state.adding:
        copy = known.get(node, {}).get(name)
        is_in_sync = node in view.isr
        bytes_left = messages_left = None
        if whole is not None and node in known:
            has_bytes, end = (0, 0) if copy is None else (copy.size_bytes, copy.end_offset)
            bytes_left = 0 if is_in_sync else max(0, whole.size_bytes - has_bytes)
            messages_left = 0 if is_in_sync else max(0, whole.end_offset - end)
        progress.append(CopyProgress(node, is_in_sync, bytes_left, messages_left))
    return progress


def _weighed(image: MetadataImage, told: Iterable[Sequence[Copy]]) -> list[Weighed]:
    """Partitions as they will be when nothing moves any more, each with its companions."""
    largest: dict[TopicPartition, tuple[int, float]] = {}
    for copies in told:
        for copy in copies:
            size, rate = largest.get(copy.name, (0, 0.0))
            largest[copy.name] = (max(size, copy.size_bytes), max(rate, copy.bytes_per_s))
    sizes: Counter[TopicPartition] = Counter()
    rates: defaultdict[TopicPartition, float] = defaultdict(float)
    for name, (size, rate) in largest.items():
        owner = _owner(image, name)
        sizes[owner] += size
        rates[owner] += rate
    return [
        Weighed(name, view.state.wanted, sizes[name], rates[name])
        for topic, view in partitions_of(image)
        if view.is_known and _owner(image, name := topic_partition(topic, view.index)) == name
    ]


def _owner(image: MetadataImage, name: TopicPartition) -> TopicPartition:
    """The partition that it belongs to; itself where it belongs to none."""
    companion = kind_and_owner(name.topic)
    owner = None if companion is None else image.topics_by_id.get(companion[1])
    return name if owner is None else topic_partition(owner.name, name.partition)


class ReplicaMoves:
    """Both of a node: what changes moves, and what looks at them."""

    def __init__(
        self,
        store: MetadataStore,
        follower: MetadataFollower,
        config: BrokerConfig,
        hosted: HostedPartitions,
        calls: Calls,
    ) -> None:
        self.moving = Moving(store, follower, config)
        self.plans = MovePlans(Copies(hosted, calls), follower, config)
