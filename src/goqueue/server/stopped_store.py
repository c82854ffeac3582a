"""The metadata of a broker that is not running: of one, of several workers, or of a cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from goqueue.broker.membership.etcd_access import open_etcd
from goqueue.broker.stored_revision import check_feature_level, refuse_folder_of_a_cluster
from goqueue.metadata.local import LocalStore
from goqueue.metadata.store import MetadataStore
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.errors import DataDirectoryError
from goqueue.server.workers.folder import WorkersFolder, is_of_workers
from goqueue.state import metadata_keys as keys
from goqueue.storage.data_directory import DataDirectory
from goqueue.storage.disk import Disk


@asynccontextmanager
async def stopped_store(config: BrokerConfig) -> AsyncIterator[MetadataStore]:
    """Locked against brokers, who would not see what is written; `DataDirectoryError` while one
    runs. Brokers of a cluster share theirs with everybody who may use etcd, and need not stop."""
    if config.cluster:
        async with _of_cluster(config) as store:
            yield store
    elif is_of_workers(config.data_dir):
        folder = await WorkersFolder.open(config.data_dir)
        try:
            async with _local(folder.store_path) as store:
                yield store
        finally:
            folder.close()
    else:
        directory = DataDirectory.open(config.data_dir, Disk())
        try:
            refuse_folder_of_a_cluster(directory)
            async with _local(directory.metadata_path) as store:
                yield store
        finally:
            # Its logs are as the last stop left them.
            directory.close(directory.last_stop)


@asynccontextmanager
async def _local(path: Path) -> AsyncIterator[MetadataStore]:
    store = await LocalStore.open(path)
    try:
        await check_feature_level(store)
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def _of_cluster(config: BrokerConfig) -> AsyncIterator[MetadataStore]:
    store = await open_etcd(config)
    try:
        if (await store.get(keys.CLUSTER_ID_KEY)).one is None:
            raise DataDirectoryError(
                f"cluster: no broker has begun a cluster at {config.cluster} yet; start one first, "
                "or give its brokers a security.bootstrap.file"
            )
        await check_feature_level(store)
        yield store
    finally:
        await store.close()
