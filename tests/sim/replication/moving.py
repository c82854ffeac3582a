"""Partitions that somebody moves from broker to broker, in worlds that have brokers to spare."""

from typing import TYPE_CHECKING, Final

from goqueue.metadata.store import Compare, Put
from goqueue.model.names import NodeId
from goqueue.model.replication import PartitionState
from goqueue.state.replication.moving import begun, cancelled, relied_on
from tests.sim.replication.broker import Broker
from tests.sim.replication.faults import Fault
from tests.sim.replication.keys import broker_key, node_key, partition_key

if TYPE_CHECKING:
    from tests.sim.replication.world import World


def move(world: "World") -> None:
    """Some broker is asked to, and does it with what it knows of the metadata."""
    _ask(world, _somewhere(world))


def move_and_wait(world: "World") -> None:
    """The others have the time to carry it out, or to begin with it."""
    _ask(world, _somewhere(world))
    for _ in range(world.one_of((2, 4, 8))):
        world.round()


def cancel(world: "World") -> None:
    _ask(world, None)


def go_and_come_back(world: "World") -> None:
    """A replica leaves and is added again, while the leader hears of nothing in between: what it
    knew of the old copy says nothing of the new one."""
    index = world.chance.randrange(world.shape.partitions)
    state = world.state(index)
    leader = world.brokers.get(state.leader)
    others = [node for node in state.replicas if node != state.leader]
    if leader is None or state.move is not None or len(others) < 2:
        return
    leaving = world.one_of(others)
    rest = tuple(node for node in state.replicas if node != leaving)
    leader.is_blind = True
    for target in (rest, state.replicas):
        _ask(world, target, index)
        for _ in range(3):
            world.round()
    leader.is_blind = world.random() < 0.5


def leave_and_lose_power(world: "World") -> None:
    """Two are in sync; one of them is to leave for one that is behind. Then the other one's power
    is cut: what both had committed must be somewhere."""
    index = world.chance.randrange(world.shape.partitions)
    state = world.state(index)
    leader = world.brokers.get(state.leader)
    others = [node for node in state.replicas if node != state.leader]
    if leader is None or state.move is not None or len(state.in_sync) < 3 or len(others) < 2:
        return
    slow = world.one_of(others)
    link = {(leader.node, slow), (slow, leader.node)}
    world.cuts |= link
    for _ in range(3):
        world.write(leader, index)
        world.now_ms += world.lag_max_ms
        world.round()
    _ask(world, (leader.node, slow), index)
    for _ in range(2):
        world.round()
    if leader.node in world.brokers:
        world.end(leader)
    world.lose_memory(leader.node)
    world.cuts -= link


MOVES: Final[tuple[Fault, ...]] = (
    move,
    move_and_wait,
    cancel,
    go_and_come_back,
    leave_and_lose_power,
)


def _somewhere(world: "World") -> tuple[NodeId, ...]:
    return tuple(world.chance.sample(world.nodes, world.one_of((1, 2, 3, 3, 3))))


def _ask(world: "World", target: tuple[NodeId, ...] | None, index: int | None = None) -> None:
    """`target` None: take back what is under way."""
    brokers = [broker for broker in world.brokers.values() if broker.is_admitted]
    if not brokers:
        return
    broker = world.one_of(brokers)
    index = world.chance.randrange(world.shape.partitions) if index is None else index
    stored = broker.image.get(partition_key(index))
    if stored is None:
        return
    state: PartitionState = stored.value
    present, candidates = _known(broker)
    if target is None:
        moved = cancelled(state, present, candidates)
    else:
        moved = begun(state, target, present, candidates)
    if moved is None or moved == state:
        return
    compares = [Compare.unchanged(partition_key(index), stored.mod_revision)]
    if moved.leader_epoch != state.leader_epoch:
        compares += [Compare.unchanged(broker_key(node), epoch) for node, epoch in relied_on(moved)]
    world.transact(broker, compares, [Put(partition_key(index), moved)])  # type: ignore[arg-type]


def _known(broker: Broker) -> tuple[dict[NodeId, int], dict[NodeId, int]]:
    """Brokers that are registered, and those of them that may lead."""
    present: dict[NodeId, int] = {}
    candidates: dict[NodeId, int] = {}
    for node in broker.world.nodes:
        found, record = broker.image.get(broker_key(node)), broker.image.get(node_key(node))
        if found is not None:
            present[node] = found.mod_revision
            may_lead = (
                record is not None
                and record.value.broker_epoch == found.mod_revision
                and not record.value.is_draining
            )
            if may_lead:
                candidates[node] = found.mod_revision
    return present, candidates
