"""Whether this folder and this metadata store belong together, before anything is opened.

A wrong address, an etcd that was wiped or restored, a disk of another cluster: each would make a
broker take its logs for strays. So a folder with logs is used only with the store that knows it.
"""

from goqueue.broker.stored_revision import check_feature_level
from goqueue.metadata.store import Compare, KeyValue, MetadataStore, Put
from goqueue.model.errors import DataDirectoryError
from goqueue.model.membership import FEATURE_LEVEL
from goqueue.state import metadata_keys as keys
from goqueue.storage.data_directory import DataDirectory


async def claim_cluster(store: MetadataStore, directory: DataDirectory) -> None:
    """Join the cluster whose metadata this is, or begin it; `DataDirectoryError` says why not."""
    found = (await store.get(keys.CLUSTER_ID_KEY)).one
    if found is None:
        found = await _begin(store, directory)
    await check_feature_level(store)
    cluster_id = keys.decode_value(found.key, found.value, str)
    if cluster_id != directory.cluster_id:
        if directory.has_logs:
            raise DataDirectoryError(
                f"{directory.path} has logs of cluster {directory.cluster_id}, but the metadata is "
                f"that of cluster {cluster_id}; give the address of its own, or an empty --data-dir"
            )
        directory.join(cluster_id)


async def _begin(store: MetadataStore, directory: DataDirectory) -> KeyValue:
    """The first broker names the cluster; of several at once, one does."""
    if directory.is_of_a_cluster or directory.has_logs:
        raise DataDirectoryError(
            f"{directory.path} has data of cluster {directory.cluster_id}, but its metadata is "
            "empty; give the right address, restore etcd from a backup, or make the folder of a "
            "single node the first of a new cluster with `goqueue cluster adopt`"
        )
    # In one read: of brokers that start at once, another may have begun it meanwhile.
    stored = {each.key: each for each in (await store.get_prefix(keys.ROOT_PREFIX)).kvs}
    if keys.CLUSTER_ID_KEY in stored:
        return stored[keys.CLUSTER_ID_KEY]
    if stored:
        raise DataDirectoryError(
            f"the metadata store has keys but no {keys.CLUSTER_ID_KEY}: it is not one of GoQueue, "
            "or a part of it was deleted; restore it from a backup, or give another name behind "
            "its address, such as etcd://host:port/name"
        )
    await store.transact(
        [Compare.missing(keys.CLUSTER_ID_KEY)],
        [
            Put(*keys.cluster_id_entry(directory.cluster_id)),
            Put(*keys.feature_level_entry(FEATURE_LEVEL)),
        ],
    )
    found = (await store.get(keys.CLUSTER_ID_KEY)).one
    assert found is not None
    return found
