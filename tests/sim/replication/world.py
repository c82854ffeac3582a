"""Everything around the brokers, driven by one seed: messages, the store, power, disks, time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar
from uuid import UUID

from goqueue.metadata.keyspace import FIRST_REVISION
from goqueue.metadata.store import NO_LEASE, Compare, LeaseId, Op
from goqueue.model.membership import NodeRecord
from goqueue.model.names import NO_LEADER, NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.state.membership.identity import registration
from tests.sim.replication import faults
from tests.sim.replication.broker import Broker
from tests.sim.replication.checker import Checker, Violation
from tests.sim.replication.disk import Disk, SimLog
from tests.sim.replication.keys import (
    CONTROLLER,
    broker_key,
    node_key,
    partition_index,
    partition_key,
)
from tests.sim.replication.mood import mood
from tests.sim.replication.store import Answer, SimStore

REPLICAS = 3
# Few, so that many things happen while a follower catches up.
FETCH_MAX = 3
# More than ever wait in a healthy cluster; beyond it the oldest is lost, as in a full buffer.
WAITING_MAX = 120

Option = TypeVar("Option")
Delivery = Callable[[Broker], None]
Message = tuple[NodeId, Broker, Delivery]
Grant = Callable[[LeaseId], tuple[list[Compare], list[Op]]]


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a world is and how hard it is on its brokers."""

    steps: int = 110
    partitions: int = 1
    peace_rounds: int = 60
    # Brokers that have no replicas at first. With some of them, partitions are moved.
    spares: int = 0


class World:
    def __init__(self, seed: int, shape: Shape | None = None) -> None:
        self.chance = Random(seed)
        self.random = self.chance.random
        self.shape = shape = shape or Shape()
        self.now_ms = 0
        self.store = SimStore()
        self.nodes = tuple(NodeId(i) for i in range(REPLICAS + shape.spares))
        self.checkers = [self.new_checker() for _ in range(shape.partitions)]
        self.disks = {node: self.new_disk() for node in self.nodes}
        self.old_disks: dict[NodeId, Disk] = {}
        self.network: list[Message] = []
        self.requests: list[Callable[[], None]] = []
        self.held_messages: list[Message] = []
        self.held_requests: list[Callable[[], None]] = []
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        self.fetch_max = FETCH_MAX
        self._last_value = 0
        self._mood = mood(self.chance, self.nodes, with_moves=shape.spares > 0)
        self.lag_max_ms = self._mood.lag_max_ms
        self.brokers = {node: Broker(self, node) for node in self.nodes}
        self._begin()

    # --- a run ----------------------------------------------------------------------------

    def run(self) -> None:
        """Chaos, then peace: nothing committed is lost, and everything works again."""
        for _ in range(self.shape.steps):
            self.step()
        self._make_peace()
        self.check_peace()

    def step(self) -> None:
        """One thing happens; where it cannot, some clock ticks, so that few steps are idle."""
        self.now_ms += 1
        die = self.random()
        mood = self._mood
        if die < mood.fault_rate:
            self._strike()
        elif die < 0.35:
            if not self.network:
                self._somebody(Broker.tick)
            for _ in range(self.one_of((1, 1, 3))):
                self._deliver()
        elif die < 0.35 + mood.store_rate:
            if not self.requests:
                self._somebody(Broker.tick)
            for _ in range(self.one_of((1, 2, 5))):
                self._serve_store()
        elif die < 0.60:
            self._somebody(self._watch)
        elif die < 0.72:
            self._somebody(Broker.tick)
        elif die < 0.90:
            self._append()
        elif die < 0.90 + mood.calm_rate:
            self.round()
        else:
            self._somebody(Broker.flush)

    def _strike(self) -> None:
        """A fault, or somebody who is down comes back."""
        if len(self.brokers) < len(self.nodes) and self.random() < 0.6:
            faults.start(self)
            for _ in range(self.one_of((0, 4))):
                self.round()
        else:
            self.one_of(self._mood.faults)(self)

    def new_id(self) -> UUID:
        return UUID(int=self.chance.getrandbits(64))

    def _begin(self) -> None:
        """A cluster at work, with all in sync."""
        values: dict[str, tuple[object, LeaseId]] = {}
        members: list[Member] = []
        if not self._mood.is_new:
            members = [self._register(broker, values) for broker in self.brokers.values()]
            controller = self.brokers[self.nodes[0]]
            assert controller.lease is not None
            values[CONTROLLER] = (controller.incarnation, controller.lease)
        for index in range(self.shape.partitions):
            first = self.chance.sample(self.nodes, REPLICAS) if self.shape.spares else self.nodes
            state = PartitionState(
                leader=self.one_of(first) if members else NO_LEADER,
                leader_epoch=1,
                replicas=tuple(self.chance.sample(first, REPLICAS)),
                in_sync=tuple(member for member in members if member.node in first),
                # As after the loss of everything: the brokers find out themselves who leads.
                doubtful=() if members else tuple(first),
                min_in_sync=2,
                is_flushed=self.random() < 0.3,
            )
            values[partition_key(index)] = (state, NO_LEASE)
        self.store.begin_with(values)
        for _ in range(16):
            self.round()
            if all(len(self.state(i).in_sync) == REPLICAS for i in range(self.shape.partitions)):
                return
        raise Violation(f"the cluster does not come up: {self.state()}")

    def _register(self, broker: Broker, values: dict[str, tuple[object, LeaseId]]) -> Member:
        """What a new cluster arrives at by itself, the first of them as controller."""
        broker.lease = LeaseId(broker.node + 1)
        registered = registration(broker.disk.identity)
        values[broker_key(broker.node)] = (registered, broker.lease)
        # Each key has a revision of its own, in the order in which they are written.
        member = Member(broker.node, FIRST_REVISION + len(values))
        record = NodeRecord(
            directory=registered.directory,
            incarnation=registered.incarnation,
            broker_epoch=member.broker_epoch,
        )
        values[node_key(broker.node)] = (record, NO_LEASE)
        return member

    # --- messages -------------------------------------------------------------------------

    def send_to(self, sender: Broker, to: NodeId, delivery: Delivery) -> None:
        if (target := self.brokers.get(to)) is not None:
            self.send(sender, target, delivery)

    def send(self, sender: Broker, target: Broker, delivery: Delivery) -> None:
        self.network.append((sender.node, target, delivery))
        if len(self.network) > WAITING_MAX:
            self.network.pop(0)

    def transact(
        self,
        broker: Broker,
        compares: list[Compare],
        ops: list[Op],
        otherwise: list[Op] | None = None,
        answered: Callable[[Answer], None] | None = None,
    ) -> None:
        def request() -> None:
            events = self.store.events
            count = len(events)
            answer = self.store.transact(compares, ops, otherwise or [])
            if len(events) > count and (index := partition_index(events[-1].kv.key)) is not None:
                self.checkers[index].changes(events[-1], self._is_draining)
            if answered is not None and self.random() > self._mood.lost_answers:
                self.send(broker, broker, lambda _: answered(answer))

        self.requests.append(request)
        if len(self.requests) > WAITING_MAX:
            self.requests.pop(0)

    def ask_store(self, broker: Broker, granted: Grant) -> None:
        def request() -> None:
            if not broker.is_dead:
                compares, ops = granted(self.store.grant())
                self.store.transact(compares, ops, [])

        self.requests.append(request)

    def _is_draining(self, member: Member) -> bool:
        record = self.store.value(node_key(member.node))
        return bool(record.is_draining and record.broker_epoch == member.broker_epoch)

    def _deliver(self) -> None:
        if not self.network:
            return
        i = self._choose(len(self.network))
        sender, target, delivery = self.network[i]
        if (sender, target.node) in self.cuts:
            del self.network[i]
            return
        if target.is_paused or (target.node == self._mood.slow and self.random() < 0.6):
            return
        if self.random() > 0.05:
            # Else it comes twice.
            del self.network[i]
        if not target.is_dead:
            delivery(target)

    def take_messages_for(self, target: Broker) -> list[Message]:
        taken = [message for message in self.network if message[1] is target]
        self.network = [message for message in self.network if message[1] is not target]
        return taken

    def deliver_to(self, target: Broker) -> None:
        """All that waits for one broker, now."""
        for _, _, delivery in self.take_messages_for(target):
            if not target.is_dead and not target.is_paused:
                delivery(target)

    def deliver_between(self, leader: Broker, follower: Broker) -> None:
        """A question and its answer."""
        self.deliver_to(leader)
        self.deliver_to(follower)

    def _serve_store(self) -> None:
        """A request may reach the store long after its sender gave it up, or died."""
        if self.requests and not self.store.is_away:
            self.requests.pop(self._choose(len(self.requests)))()

    def _choose(self, waiting: int) -> int:
        """Which comes next; the newest, so that old ones come very late, or any."""
        if self.random() < self._mood.lateness:
            return waiting - 1
        return int(self.random() * waiting)

    def one_of(self, options: Sequence[Option]) -> Option:
        """As `random.choice`, which takes three times as long."""
        return options[int(self.random() * len(options))]

    def _watch(self, broker: Broker) -> None:
        if broker.seen == len(self.store.events):
            broker.tick()
        elif not self.store.is_away and not broker.is_blind:
            broker.watch(self.one_of((1, 3, 1_000)))

    def _somebody(self, act: Callable[[Broker], None]) -> None:
        broker = self.brokers.get(self.one_of(self._mood.turns))
        if broker is not None and not broker.is_paused:
            act(broker)

    def _append(self) -> None:
        """Somebody writes to a leader, or to one that does not know yet that it leads no more."""
        index = int(self.random() * self.shape.partitions)
        leaders = [
            broker
            for broker in self.brokers.values()
            if broker.replicas[index].leading is not None and not broker.is_paused
        ]
        if leaders:
            self.write(self.one_of(leaders), index)

    def write(self, broker: Broker, index: int = 0) -> None:
        self._last_value += 1
        broker.append(broker.replicas[index], self._last_value)

    def state(self, index: int = 0) -> PartitionState:
        """The partition as the store has it."""
        found: PartitionState = self.store.value(partition_key(index))
        return found

    def is_well(self, broker: Broker) -> bool:
        """It is registered, admitted and at work."""
        registered = self.store.value(broker_key(broker.node))
        return (
            broker.is_admitted
            and registered is not None
            and registered.incarnation is broker.incarnation
            and not (broker.is_paused or broker.is_blind or broker.is_leaving)
            and not any(replica.is_offline for replica in broker.replicas)
        )

    # --- what faults have in common -------------------------------------------------------

    def end(self, broker: Broker) -> None:
        broker.is_dead = True
        del self.brokers[broker.node]
        # The store finds out by itself, sooner or later; the node may be back before.
        if (lease := broker.lease) is None:
            return
        if self.chance.random() < 0.5 and not self.store.is_away:
            self.store.expire(lease)
        else:
            self.requests.append(lambda: self.store.expire(lease))

    def lose_memory(self, node: NodeId) -> None:
        disk = self.disks[node]
        disk.boot += 1
        for checker, log in zip(self.checkers, disk.logs, strict=True):
            if log.end > log.flushed:
                checker.destroyed(node, log, log.flushed)
                disk.has_lost = disk.has_lost or self.chance.random() < 0.5
                log.truncate(log.flushed)

    def new_checker(self) -> Checker:
        return Checker()

    def new_disk(self) -> Disk:
        return Disk(self.new_id(), [SimLog() for _ in range(self.shape.partitions)])

    # --- peace ----------------------------------------------------------------------------

    def _make_peace(self) -> None:
        self.cuts.clear()
        # Nothing happens any more to who catches up.
        self.fetch_max = WAITING_MAX
        self.network += self.held_messages
        self.requests += self.held_requests
        self.store.is_away = False
        for disk in self.disks.values():
            disk.is_full = False
        for broker in list(self.brokers.values()):
            broker.is_paused = broker.is_blind = False
            if broker.is_leaving or any(replica.is_offline for replica in broker.replicas):
                self.end(broker)
        for node in self.nodes:
            if node not in self.brokers:
                self.brokers[node] = Broker(self, node)
        kept = {broker.lease for broker in self.brokers.values()}
        for lease in self.store.keyspace.leases:
            if lease not in kept:
                self.store.expire(lease)

    def round(self) -> None:
        """Everybody's turn, in order and without delay; faults that last go on meanwhile."""
        self.now_ms += 1
        store, cuts = self.store, self.cuts
        for broker in list(self.brokers.values()):
            if not broker.is_paused:
                if broker.seen != len(store.events) and not (store.is_away or broker.is_blind):
                    broker.watch(1_000)
                broker.tick()
        for _ in range(2):
            network, self.network = self.network, []
            for message in network:
                sender, target, delivery = message
                if target.is_paused:
                    self.network.append(message)
                elif not target.is_dead and (not cuts or (sender, target.node) not in cuts):
                    delivery(target)
        if not store.is_away:
            requests, self.requests = self.requests, []
            for request in requests:
                request()

    def check_peace(self) -> None:
        """All replicas come back in sync, and what they all have is all committed."""
        for _ in range(self.shape.peace_rounds):
            self.round()
            if all(self._is_settled(i) for i in range(self.shape.partitions)):
                break
        else:
            states = [self.state(i) for i in range(self.shape.partitions)]
            raise Violation(f"no peace within {self.shape.peace_rounds} rounds: {states}")

    def _is_settled(self, index: int) -> bool:
        state = self.state(index)
        if len(state.in_sync) < len(state.replicas) or not state.has_leader or state.move:
            return False
        logs = [self.disks[node].logs[index] for node in state.replicas]
        leader = self.brokers[state.leader].replicas[index]
        if leader.leading is None or any(log.end != logs[0].end for log in logs):
            return False
        if any(log.records != logs[0].records for log in logs):
            return False
        for node in self.nodes:
            self.brokers[node].flush()
        return leader.leading.high_watermark == logs[0].end
