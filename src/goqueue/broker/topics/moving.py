"""Partitions that go from brokers to others: begun and taken back here, ended by the controller.

Any broker can begin a move: it is one write of the partition's key, which compares that key, and
who stays in sync where somebody leaves. How it goes on is in `state/replication/moving.py`.
"""

import asyncio
from collections.abc import Mapping, Sequence

from goqueue.broker.topics.changing import AGAIN_S, TRANSACTION_TRIES
from goqueue.broker.topics.following import MetadataFollower
from goqueue.broker.topics.placing import Placing
from goqueue.metadata.in_flight import in_flight
from goqueue.metadata.store import Compare, Get, MetadataStore, Op, Put
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.companions import kind_and_owner
from goqueue.model.errors import (
    Conflict,
    GoQueueError,
    InvalidReplicaAssignment,
    NoMoveInProgress,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.model.names import NodeId, TopicPartition
from goqueue.model.replication import PartitionState
from goqueue.model.rights import AlterableCluster
from goqueue.model.topics import PartitionView, TopicView
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import Feature, first_use
from goqueue.state.metadata_image import MetadataImage
from goqueue.state.replication.moving import begun, cancelled, relied_on

# Where a partition is to go; None to stay where it was.
Wanted = Mapping[TopicPartition, Sequence[int] | None]


class Moving:
    def __init__(
        self, store: MetadataStore, follower: MetadataFollower, config: BrokerConfig
    ) -> None:
        self._store = store
        self._follower = follower
        self._config = config

    async def alter(
        self, _right: AlterableCluster, wanted: Wanted, *, keep_factor: bool = False
    ) -> dict[TopicPartition, GoQueueError | None]:
        """Begin moves, or take them back; says of each why not. `keep_factor`: refuse another
        number of replicas."""
        answers: dict[TopicPartition, GoQueueError | None] = {}

        async def carry_out(name: TopicPartition) -> None:
            try:
                await self._alter(name, wanted[name], keep_factor=keep_factor)
                answers[name] = None
            except GoQueueError as error:
                answers[name] = error

        await in_flight(wanted, carry_out)
        return {name: answers[name] for name in wanted}

    async def _alter(
        self, name: TopicPartition, target: Sequence[int] | None, *, keep_factor: bool
    ) -> None:
        key = keys.partition_key(*name)
        for _ in range(TRANSACTION_TRIES):
            image = self._follower.image
            topic, view = _found(image, name)
            if target is None:
                state = _taken_back(image, name, view)
            else:
                state = self._begun(image, topic, view, target, keep_factor=keep_factor)
            if state == view.state:
                return
            compares = [Compare.unchanged(key, view.revision)]
            if state.leader_epoch != view.leader_epoch:
                compares += [
                    Compare.unchanged(keys.broker_key(member.node), member.broker_epoch)
                    for member in relied_on(state)
                ]
            ops: list[Op] = [Put(*keys.partition_entry(*name, state))]
            if state.move is not None:
                ops += [Put(*entry) for entry in first_use(image, Feature.MOVES)]
            done = await self._store.transact(compares, ops, [Get(key)])
            if done.succeeded:
                await self._follower.applied(done.revision)
                return
            for found in done.responses[0]:
                await self._follower.applied(found.mod_revision)
            await asyncio.sleep(AGAIN_S)
        raise Conflict(f"{name} is changed too often at the same time; try again")

    def _begun(
        self,
        image: MetadataImage,
        topic: TopicView,
        view: PartitionView,
        given: Sequence[int],
        *,
        keep_factor: bool,
    ) -> PartitionState:
        _check_not_owned(image, topic)
        state = view.state
        before = state.replicas if state.move is None else state.move.before
        target = Placing(image, self._config).of_move(topic, before, given)
        if keep_factor and len(target) != len(before):
            raise InvalidReplicaAssignment(
                f"{len(target)} replicas are named, there are {len(before)}, and the request says "
                "that their number must not change"
            )
        moved = begun(state, target, _present(image), _candidates(image))
        if moved is None:
            raise InvalidReplicaAssignment(_too_few(state))
        return moved


def _taken_back(image: MetadataImage, name: TopicPartition, view: PartitionView) -> PartitionState:
    _check_not_owned(image, image.topics[name.topic])
    if view.state.move is None:
        raise NoMoveInProgress(f"{name} is not on its way to other brokers")
    state = cancelled(view.state, _present(image), _candidates(image))
    if state is None:
        raise InvalidReplicaAssignment(_too_few(view.state))
    return state


def _too_few(state: PartitionState) -> str:
    nodes = ", ".join(str(member.node) for member in state.in_sync) or "none"
    return (
        f"of the replicas that would stay, fewer than {state.quorum} are in sync (in sync: {nodes})"
        ": what others have would be lost; wait until more have caught up"
    )


def _check_not_owned(image: MetadataImage, topic: TopicView) -> None:
    companion = kind_and_owner(topic.name)
    owner = None if companion is None else image.topics_by_id.get(companion[1])
    if owner is not None:
        raise InvalidReplicaAssignment(
            f"{topic.name!r} belongs to topic {owner.name!r}, and goes where that goes"
        )


def _found(image: MetadataImage, name: TopicPartition) -> tuple[TopicView, PartitionView]:
    topic = image.topics.get(name.topic)
    if topic is None:
        raise UnknownTopic(f"there is no topic {name.topic!r}")
    if not 0 <= name.partition < len(topic.partitions):
        raise UnknownPartition(
            f"topic {name.topic!r} has {len(topic.partitions)} partitions, no {name.partition}"
        )
    view = topic.partitions[name.partition]
    if not view.is_known:
        raise Conflict(f"{name} is just being made; try again")
    return topic, view


def _present(image: MetadataImage) -> dict[NodeId, int]:
    return {node: broker.epoch for node, broker in image.brokers.items()}


def _candidates(image: MetadataImage) -> dict[NodeId, int]:
    """Brokers that may lead, and are not about to leave."""
    return {
        node: epoch
        for node, epoch in image.admitted().items()
        if node not in image.nodes or not image.nodes[node].record.is_draining
    }
