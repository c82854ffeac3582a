"""Whether a data directory, the metadata store and this release belong together."""

from goqueue.metadata.keyspace import FIRST_REVISION
from goqueue.metadata.store import MetadataStore
from goqueue.model.errors import DataDirectoryError, MetadataUnavailable
from goqueue.model.membership import FEATURE_LEVEL
from goqueue.state import metadata_keys as keys
from goqueue.storage.data_directory import DataDirectory


async def revision_of(store: MetadataStore) -> int | None:
    """Where the store is; None if it cannot tell."""
    try:
        return (await store.get(keys.ROOT_PREFIX)).revision
    except MetadataUnavailable:
        return None


async def check_feature_level(store: MetadataStore) -> None:
    """Refuse what a later release stored, and this one would misread."""
    found = (await store.get(keys.FEATURE_LEVEL_KEY)).one
    level = 0 if found is None else keys.decode_value(found.key, found.value, int)
    if level > FEATURE_LEVEL:
        raise DataDirectoryError(
            f"the metadata is at feature level {level}, and this release knows {FEATURE_LEVEL}: "
            "use the release that the other brokers have, or that this folder had last"
        )


async def check_metadata(store: MetadataStore, directory: DataDirectory) -> None:
    """Refuse metadata of a later release; and such that lost its end: folders of topics that it
    forgot would be removed."""
    await check_feature_level(store)
    expected = None if directory.last_stop is None else directory.last_stop.metadata_revision
    if expected is None:
        return
    revision = (await store.get(keys.ROOT_PREFIX)).revision
    # Metadata that is gone altogether is noticed where its logs are looked at.
    if FIRST_REVISION < revision < expected:
        is_elsewhere = directory.is_of_a_cluster
        where = "the cluster's metadata store" if is_elsewhere else str(directory.metadata_path)
        raise DataDirectoryError(
            f"{where} ends at revision {revision}, but was at {expected} when "
            "the broker stopped; restore it from a backup of the same time as the logs"
        )


def refuse_folder_of_a_cluster(directory: DataDirectory) -> None:
    """Without the cluster's metadata, its logs would count as strays."""
    if directory.is_of_a_cluster:
        raise DataDirectoryError(
            f"{directory.path} belongs to a node of cluster {directory.cluster_id}; start it with "
            "--cluster and the address of its etcd, or give another --data-dir"
        )
