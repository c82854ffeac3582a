"""A folder is used only with the metadata that knows it, and nothing is deleted otherwise."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest

from goqueue.broker.membership.cluster_claim import claim_cluster
from goqueue.broker.membership.identity_file import IdentityFile
from goqueue.broker.node import Node
from goqueue.metadata.local import LocalStore
from goqueue.metadata.store import Read
from goqueue.model.broker_config import broker_config
from goqueue.model.errors import DataDirectoryError
from goqueue.model.membership import FEATURE_LEVEL
from goqueue.model.names import NodeId
from goqueue.state import metadata_keys as keys
from goqueue.storage.data_directory import DataDirectory
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import save
from goqueue.storage.partition_files import IDENTITY_FILE, PartitionIdentity

Scenario = Callable[[LocalStore, DataDirectory], Awaitable[None]]


def run(tmp_path: Path, scenario: Scenario) -> None:
    async def on_loop() -> None:
        store = await LocalStore.open(tmp_path / "store")
        directory = DataDirectory.open(tmp_path / "data")
        try:
            await scenario(store, directory)
        finally:
            directory.close(None)
            await store.close()

    asyncio.run(on_loop())


def put_log(directory: DataDirectory) -> Path:
    folder = directory.logs_path / "orders-0"
    folder.mkdir()
    identity = PartitionIdentity(topic="orders", partition=0, topic_id=UUID(int=1))
    save(Disk(), folder / IDENTITY_FILE, identity)
    return folder


async def cluster_id_in(store: LocalStore) -> str:
    found = (await store.get(keys.CLUSTER_ID_KEY)).one
    assert found is not None
    return keys.decode_value(found.key, found.value, str)


def test_the_first_folder_names_the_cluster(tmp_path: Path) -> None:
    async def scenario(store: LocalStore, directory: DataDirectory) -> None:
        await claim_cluster(store, directory)
        assert await cluster_id_in(store) == directory.cluster_id
        await claim_cluster(store, directory)

    run(tmp_path, scenario)


def test_an_empty_folder_joins_the_cluster_that_is_there(tmp_path: Path) -> None:
    async def scenario(store: LocalStore, directory: DataDirectory) -> None:
        await store.put(*keys.cluster_id_entry("theirs"))
        await claim_cluster(store, directory)
        assert directory.cluster_id == "theirs"
        directory.close(None)
        again = DataDirectory.open(directory.path)
        assert again.cluster_id == "theirs"
        again.close(None)

    run(tmp_path, scenario)


def test_logs_of_another_cluster_are_refused_and_stay(tmp_path: Path) -> None:
    async def scenario(store: LocalStore, directory: DataDirectory) -> None:
        folder = put_log(directory)
        await store.put(*keys.cluster_id_entry("theirs"))
        with pytest.raises(DataDirectoryError, match="the metadata is that of cluster theirs"):
            await claim_cluster(store, directory)
        assert folder.exists()
        assert directory.cluster_id != "theirs"

    run(tmp_path, scenario)


@pytest.mark.parametrize("what", ["logs", "identity"])
def test_empty_metadata_beside_a_used_folder_is_refused(tmp_path: Path, what: str) -> None:
    async def scenario(store: LocalStore, directory: DataDirectory) -> None:
        if what == "logs":
            put_log(directory)
        else:
            IdentityFile.open(Disk(), directory.node_path, NodeId(1)).begin(has_lost=False)
        with pytest.raises(DataDirectoryError, match="its metadata is empty"):
            await claim_cluster(store, directory)
        assert not (await store.get_prefix("/")).kvs

    run(tmp_path, scenario)


def test_a_store_with_other_keys_is_not_taken(tmp_path: Path) -> None:
    async def scenario(store: LocalStore, directory: DataDirectory) -> None:
        await store.put("/registry/pods/1", b"")
        with pytest.raises(DataDirectoryError, match="it is not one of GoQueue"):
            await claim_cluster(store, directory)

    run(tmp_path, scenario)


def test_a_cluster_of_a_later_release_is_not_joined(tmp_path: Path) -> None:
    async def scenario(store: LocalStore, directory: DataDirectory) -> None:
        await claim_cluster(store, directory)
        await store.put(*keys.feature_level_entry(FEATURE_LEVEL + 1))
        with pytest.raises(DataDirectoryError, match="feature level 4, and this release knows 3"):
            await claim_cluster(store, directory)

    run(tmp_path, scenario)


def test_a_folder_of_a_later_release_is_not_opened(tmp_path: Path) -> None:
    """Of a node of one, which has its metadata in it."""
    config = broker_config({"data.dir": str(tmp_path / "data")})

    async def story() -> None:
        await (await Node.open(config)).close()
        store = await LocalStore.open(tmp_path / "data" / "metadata")
        await store.put(*keys.feature_level_entry(FEATURE_LEVEL + 1))
        await store.close()
        with pytest.raises(DataDirectoryError, match="or that this folder had last"):
            await Node.open(config)

    asyncio.run(story())


def test_a_cluster_of_a_later_release_leaves_an_empty_folder_as_it_was(tmp_path: Path) -> None:
    async def scenario(store: LocalStore, directory: DataDirectory) -> None:
        own = directory.cluster_id
        await store.put(*keys.cluster_id_entry("another"))
        await store.put(*keys.feature_level_entry(FEATURE_LEVEL + 1))
        with pytest.raises(DataDirectoryError, match="feature level"):
            await claim_cluster(store, directory)
        assert directory.cluster_id == own
        assert not directory.is_of_a_cluster

    run(tmp_path, scenario)


def test_of_brokers_that_begin_at_once_one_names_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one does so between two reads of the first."""

    async def scenario(store: LocalStore, directory: DataDirectory) -> None:
        read_all = store.get_prefix
        other = DataDirectory.open(tmp_path / "other")

        async def after_the_other(prefix: str) -> Read:
            monkeypatch.undo()
            await claim_cluster(store, other)
            return await read_all(prefix)

        monkeypatch.setattr(store, "get_prefix", after_the_other)
        await claim_cluster(store, directory)
        assert directory.cluster_id == other.cluster_id == await cluster_id_in(store)
        other.close(None)

    run(tmp_path, scenario)
