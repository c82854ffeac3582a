"""Everything around the brokers, driven by one seed: messages, the store, power, disks, time."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from goqueue.metadata.store import Compare, LeaseId, Op, Put
from goqueue.model.names import NO_LEADER, NodeId
from goqueue.model.replication import PartitionState
from goqueue.state.membership.identity import stopped
from goqueue.state.replication.in_sync import with_min_in_sync
from tests.sim.replication.broker import CONTROLLER, Broker, node_key, partition_key
from tests.sim.replication.checker import Checker, Violation
from tests.sim.replication.disk import Disk, SimLog
from tests.sim.replication.store import Answer, SimStore

# More than ever wait in a healthy cluster; beyond it the oldest is lost, as in a full buffer.
WAITING_MAX = 120

Delivery = Callable[[Broker], None]
Grant = Callable[[LeaseId], tuple[list[Compare], list[Op]]]


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a world is and how hard it is on its brokers."""

    steps: int = 600
    partitions: int = 1
    peace_rounds: int = 60


@dataclass(frozen=True, slots=True)
class Mood:
    """What one world is like: which faults it knows, how often, and how late things come."""

    fault_rate: float
    faults: tuple["Fault", ...]
    store_rate: float
    lateness: float
    lost_answers: float


class World:
    def __init__(self, seed: int, shape: Shape | None = None) -> None:
        self.chance = random.Random(seed)
        self.shape = shape = shape or Shape()
        self.now_ms = 0
        self.store = SimStore()
        self.nodes = tuple(NodeId(i) for i in range(3))
        self.checkers = [Checker() for _ in range(shape.partitions)]
        self.disks = {node: self._new_disk() for node in self.nodes}
        self.brokers: dict[NodeId, Broker] = {}
        self._old_disks: dict[NodeId, Disk] = {}
        self._network: list[tuple[NodeId, Broker, Delivery]] = []
        self._requests: list[tuple[Broker, Callable[[], None]]] = []
        self._cuts: set[tuple[NodeId, NodeId]] = set()
        self._last_value = 0
        self._mood = _mood(self.chance)
        for index in range(shape.partitions):
            state = PartitionState(
                leader=NO_LEADER,
                leader_epoch=0,
                replicas=self.nodes,
                in_sync=(),
                # As after the loss of everything: the brokers find out themselves who leads.
                doubtful=self.nodes,
                min_in_sync=2,
                is_flushed=self.chance.random() < 0.3,
            )
            self.store.transact([], [Put(partition_key(index), state)], [])  # type: ignore[arg-type]
        for node in self.nodes:
            self.brokers[node] = Broker(self, node)
        self._begin()

    # --- a run ----------------------------------------------------------------------------

    def run(self) -> None:
        """Chaos, then peace: nothing committed is lost, and everything works again."""
        for _ in range(self.shape.steps):
            self.step()
        self._make_peace()
        self.check_peace()

    def step(self) -> None:
        self.now_ms += 1
        die = self.chance.random()
        if die < self._mood.fault_rate:
            self.chance.choice(self._mood.faults)(self)
        elif die < 0.38:
            for _ in range(self.chance.choice((1, 1, 3))):
                self._deliver()
        elif die < 0.38 + self._mood.store_rate:
            for _ in range(self.chance.choice((1, 2, 5))):
                self._serve_store()
        elif die < 0.70:
            self._somebody(lambda broker: self._watch(broker, self.chance.choice((1, 3, 1_000))))
        elif die < 0.87:
            self._somebody(Broker.tick)
        elif die < 0.97:
            self._somebody(self._append)
        else:
            self._somebody(Broker.flush)

    def new_id(self) -> UUID:
        return UUID(int=self.chance.getrandbits(64))

    def _begin(self) -> None:
        """A cluster at work: all in sync, with something written."""
        for _ in range(16):
            self._round()
        for index in range(self.shape.partitions):
            stored = self.store.value(partition_key(index))
            if len(stored.in_sync) < len(self.nodes):
                raise Violation(f"the cluster does not come up: {stored}")

    # --- messages -------------------------------------------------------------------------

    def send_to(self, sender: Broker, to: NodeId, delivery: Delivery) -> None:
        if (target := self.brokers.get(to)) is not None:
            self.send(sender, target, delivery)

    def send(self, sender: Broker, target: Broker, delivery: Delivery) -> None:
        self._network.append((sender.node, target, delivery))
        if len(self._network) > WAITING_MAX:
            self._network.pop(0)

    def transact(
        self,
        broker: Broker,
        compares: list[Compare],
        ops: list[Op],
        otherwise: list[Op] | None = None,
        answered: Callable[[Answer], None] | None = None,
    ) -> None:
        def request() -> None:
            answer = self.store.transact(compares, ops, otherwise or [])
            for index, checker in enumerate(self.checkers):
                checker.needs(self.store.value(partition_key(index)).quorum)
            if answered is not None and self.chance.random() > self._mood.lost_answers:
                self.send(broker, broker, lambda _: answered(answer))

        self._requests.append((broker, request))
        if len(self._requests) > WAITING_MAX:
            self._requests.pop(0)

    def ask_store(self, broker: Broker, granted: Grant) -> None:
        def request() -> None:
            if not broker.is_dead:
                compares, ops = granted(self.store.grant())
                self.store.transact(compares, ops, [])

        self._requests.append((broker, request))

    def _deliver(self) -> None:
        if not self._network:
            return
        i = self._choose(len(self._network))
        sender, target, delivery = self._network[i]
        if (sender, target.node) in self._cuts:
            del self._network[i]
            return
        if target.is_paused:
            return
        if self.chance.random() > 0.05:
            # Else it comes twice.
            del self._network[i]
        if not target.is_dead:
            delivery(target)

    def _serve_store(self) -> None:
        """A request may reach the store long after its sender gave it up, or died."""
        if self._requests and not self.store.is_away:
            _, request = self._requests.pop(self._choose(len(self._requests)))
            request()

    def _choose(self, waiting: int) -> int:
        """Which comes next; the newest, so that old ones come very late, or any."""
        if self.chance.random() < self._mood.lateness:
            return waiting - 1
        return self.chance.randrange(waiting)

    def _watch(self, broker: Broker, count: int) -> None:
        if not self.store.is_away and not broker.is_blind:
            broker.watch(count)

    def _somebody(self, act: Callable[[Broker], None]) -> None:
        broker = self.brokers.get(self.chance.choice(self.nodes))
        if broker is not None and not broker.is_paused:
            act(broker)

    def _append(self, broker: Broker) -> None:
        self._last_value += 1
        broker.append(self.chance.choice(broker.replicas), self._last_value)

    # --- faults ---------------------------------------------------------------------------

    def _kill(self) -> None:
        """The process ends; what it wrote stays in the page cache."""
        if (broker := self._pick()) is not None:
            self._end(broker)

    def _cut_power(self) -> None:
        """The machine stops: what was not flushed is gone."""
        node = self._victim()
        if node in self.brokers:
            self._end(self.brokers[node])
        self._lose_memory(node)

    def _stop(self) -> None:
        """A clean stop: everything is flushed, the next start knows it."""
        if (broker := self._pick()) is not None:
            broker.flush()
            broker.disk.identity = stopped(broker.disk.identity)
            self._end(broker)

    def _start(self) -> None:
        for node in self.nodes:
            if node not in self.brokers:
                self.brokers[node] = Broker(self, node)
                return

    def _pause(self) -> None:
        if (broker := self._pick()) is not None:
            broker.is_paused = not broker.is_paused and self.chance.random() < 0.4

    def _blind(self) -> None:
        """A broker's watch falls far behind, while its requests are answered."""
        if (broker := self._pick()) is not None:
            broker.is_blind = not broker.is_blind

    def _expire(self) -> None:
        """A lease ends although its broker lives: it was paused, or cut off."""
        broker = self._pick()
        if broker is not None and broker.lease is not None and not self.store.is_away:
            self.store.expire(broker.lease)

    def _cut_link(self) -> None:
        if self._cuts and self.chance.random() < 0.6:
            self._cuts.clear()
            return
        one, other = self.chance.sample(self.nodes, 2)
        self._cuts.add((one, other))

    def _lose_store(self) -> None:
        self.store.is_away = not self.store.is_away and self.chance.random() < 0.3

    def _replace_disk(self) -> None:
        node = self.chance.choice(self.nodes)
        if node in self.brokers:
            self._end(self.brokers[node])
        for checker, log in zip(self.checkers, self.disks[node].logs, strict=True):
            checker.destroyed(node, log, 0)
        self.disks[node] = self._new_disk()

    def _copy_disk(self) -> None:
        node = self.chance.choice(self.nodes)
        self._old_disks[node] = self.disks[node].copy()

    def _restore_disk(self) -> None:
        """A machine comes back with an older copy of its disk.

        A copy that was made while the incarnation ran that was admitted last cannot be told from
        the disk itself.
        """
        node = self.chance.choice(self.nodes)
        known = self.store.value(node_key(node))
        if node not in self._old_disks or known is None:
            return
        if known.incarnation in self._old_disks[node].identity.trail:
            return
        if node in self.brokers:
            self._end(self.brokers[node])
        old = self._old_disks.pop(node)
        for checker, log, before in zip(
            self.checkers, self.disks[node].logs, old.logs, strict=True
        ):
            same = _common_length(log, before)
            checker.destroyed(node, log, same)
        old.boot = self.disks[node].boot
        self.disks[node] = old
        self._lose_memory(node)

    def _change_minimum(self) -> None:
        """An administrator changes `min.insync.replicas`; whoever is controller writes it."""
        held = self.store.value(CONTROLLER)
        broker = next((b for b in self.brokers.values() if b.incarnation == held), None)
        if broker is None or (mine := broker.image.get(CONTROLLER)) is None:
            return
        key = partition_key(self.chance.randrange(self.shape.partitions))
        if (stored := broker.image.get(key)) is None:
            return
        state = with_min_in_sync(stored.value, self.chance.choice((1, 2, 2, 3)))
        compares = [
            Compare.unchanged(CONTROLLER, mine.revision),
            Compare.unchanged(key, stored.revision),
        ]
        self.transact(broker, compares, [Put(key, state)])  # type: ignore[arg-type]

    def _victim(self) -> NodeId:
        """Faults like leaders best."""
        if self.chance.random() < 0.5:
            state: PartitionState = self.store.value(
                partition_key(self.chance.randrange(self.shape.partitions))
            )
            if state.has_leader:
                return state.leader
        return self.chance.choice(self.nodes)

    def _pick(self) -> Broker | None:
        return self.brokers.get(self._victim())

    def _end(self, broker: Broker) -> None:
        broker.is_dead = True
        del self.brokers[broker.node]
        # The store finds out by itself, sooner or later; the node may be back before.
        if (lease := broker.lease) is None:
            return
        if self.chance.random() < 0.5 and not self.store.is_away:
            self.store.expire(lease)
        else:
            self._requests.append((broker, lambda: self.store.expire(lease)))

    def _lose_memory(self, node: NodeId) -> None:
        disk = self.disks[node]
        disk.boot += 1
        for checker, log in zip(self.checkers, disk.logs, strict=True):
            if log.end > log.flushed:
                checker.destroyed(node, log, log.flushed)
                disk.has_lost = disk.has_lost or self.chance.random() < 0.5
                log.truncate(log.flushed)

    def _new_disk(self) -> Disk:
        return Disk(self.new_id(), [SimLog() for _ in range(self.shape.partitions)])

    # --- peace ----------------------------------------------------------------------------

    def _make_peace(self) -> None:
        self._cuts.clear()
        self.store.is_away = False
        for broker in self.brokers.values():
            broker.is_paused = broker.is_blind = False
        for node in self.nodes:
            if node not in self.brokers:
                self.brokers[node] = Broker(self, node)
        kept = {broker.lease for broker in self.brokers.values()}
        for lease in self.store.keyspace.leases:
            if lease not in kept:
                self.store.expire(lease)

    def _round(self) -> None:
        """Everybody's turn, with nothing lost and nothing late."""
        self.now_ms += 1
        for broker in self.brokers.values():
            broker.watch(1_000)
            broker.tick()
        network, self._network = self._network, []
        for _, target, delivery in network:
            if not target.is_dead:
                delivery(target)
        network, self._network = self._network, []
        for _, target, delivery in network:
            if not target.is_dead:
                delivery(target)
        requests, self._requests = self._requests, []
        for _, request in requests:
            request()

    def check_peace(self) -> None:
        """All replicas come back in sync, and what they all have is all committed."""
        for _ in range(self.shape.peace_rounds):
            self._round()
            if all(self._is_settled(i) for i in range(self.shape.partitions)):
                break
        else:
            states = [self.store.value(partition_key(i)) for i in range(self.shape.partitions)]
            raise Violation(f"no peace within {self.shape.peace_rounds} rounds: {states}")

    def _is_settled(self, index: int) -> bool:
        state: PartitionState = self.store.value(partition_key(index))
        if len(state.in_sync) < len(self.nodes) or not state.has_leader:
            return False
        logs = [self.disks[node].logs[index] for node in self.nodes]
        leader = self.brokers[state.leader].replicas[index]
        if leader.leading is None or any(log.end != logs[0].end for log in logs):
            return False
        if any(log.records != logs[0].records for log in logs):
            return False
        for node in self.nodes:
            self.brokers[node].flush()
        return leader.leading.high_watermark == logs[0].end


def _common_length(one: SimLog, other: SimLog) -> int:
    pairs = zip(one.records, other.records, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(one.end, other.end))


Fault = Callable[[World], None]

_FAULTS: tuple[Fault, ...] = (
    World._kill,
    World._cut_power,
    World._stop,
    World._pause,
    World._blind,
    World._expire,
    World._cut_link,
    World._lose_store,
    World._replace_disk,
    World._copy_disk,
    World._restore_disk,
    World._change_minimum,
)


def _mood(chance: random.Random) -> Mood:
    """Some of the faults, so that each is also seen without the noise of the others."""
    faults = [fault for fault in _FAULTS if chance.random() < 0.45]
    return Mood(
        fault_rate=chance.choice((0.02, 0.04, 0.08)),
        faults=(World._start,) * (1 + len(faults) // 2) + tuple(faults),
        store_rate=chance.choice((0.03, 0.10, 0.17)),
        lateness=chance.choice((0.0, 0.5, 0.9)),
        lost_answers=chance.choice((0.0, 0.2, 0.7)),
    )
