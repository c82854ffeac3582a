"""Faults that conspire: orders of events that hurt most, and that chance alone finds too seldom.

Each plot begins where the cluster happens to be, and chance decides how far it goes.
"""

from typing import TYPE_CHECKING, Final

from tests.sim.replication.broker import Broker
from tests.sim.replication.checker import Violation
from tests.sim.replication.faults import Fault, fail_over, set_minimum, start
from tests.sim.replication.keys import CONTROLLER
from tests.sim.replication.leaving import begin_leaving

if TYPE_CHECKING:
    from tests.sim.replication.world import World


def overtaken_answer(world: "World") -> None:
    """One follower is ahead of the other when the leader dies, and what the dead leader answered
    it arrives after the next leader had some of that cut off."""
    if (cast := _cast(world)) is None:
        return
    leader, ahead, _ = cast
    for _ in range(world.one_of((1, 2, 3))):
        world.write(leader)
        ahead.tick()
        world.deliver_between(leader, ahead)
    world.write(leader)
    ahead.tick()
    world.deliver_to(leader)
    late = world.take_messages_for(ahead)
    fail_over(world)
    for _ in range(world.one_of((1, 2, 3))):
        if (leads := _leader(world)) is not None:
            world.write(leads)
        world.round()
        if world.random() < 0.3:
            break
    world.network += late


def joins_while_the_store_is_away(world: "World") -> None:
    """A follower that was slow is to join; before the store hears of it, it is slow again and the
    leader commits without it and dies."""
    if (cast := _cast(world)) is None:
        return
    leader, slow, _ = cast
    link = {(leader.node, slow.node), (slow.node, leader.node)}
    world.cuts |= link
    for _ in range(2):
        world.write(leader)
        world.now_ms += world.lag_max_ms
        world.round()
    world.cuts -= link
    for _ in range(world.one_of((1, 2))):
        world.round()
    slow.tick()
    world.deliver_between(leader, slow)
    world.store.is_away = True
    leader.tick()
    world.cuts |= link
    for _ in range(world.one_of((1, 2))):
        world.now_ms += world.lag_max_ms
        world.write(leader)
        world.round()
    if not leader.is_dead:
        world.end(leader)
    world.store.is_away = False
    world.cuts -= link
    for _ in range(3):
        world.round()


def comes_back_with_less(world: "World") -> None:
    """A follower loses what was in its memory, or what its disk refused, and comes back; the leader
    dies soon after."""
    if (cast := _cast(world)) is None:
        return
    leader, poorer, _ = cast
    for _ in range(world.one_of((3, 6, 9))):
        world.write(leader)
    for _ in range(4):
        world.round()
    if poorer.is_dead:
        return
    if world.random() < 0.3:
        poorer.fail(poorer.replicas[0])
        world.end(poorer)
    else:
        world.end(poorer)
        world.lose_memory(poorer.node)
    start(world)
    for _ in range(world.one_of((1, 2, 3, 4, 5, 6, 7))):
        world.round()
    fail_over(world)


def goes_on_alone(world: "World") -> None:
    """The followers die one after the other; the leader may commit without them from then on, does,
    and dies. The last that died comes back first."""
    if (cast := _cast(world)) is None:
        return
    leader, *followers = cast
    for follower in followers:
        if follower.is_dead or leader.is_dead:
            return
        world.end(follower)
        for _ in range(world.one_of((2, 3))):
            world.round()
    set_minimum(world, 1)
    world.round()
    if not leader.is_dead:
        world.write(leader)
        world.round()
        world.write(leader)
    fail_over(world)
    last = followers[-1].node
    if last not in world.brokers:
        world.brokers[last] = Broker(world, last)
    for _ in range(4):
        world.round()


def leaves_while_all_is_well(world: "World") -> None:
    """The leader is to stop; whoever writes to it should not have to wait for an election."""
    if (leader := _leader(world)) is None or not _is_well(world):
        return
    begin_leaving(leader)
    for _ in range(10):
        world.round()
        if leader.is_dead:
            return
    raise Violation(f"broker {leader.node} does not come to leave")


def _is_well(world: "World") -> bool:
    """All are in sync, nothing that lasts is wrong, and somebody is controller."""
    states = [world.state(index) for index in range(world.shape.partitions)]
    return (
        all(len(state.in_sync) == len(world.nodes) for state in states)
        and len(world.brokers) == len(world.nodes)
        and not world.cuts
        and not world.store.is_away
        and all(world.is_well(broker) for broker in world.brokers.values())
        and any(b.incarnation is world.store.value(CONTROLLER) for b in world.brokers.values())
    )


def _cast(world: "World") -> tuple[Broker, Broker, Broker] | None:
    """The leader and two followers in any order, where all three are up."""
    leader = _leader(world)
    if leader is None or len(world.brokers) < len(world.nodes):
        return None
    one, other = world.chance.sample([b for b in world.brokers.values() if b is not leader], 2)
    return leader, one, other


def _leader(world: "World") -> Broker | None:
    leader = world.brokers.get(world.state().leader)
    return leader if leader is not None and leader.replicas[0].leading is not None else None


PLOTS: Final[tuple[Fault, ...]] = (
    overtaken_answer,
    joins_while_the_store_is_away,
    comes_back_with_less,
    goes_on_alone,
    leaves_while_all_is_well,
)
