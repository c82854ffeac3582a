"""A broker that is to stop: others lead what it led before it goes."""

from typing import TYPE_CHECKING

import msgspec

from goqueue.metadata.store import Compare, Put
from goqueue.model.replication import PartitionState
from goqueue.state.membership.identity import stopped
from tests.sim.replication.keys import broker_key, node_key, partition_key

if TYPE_CHECKING:
    from tests.sim.replication.broker import Broker

# More than the others need when nothing fails; then it goes all the same.
PATIENCE = 30


def begin_leaving(broker: "Broker") -> None:
    if broker.patience is None:
        broker.patience = PATIENCE if broker.is_admitted else 0


def go_on_leaving(broker: "Broker") -> None:
    """It asks to be relieved until the metadata says so, waits, lets another one be controller,
    and stops."""
    assert broker.patience is not None
    record = broker.image.get(node_key(broker.node))
    if broker.patience > 0 and record is not None and record.value.broker_epoch == broker.epoch:
        broker.patience -= 1
        if not record.value.is_draining:
            key = node_key(broker.node)
            draining = msgspec.structs.replace(record.value, is_draining=True)
            compares = [Compare.unchanged(key, record.mod_revision)]
            broker.world.transact(broker, compares, [Put(key, draining)])
            return
        if any(_can_still_go(broker, replica.index) for replica in broker.replicas):
            return
    broker.controlling.resign()
    stop(broker)


def stop(broker: "Broker") -> None:
    """A clean stop: everything is flushed, the next start knows it."""
    broker.flush()
    broker.disk.identity = stopped(broker.disk.identity)
    broker.world.end(broker)


def _can_still_go(broker: "Broker", index: int) -> bool:
    """Whether it is in sync, and not the only one."""
    stored = broker.image.get(partition_key(index))
    if stored is None:
        return False
    state: PartitionState = stored.value
    nodes = {member.node for member in state.in_sync}
    return broker.node in nodes and any(
        node != broker.node and broker_key(node) in broker.image for node in nodes
    )
