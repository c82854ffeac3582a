"""Whether a data directory and the metadata store belong together."""

from goqueue.metadata.keyspace import FIRST_REVISION
from goqueue.metadata.store import MetadataStore
from goqueue.model.errors import DataDirectoryError, MetadataUnavailable
from goqueue.state import metadata_keys as keys
from goqueue.storage.data_directory import DataDirectory


async def revision_of(store: MetadataStore) -> int | None:
    """Where the store is; None if it cannot tell."""
    try:
        return (await store.get(keys.ROOT_PREFIX)).revision
    except MetadataUnavailable:
        return None


async def check_metadata(store: MetadataStore, directory: DataDirectory) -> None:
    """Refuse metadata that lost its end: folders of topics that it forgot would be removed."""
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
