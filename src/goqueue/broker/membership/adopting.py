"""The folder of a single node becomes the first node of a cluster: its metadata goes to etcd.

What is copied can be copied again: until `/cluster/id` is written, which comes last, no broker uses
any of it. The logs stay where they are.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from goqueue.broker.membership.etcd_access import open_etcd
from goqueue.broker.membership.identity_file import IdentityFile
from goqueue.metadata.local import LocalStore
from goqueue.metadata.store import Compare, Delete, KeyValue, MetadataStore, Put
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.errors import DataDirectoryError
from goqueue.model.membership import FEATURE_LEVEL, NodeRecord
from goqueue.model.names import NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.state import metadata_keys as keys
from goqueue.storage.data_directory import FORMAT_FILE, DataDirectory
from goqueue.storage.disk import Disk

# Says whose metadata is being copied, so that a copy that was cut short is begun again.
_ADOPTING_KEY: Final = "/adopting"
# etcd takes 128 operations at once.
_KEYS_A_TRANSACTION: Final = 100


async def adopt_folder(config: BrokerConfig) -> int:
    """The data directory and the cluster that the settings name; no broker may run on it."""
    if not (config.data_dir / FORMAT_FILE).exists():
        raise DataDirectoryError(f"{config.data_dir} is not the data directory of a broker")
    disk = Disk()
    directory = DataDirectory.open(config.data_dir, disk)
    stop = directory.last_stop
    try:
        local = await LocalStore.open(directory.metadata_path)
        try:
            cluster = await open_etcd(config)
            try:
                adopted = await adopt(directory, disk, local, cluster, NodeId(config.node_id))
            finally:
                await cluster.close()
        finally:
            await local.close()
        if stop is not None:
            # From now on revisions are those of etcd.
            stop = msgspec.structs.replace(stop, metadata_revision=None)
    finally:
        directory.close(stop)
    return adopted


async def adopt(
    directory: DataDirectory,
    disk: Disk,
    local: MetadataStore,
    cluster: MetadataStore,
    node_id: NodeId,
) -> int:
    """Returns how many topics came along; `DataDirectoryError` says why none can."""
    stored = (await local.get_prefix(keys.ROOT_PREFIX)).kvs
    if not any(kv.key == keys.CLUSTER_ID_KEY for kv in stored):
        raise DataDirectoryError(
            f"{directory.path} has no metadata; a new folder joins a cluster without being adopted"
        )
    await _begin(directory, cluster)
    puts = [Put(*entry) for entry in _entries(stored, node_id)]
    for first in range(0, len(puts), _KEYS_A_TRANSACTION):
        await cluster.transact((), puts[first : first + _KEYS_A_TRANSACTION])
    identity = IdentityFile.open(disk, directory.node_path, node_id)
    identity.begin(has_lost=False)
    # Nothing was promised to others so far: what the logs hold is all there is.
    identity.admit()
    identity.stop()
    known = NodeRecord(
        directory=identity.identity.directory,
        incarnation=identity.incarnation,
        broker_epoch=keys.NO_BROKER_EPOCH,
    )
    await cluster.transact(
        (),
        [
            Put(*keys.node_entry(node_id, known)),
            Put(*keys.feature_level_entry(FEATURE_LEVEL)),
            Put(*keys.cluster_id_entry(directory.cluster_id)),
            Delete(_ADOPTING_KEY),
        ],
    )
    return sum(kv.key.startswith(keys.TOPICS_PREFIX) for kv in stored)


async def _begin(directory: DataDirectory, cluster: MetadataStore) -> None:
    mine = msgspec.json.encode(directory.cluster_id)
    found = (await cluster.get_prefix(keys.ROOT_PREFIX)).kvs
    begun = any(kv.key == _ADOPTING_KEY and kv.value == mine for kv in found)
    if found and not begun:
        raise DataDirectoryError(
            "the metadata store is not empty: a folder becomes the first node of a new cluster; "
            "give another etcd, or a name of its own behind the address: etcd://host:port/name"
        )
    if directory.is_of_a_cluster and not begun:
        raise DataDirectoryError(f"{directory.path} belongs to a node of a cluster already")
    await cluster.transact([Compare.missing(_ADOPTING_KEY)], [Put(_ADOPTING_KEY, mine)])


def _entries(stored: Sequence[KeyValue], node_id: NodeId) -> Iterator[keys.Entry]:
    """What goes along: partitions are led by the node, under the number that it has now."""
    for kv in stored:
        match keys.parse_key(kv.key):
            case keys.PartitionKey(topic, index):
                state = keys.decode_partition(kv.key, kv.value)
                yield keys.partition_entry(topic, index, _led_by(state, node_id))
            case keys.BrokerConfigKey(owner) if owner is not None:
                yield keys.Entry(keys.broker_config_key(node_id), kv.value)
            case keys.SingleKey.PRODUCER_IDS | keys.TopicKey() | keys.BrokerConfigKey():
                yield keys.Entry(kv.key, kv.value)
            case keys.GroupConfigKey() | keys.DoorKey():
                yield keys.Entry(kv.key, kv.value)


def _led_by(state: PartitionState, node_id: NodeId) -> PartitionState:
    return msgspec.structs.replace(
        state,
        leader=node_id,
        replicas=(node_id,),
        in_sync=(Member(node_id, keys.NO_BROKER_EPOCH),),
    )
