"""A broker as controller, when it can be: the edge around `plan`."""

from typing import TYPE_CHECKING

from goqueue.metadata.store import Compare, Delete, KeyValue, Op, Put
from goqueue.model.names import NodeId, TopicPartition, topic_partition
from goqueue.model.replication import Member
from goqueue.state.controller.balancing import misplaced
from goqueue.state.controller.elections import LogEnd
from goqueue.state.controller.moving import moves_going_on
from goqueue.state.controller.planning import (
    Action,
    Admit,
    AskLogEnds,
    ChangePartition,
    ClusterView,
    Registered,
    Stored,
    plan,
)
from tests.sim.replication.keys import CONTROLLER, broker_key, node_key, partition_key

if TYPE_CHECKING:
    from tests.sim.replication.broker import Broker

_PARTITIONS = tuple(topic_partition("t", index) for index in range(3))


class Controlling:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._log_ends: dict[tuple[TopicPartition, int], dict[Member, LogEnd]] = {}
        # A plan follows from what was seen and told alone: it is made once for each.
        self._planned_at = -1
        self._actions: list[Action] = []

    def act(self, held: KeyValue | None) -> None:
        """`held`: the office, which is this broker's or nobody's."""
        broker = self._broker
        if held is None:
            if broker.lease is not None and not broker.is_leaving:
                put: list[Op] = [Put(CONTROLLER, broker.incarnation, broker.lease)]  # type: ignore[arg-type]
                broker.world.transact(broker, [Compare.missing(CONTROLLER)], put)
            return
        if self._planned_at != broker.seen:
            self._planned_at = broker.seen or 0
            view = self._view()
            self._actions = [*plan(view), *moves_going_on(view, {})]
        elif broker.world.now_ms % 4:
            return
        mine = Compare.unchanged(CONTROLLER, held.mod_revision)
        for action in self._actions:
            match action:
                case ChangePartition():
                    self._change(mine, action)
                case Admit():
                    self._admit(mine, action)
                case AskLogEnds(partition, members):
                    epoch = broker.image[partition_key(partition.partition)].value.leader_epoch
                    for member in members:
                        self._ask_log_end(partition, epoch, member)

    def give_back(self) -> None:
        """Partitions go back to the first of their replicas."""
        held = self._broker.image.get(CONTROLLER)
        if held is not None and held.value is self._broker.incarnation:
            for change in misplaced(self._view()):
                self._change(Compare.unchanged(CONTROLLER, held.mod_revision), change)

    def resign(self) -> None:
        held = self._broker.image.get(CONTROLLER)
        if held is not None and held.value is self._broker.incarnation:
            mine = [Compare.unchanged(CONTROLLER, held.mod_revision)]
            self._broker.world.transact(self._broker, mine, [Delete(CONTROLLER)])

    def _change(self, mine: Compare, change: ChangePartition) -> None:
        key = partition_key(change.partition.partition)
        compares = [mine, Compare.unchanged(key, change.revision)]
        for node, broker_epoch in change.relies_on:
            compares.append(Compare.unchanged(broker_key(node), broker_epoch))
        self._broker.world.transact(self._broker, compares, [Put(key, change.state)])  # type: ignore[arg-type]

    def _admit(self, mine: Compare, admission: Admit) -> None:
        key = node_key(admission.node)
        compares = [
            mine,
            Compare.unchanged(key, admission.revision),
            Compare.unchanged(broker_key(admission.node), admission.record.broker_epoch),
        ]
        self._broker.world.transact(self._broker, compares, [Put(key, admission.record)])  # type: ignore[arg-type]

    def _view(self) -> ClusterView:
        image = self._broker.image
        partitions: dict[TopicPartition, Stored] = {}
        ends = {}
        for index in range(len(self._broker.replicas)):
            if (found := image.get(partition_key(index))) is not None:
                partition = _PARTITIONS[index]
                partitions[partition] = Stored(found.value, found.mod_revision)
                ends[partition] = self._log_ends.get((partition, found.value.leader_epoch), {})
        brokers: dict[NodeId, Registered] = {}
        nodes = {}
        for node in self._broker.world.nodes:
            if (found := image.get(broker_key(node))) is not None:
                brokers[node] = Registered(found.value, found.mod_revision)
            if (found := image.get(node_key(node))) is not None:
                nodes[node] = (found.value, found.mod_revision)
        return ClusterView(partitions, brokers, nodes, ends)

    def _ask_log_end(self, partition: TopicPartition, leader_epoch: int, member: Member) -> None:
        def asked(other: "Broker") -> None:
            replica = other.replicas[partition.partition]
            # Who has not accepted the epoch may still follow an older leader.
            if (
                other.me == member
                and other.is_admitted
                and replica.leader_epoch == leader_epoch
                and not replica.is_offline
            ):
                end = replica.log.log_end()
                self._broker.world.send(
                    other, self._broker, lambda _: self._told(partition, leader_epoch, member, end)
                )

        self._broker.world.send_to(self._broker, member.node, asked)

    def _told(
        self, partition: TopicPartition, leader_epoch: int, member: Member, end: LogEnd
    ) -> None:
        self._log_ends.setdefault((partition, leader_epoch), {})[member] = end
        self._planned_at = -1
