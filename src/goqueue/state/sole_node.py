"""Metadata of any brokers, as it is when one node has everything.

A folder that becomes the first node of a cluster is such a node, and so is one that a backup was
restored to, whatever cluster the backup was made of.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import UUID

import msgspec

from goqueue.model.companions import kind_and_owner
from goqueue.model.names import NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.state import metadata_keys as keys


def entries_of_sole_node(
    stored: Iterable[tuple[str, bytes]], node_id: NodeId, *, epochs_later: int = 0
) -> Iterator[keys.Entry]:
    """What goes along: partitions are led by the node, `epochs_later` than they were.

    Whatever tells of other nodes stays behind: moves, and what was set of one of several brokers,
    for one that was drained would shut the node to new topics. Settings of a broker that was alone
    become the node's.
    """
    stored = list(stored)
    nodes = sum(isinstance(keys.parse_key(key), keys.NodeKey) for key, _ in stored)
    for key, value in stored:
        match keys.parse_key(key):
            case keys.PartitionKey(topic, index):
                state = keys.decode_partition(key, value)
                yield keys.partition_entry(topic, index, _led_by(state, node_id, epochs_later))
            case keys.BrokerConfigKey(owner) if owner is not None:
                if nodes <= 1:
                    yield keys.Entry(keys.broker_config_key(node_id), value)
            case keys.SingleKey.PRODUCER_IDS | keys.TopicKey() | keys.BrokerConfigKey():
                yield keys.Entry(key, value)
            case keys.GroupConfigKey() | keys.ClientMetricsKey() | keys.DoorKey():
                yield keys.Entry(key, value)
            case keys.SecurityKey():
                yield keys.Entry(key, value)


def spread_over(
    entries: Iterable[keys.Entry], node_id: NodeId, brokers: Sequence[NodeId], factor: int
) -> list[keys.Entry]:
    """The same with replicas on `brokers`, of which `node_id` is one. It leads all at first, for
    the others have nothing yet; they take turns as the first replica, which leads in peace."""
    entries = list(entries)
    ids = {
        key.removeprefix(keys.TOPICS_PREFIX): keys.decode_value(key, value, keys.TopicValue).id
        for key, value in entries
        if key.startswith(keys.TOPICS_PREFIX)
    }
    return [_spread(entry, ids, node_id, sorted(brokers), factor) for entry in entries]


def _spread(
    entry: keys.Entry,
    ids: Mapping[str, UUID],
    node_id: NodeId,
    brokers: Sequence[NodeId],
    factor: int,
) -> keys.Entry:
    key = keys.parse_key(entry.key)
    if not isinstance(key, keys.PartitionKey):
        return entry
    # What belongs to a partition is where that is.
    companion = kind_and_owner(key.topic)
    owner = ids[key.topic] if companion is None else companion[1]
    first = (owner.int + key.partition) % len(brokers)
    replicas = [*brokers[first:], *brokers[:first]][: max(1, factor)]
    if node_id not in replicas:
        replicas[-1] = node_id
    state = keys.decode_partition(*entry)
    return keys.partition_entry(
        key.topic, key.partition, msgspec.structs.replace(state, replicas=tuple(replicas))
    )


def _led_by(state: PartitionState, node_id: NodeId, epochs_later: int) -> PartitionState:
    return msgspec.structs.replace(
        state,
        leader=node_id,
        leader_epoch=state.leader_epoch + epochs_later,
        replicas=(node_id,),
        in_sync=(Member(node_id, keys.NO_BROKER_EPOCH),),
        eligible=(),
        doubtful=(),
        move=None,
    )
