"""Metadata of any brokers, as it is when one node has everything.

A folder that becomes the first node of a cluster is such a node, and so is one that a backup was
restored to, whatever cluster the backup was made of.
"""

from collections.abc import Iterable, Iterator

import msgspec

from goqueue.model.names import NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.state import metadata_keys as keys


def entries_of_sole_node(
    stored: Iterable[tuple[str, bytes]], node_id: NodeId, *, epochs_later: int = 0
) -> Iterator[keys.Entry]:
    """What goes along: partitions are led by the node, `epochs_later` than they were.

    Whatever tells of other nodes stays behind; settings of a single broker become the node's.
    """
    for key, value in stored:
        match keys.parse_key(key):
            case keys.PartitionKey(topic, index):
                state = keys.decode_partition(key, value)
                yield keys.partition_entry(topic, index, _led_by(state, node_id, epochs_later))
            case keys.BrokerConfigKey(owner) if owner is not None:
                yield keys.Entry(keys.broker_config_key(node_id), value)
            case keys.SingleKey.PRODUCER_IDS | keys.TopicKey() | keys.BrokerConfigKey():
                yield keys.Entry(key, value)
            case keys.GroupConfigKey() | keys.DoorKey():
                yield keys.Entry(key, value)


def _led_by(state: PartitionState, node_id: NodeId, epochs_later: int) -> PartitionState:
    return msgspec.structs.replace(
        state,
        leader=node_id,
        leader_epoch=state.leader_epoch + epochs_later,
        replicas=(node_id,),
        in_sync=(Member(node_id, keys.NO_BROKER_EPOCH),),
        eligible=(),
        doubtful=(),
    )
