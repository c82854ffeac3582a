"""The folder of a single node becomes the first node of a cluster: its metadata goes to etcd.

What is copied can be copied again: until `/cluster/id` is written, which comes last, no broker uses
any of it. The logs stay where they are.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from goqueue.broker.membership.etcd_access import open_etcd
from goqueue.broker.membership.identity_file import IdentityFile
from goqueue.metadata.local import LocalStore
from goqueue.metadata.store import Compare, Delete, MetadataStore, Put
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.errors import DataDirectoryError
from goqueue.model.membership import FEATURE_LEVEL, NodeRecord
from goqueue.model.names import NodeId
from goqueue.state import metadata_keys as keys
from goqueue.state.sole_node import entries_of_sole_node, spread_over
from goqueue.storage.data_directory import FORMAT_FILE, DataDirectory
from goqueue.storage.disk import Disk

# Says whose metadata is being copied, so that a copy that was cut short is begun again.
_ADOPTING_KEY: Final = "/adopting"
# etcd takes 128 operations at once.
_KEYS_A_TRANSACTION: Final = 100


class Spread(NamedTuple):
    """Which brokers will have replicas, and how many of them each partition."""

    brokers: Sequence[NodeId]
    factor: int


async def adopt_folder(config: BrokerConfig, brokers: Sequence[NodeId] = ()) -> int:
    """The data directory and the cluster that the settings name; no broker may run on it.

    `brokers` will have replicas, as many of them as `default.replication.factor` says.
    """
    if not (config.data_dir / FORMAT_FILE).exists():
        raise DataDirectoryError(f"{config.data_dir} is not the data directory of a broker")
    async with _stopped(config.data_dir) as (directory, local):
        cluster = await open_etcd(config)
        try:
            spread = Spread(brokers, config.default_replication_factor)
            node_id = NodeId(config.node_id)
            return await adopt(directory, Disk(), local, cluster, node_id, spread)
        finally:
            await cluster.close()


async def adopt_into(cluster: MetadataStore, data_dir: Path, node_id: NodeId) -> int:
    """As `adopt_folder`, where the store is at hand."""
    async with _stopped(data_dir) as (directory, local):
        return await adopt(directory, Disk(), local, cluster, node_id)


@asynccontextmanager
async def _stopped(data_dir: Path) -> AsyncIterator[tuple[DataDirectory, MetadataStore]]:
    """A folder that no broker runs on, and its metadata; left as it was found."""
    directory = DataDirectory.open(data_dir, Disk())
    stop = directory.last_stop
    try:
        local = await LocalStore.open(directory.metadata_path)
        try:
            yield directory, local
        finally:
            await local.close()
        if stop is not None:
            # From now on revisions are those of the cluster's store.
            stop = msgspec.structs.replace(stop, metadata_revision=None)
    finally:
        directory.close(stop)


async def adopt(
    directory: DataDirectory,
    disk: Disk,
    local: MetadataStore,
    cluster: MetadataStore,
    node_id: NodeId,
    spread: Spread | None = None,
) -> int:
    """Returns how many topics came along; `DataDirectoryError` says why none can."""
    stored = (await local.get_prefix(keys.ROOT_PREFIX)).kvs
    if not any(kv.key == keys.CLUSTER_ID_KEY for kv in stored):
        raise DataDirectoryError(
            f"{directory.path} has no metadata; a new folder joins a cluster without being adopted"
        )
    await _begin(directory, cluster)
    known = ((kv.key, kv.value) for kv in stored)
    entries = list(entries_of_sole_node(known, node_id))
    if spread is not None and spread.brokers:
        everyone = sorted({*spread.brokers, node_id})
        entries = spread_over(entries, node_id, everyone, spread.factor)
    puts = [Put(*entry) for entry in entries]
    for first in range(0, len(puts), _KEYS_A_TRANSACTION):
        await cluster.transact((), puts[first : first + _KEYS_A_TRANSACTION])
    identity = IdentityFile.open(disk, directory.node_path, node_id)
    identity.begin(has_lost=False)
    # Nothing was promised to others so far: what the logs hold is all there is.
    identity.admit()
    identity.stop()
    record = NodeRecord(
        directory=identity.identity.directory,
        incarnation=identity.incarnation,
        broker_epoch=keys.NO_BROKER_EPOCH,
        feature_level=FEATURE_LEVEL,
    )
    await cluster.transact(
        (),
        [
            Put(*keys.node_entry(node_id, record)),
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
