"""The folder of several workers: what becomes of one that was otherwise, or had more of them."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from goqueue.broker.node import Node
from goqueue.metadata.local import LocalStore
from goqueue.metadata.store import Put
from goqueue.model.broker_config import broker_config
from goqueue.model.errors import DataDirectoryError
from goqueue.model.membership import NodeRecord
from goqueue.model.names import NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.model.topics import NewTopic
from goqueue.server.workers import folder as folders
from goqueue.server.workers.folder import WorkersFolder, is_of_workers
from goqueue.service.broker_service import BrokerService
from goqueue.state import metadata_keys as keys
from goqueue.storage.data_directory import DataDirectory
from goqueue.storage.disk import Disk
from goqueue.storage.mending.stopped_folder import stopped_folder
from tests.callers import ANYONE

Story = Callable[[LocalStore], Awaitable[None]]


async def prepared(path: Path, count: int, then: Story | None = None) -> None:
    """As a start does, up to the workers."""
    folder = await WorkersFolder.open(path)
    try:
        folder.check(count)
        store = await LocalStore.open(folder.store_path)
        try:
            await folder.fit(store, count)
            if then is not None:
                await then(store)
        finally:
            await store.close()
    finally:
        folder.close()


def prepare(path: Path, count: int, then: Story | None = None) -> None:
    asyncio.run(prepared(path, count, then))


async def single_broker(path: Path, topic: str) -> None:
    broker = await Node.open(broker_config({"data.dir": str(path)}))
    await broker.announce("127.0.0.1", 9_092, 8_080)
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name=topic, partitions=3))
    await broker.close()


def placed_on(*nodes: int) -> Story:
    async def place(store: LocalStore) -> None:
        state = PartitionState(
            leader=NodeId(nodes[0]),
            leader_epoch=0,
            replicas=tuple(map(NodeId, nodes)),
            in_sync=(Member(NodeId(nodes[0]), 5),),
        )
        known = NodeRecord(directory=uuid4(), incarnation=uuid4(), broker_epoch=5)
        entries = [keys.partition_entry("orders", 0, state)]
        entries += [keys.node_entry(NodeId(node), known) for node in (0, 1, 2)]
        await store.transact((), [Put(*entry) for entry in entries])

    return place


def test_a_new_folder_and_more_workers_later(tmp_path: Path) -> None:
    path = tmp_path / "data"
    prepare(path, 2)
    assert is_of_workers(path)
    prepare(path, 3)
    prepare(path, 3)


def test_fewer_workers_are_refused_while_others_have_partitions(tmp_path: Path) -> None:
    prepare(tmp_path, 3, placed_on(2))
    for count in (1, 2):
        with pytest.raises(DataDirectoryError, match=r"1 on worker 2.*--workers 3"):
            prepare(tmp_path, count)
    prepare(tmp_path, 3)


def test_workers_that_have_nothing_are_forgotten(tmp_path: Path) -> None:
    prepare(tmp_path, 3, placed_on(0))

    async def look(store: LocalStore) -> None:
        nodes = (await store.get_prefix(keys.NODES_PREFIX)).kvs
        assert [kv.key for kv in nodes] == [keys.node_key(NodeId(0))]

    prepare(tmp_path, 1, look)


def test_sessions_of_the_last_run_are_over(tmp_path: Path) -> None:
    async def register(store: LocalStore) -> None:
        lease = await store.grant_lease(600_000)
        value = keys.BrokerValue(host="h", kafka_port=1, http_port=2)
        await store.put(*keys.broker_entry(NodeId(1), value), lease)
        await store.put(keys.CONTROLLER_KEY, b"1", lease)
        await store.put("/kept", b"")

    async def look(store: LocalStore) -> None:
        assert [kv.key for kv in (await store.get_prefix("/")).kvs] == ["/kept"]

    prepare(tmp_path, 2, register)
    prepare(tmp_path, 2, look)


def names_in(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


def check_taken_over(path: Path) -> Story:
    async def look(store: LocalStore) -> None:
        topics = (await store.get_prefix(keys.TOPICS_PREFIX)).kvs
        assert keys.topic_key("orders") in {kv.key for kv in topics}
        for kv in (await store.get_prefix(keys.PARTITIONS_PREFIX)).kvs:
            assert keys.decode_partition(kv.key, kv.value).replicas == (0,)
        assert names_in(path) == ["broker.lock", "store", "worker-0", "workers.json"]
        assert "orders-2" in names_in(path / "worker-0" / "logs")

    return look


def test_the_folder_of_a_single_broker_is_that_of_the_first_worker(tmp_path: Path) -> None:
    path = tmp_path / "data"
    asyncio.run(single_broker(path, "orders"))
    prepare(path, 2, check_taken_over(path))
    prepare(path, 2, check_taken_over(path))


@pytest.mark.parametrize("renames", [0, 1, 2, 3, 100])
def test_taking_over_goes_on_where_it_was_cut_short(
    tmp_path: Path, renames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data"
    asyncio.run(single_broker(path, "orders"))

    class CutShort(Exception):
        pass

    class CutShortDisk(Disk):
        left = renames

        def rename(self, old: Path, new: Path) -> None:
            if new.parent.name == "worker-0":
                if self.left == 0:
                    raise CutShort
                self.left -= 1
            super().rename(old, new)

    async def no_more(*_: object) -> None:
        raise CutShort

    with monkeypatch.context() as patched:
        patched.setattr(folders, "Disk", CutShortDisk)
        # Or after all is copied, and before that is noted.
        patched.setattr(folders, "_end_sessions", no_more)
        with pytest.raises(CutShort):
            prepare(path, 2)
    prepare(path, 2, check_taken_over(path))


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(DataDirectoryError, match="thesis"):
        prepare(tmp_path, 2)
    assert not is_of_workers(tmp_path)
    (tmp_path / "thesis.tex").unlink()
    (tmp_path / "node.json").write_text("…")
    with pytest.raises(DataDirectoryError, match="cluster with etcd"):
        prepare(tmp_path, 2)


def test_a_newer_or_damaged_note_is_refused(tmp_path: Path) -> None:
    prepare(tmp_path, 2)
    note = tmp_path / "workers.json"
    note.write_text(note.read_text().replace("2", "3"))
    with pytest.raises(DataDirectoryError, match="checksum"):
        prepare(tmp_path, 2)


def test_who_wants_one_broker_is_told_what_the_folder_is(tmp_path: Path) -> None:
    prepare(tmp_path, 2)
    with pytest.raises(DataDirectoryError, match=r"several workers.*--workers"):
        DataDirectory.open(tmp_path)
    with (
        pytest.raises(DataDirectoryError, match="several workers"),
        stopped_folder(Disk(), tmp_path),
    ):
        pass


def test_a_folder_in_use_is_refused_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "LOCK_PATIENCE_S", 0.3)

    async def story() -> None:
        first = await WorkersFolder.open(tmp_path)
        with pytest.raises(DataDirectoryError, match="in use"):
            await WorkersFolder.open(tmp_path)
        first.check(2)
        # Also one that a process of the last run has, after its supervisor is gone.
        inherited = os.dup(first.lock)
        first.close()
        with pytest.raises(DataDirectoryError, match="in use"):
            await WorkersFolder.open(tmp_path)
        waiting = asyncio.create_task(WorkersFolder.open(tmp_path))
        await asyncio.sleep(0.05)
        os.close(inherited)
        (await waiting).close()

    asyncio.run(story())
