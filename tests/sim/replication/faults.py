"""What can fail, one thing at a time. Faults like leaders best."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from goqueue.metadata.store import Compare, Put
from goqueue.model.names import NodeId
from goqueue.state.replication.in_sync import with_min_in_sync
from tests.sim.replication import leaving
from tests.sim.replication.broker import Broker
from tests.sim.replication.disk import SimLog
from tests.sim.replication.keys import CONTROLLER, node_key, partition_key
from tests.sim.replication.leaving import begin_leaving

if TYPE_CHECKING:
    from tests.sim.replication.world import World

Fault = Callable[["World"], None]


def kill(world: "World") -> None:
    """The process ends; what it wrote stays in the page cache."""
    if (broker := _pick(world)) is not None:
        world.end(broker)


def cut_power(world: "World") -> None:
    """The machine stops: what was not flushed is gone."""
    node = _victim(world)
    if node in world.brokers:
        world.end(world.brokers[node])
    world.lose_memory(node)


def stop(world: "World") -> None:
    if (broker := _pick(world)) is not None:
        leaving.stop(broker)


def start(world: "World") -> None:
    for node in world.nodes:
        if node not in world.brokers:
            world.brokers[node] = Broker(world, node)
            return


def fail_over(world: "World") -> None:
    """The leader is gone, and the others have the time to elect the next."""
    broker = world.brokers.get(world.state().leader)
    if broker is not None:
        world.end(broker)
        if world.random() < 0.3:
            world.lose_memory(broker.node)
        for _ in range(3):
            world.round()


def pause(world: "World") -> None:
    if (broker := _pick(world)) is not None:
        broker.is_paused = not broker.is_paused and world.random() < 0.4


def blind(world: "World") -> None:
    """A broker's watch falls far behind, while its requests are answered."""
    if (broker := _pick(world)) is not None:
        broker.is_blind = not broker.is_blind


def expire(world: "World") -> None:
    """A lease ends although its broker lives: it was paused, or cut off."""
    broker = _pick(world)
    if broker is not None and broker.lease is not None and not world.store.is_away:
        world.store.expire(broker.lease)


def cut_link(world: "World") -> None:
    if world.cuts and world.random() < 0.6:
        world.cuts.clear()
        return
    one, other = world.chance.sample(world.nodes, 2)
    world.cuts.add((one, other))


def hold_message(world: "World") -> None:
    """A message goes a long way round and comes after much that was sent later."""
    if world.held_messages and world.random() < 0.3:
        world.network += world.held_messages
        world.held_messages.clear()
    elif world.network:
        i = world.chance.randrange(len(world.network))
        world.held_messages.append(world.network.pop(i))


def hold_request(world: "World") -> None:
    """The same for a request to the store; whoever sent it may have given it up long since."""
    if world.held_requests and world.random() < 0.3:
        world.requests += world.held_requests
        world.held_requests.clear()
    elif world.requests:
        i = world.chance.randrange(len(world.requests))
        world.held_requests.append(world.requests.pop(i))


def lose_store(world: "World") -> None:
    world.store.is_away = not world.store.is_away and world.random() < 0.3


def replace_disk(world: "World") -> None:
    node = world.one_of(world.nodes)
    if node in world.brokers:
        world.end(world.brokers[node])
    for checker, log in zip(world.checkers, world.disks[node].logs, strict=True):
        checker.destroyed(node, log, 0)
    world.disks[node] = world.new_disk()


def copy_disk(world: "World") -> None:
    node = world.one_of(world.nodes)
    if any(log.kept is not None for log in world.disks[node].logs):
        return
    world.old_disks[node] = world.disks[node].copy()


def restore_disk(world: "World") -> None:
    """A machine comes back with an older copy of its disk.

    A copy that was made while the incarnation ran that was admitted last cannot be told from
    the disk itself.
    """
    node = world.one_of(world.nodes)
    known = world.store.value(node_key(node))
    if node not in world.old_disks or known is None:
        return
    if known.incarnation in world.old_disks[node].identity.trail:
        return
    if node in world.brokers:
        world.end(world.brokers[node])
    old = world.old_disks.pop(node)
    for checker, log, before in zip(world.checkers, world.disks[node].logs, old.logs, strict=True):
        checker.destroyed(node, log, _common_length(log, before))
    old.boot = world.disks[node].boot
    world.disks[node] = old
    world.lose_memory(node)


def change_minimum(world: "World") -> None:
    set_minimum(world, world.one_of((1, 2, 2, 3)))


def set_minimum(world: "World", minimum: int) -> None:
    """An administrator changes `min.insync.replicas`; whoever is controller writes it."""
    held = world.store.value(CONTROLLER)
    broker = next((b for b in world.brokers.values() if b.incarnation == held), None)
    if broker is None or (mine := broker.image.get(CONTROLLER)) is None:
        return
    key = partition_key(world.chance.randrange(world.shape.partitions))
    if (stored := broker.image.get(key)) is None:
        return
    state = with_min_in_sync(stored.value, minimum)
    compares = [
        Compare.unchanged(CONTROLLER, mine.mod_revision),
        Compare.unchanged(key, stored.mod_revision),
    ]
    world.transact(broker, compares, [Put(key, state)])  # type: ignore[arg-type]


def fail_disk(world: "World") -> None:
    """A log cannot be synced, while the process lives."""
    if (broker := _pick(world)) is not None:
        broker.fail(world.one_of(broker.replicas))


def fill_disk(world: "World") -> None:
    """There is no space left, or there is again."""
    disk = world.disks[_victim(world)]
    disk.is_full = not disk.is_full and world.random() < 0.6


def leave(world: "World") -> None:
    """A broker is told to stop, and has others take over first."""
    if (broker := _pick(world)) is not None:
        begin_leaving(broker)


def give_back(world: "World") -> None:
    """Whoever is controller has the first of the replicas lead again."""
    for broker in world.brokers.values():
        broker.controlling.give_back()


def _victim(world: "World") -> NodeId:
    if world.random() < 0.5:
        state = world.state(world.chance.randrange(world.shape.partitions))
        if state.has_leader:
            return state.leader
    return world.one_of(world.nodes)


def _pick(world: "World") -> Broker | None:
    return world.brokers.get(_victim(world))


def _common_length(one: SimLog, other: SimLog) -> int:
    pairs = zip(one.records, other.records, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(one.end, other.end))


FAULTS: Final[tuple[Fault, ...]] = (
    kill,
    cut_power,
    stop,
    fail_over,
    pause,
    blind,
    expire,
    cut_link,
    hold_message,
    hold_request,
    lose_store,
    replace_disk,
    copy_disk,
    restore_disk,
    change_minimum,
    fail_disk,
    fill_disk,
    leave,
    give_back,
)
