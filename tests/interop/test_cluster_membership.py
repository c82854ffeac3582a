"""Brokers of one cluster on a real etcd: they join, outlive its absence, and leave."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from goqueue.broker.membership.adopting import adopt_folder
from goqueue.broker.node import Node
from goqueue.metadata.etcd.client import EtcdAddress
from goqueue.metadata.etcd.store import EtcdStore
from goqueue.model.broker_config import broker_config
from goqueue.model.errors import DataDirectoryError
from goqueue.model.names import NodeId
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.state import metadata_keys as keys
from tests.busy_machine import stretched
from tests.callers import ANYONE
from tests.etcd_server import EtcdServer
from tests.publishing import publish


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    made = EtcdServer(tmp_path / "etcd")
    made.start()
    yield made
    made.stop()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(stretched(60)):
            await test()

    asyncio.run(bounded())


async def opened(etcd: EtcdServer, folder: Path, node_id: int, name: str = "") -> Node:
    settings = {
        "cluster": f"etcd://{etcd.endpoint}{name}",
        "node.id": str(node_id),
        "data.dir": str(folder),
    }
    return await Node.open(broker_config(settings))


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.01)


def test_brokers_join_leave_and_come_back(etcd: EtcdServer, tmp_path: Path) -> None:
    async def story() -> None:
        nodes = {n: await opened(etcd, tmp_path / f"n{n}", n, "/east") for n in (1, 2, 3)}
        await asyncio.gather(*(node.announce("h", n, 1) for n, node in nodes.items()))
        await until(lambda: all(len(node.image.admitted()) == 3 for node in nodes.values()))
        assert len({node.cluster_id for node in nodes.values()}) == 1
        leaving = nodes.pop(nodes[1].image.controller_id)
        await leaving.hand_over()
        assert await leaving.close()
        await until(
            lambda: all(
                len(node.image.brokers) == 2 and node.image.controller_id in nodes
                for node in nodes.values()
            )
        )
        for node in nodes.values():
            assert await node.close()
        back = await opened(etcd, tmp_path / "n1", 1, "/east")
        await back.announce("h", 1, 1)
        assert back.image.controller_id == 1
        await back.close()

    run(story)


def test_etcd_is_away_for_a_while(etcd: EtcdServer, tmp_path: Path) -> None:
    async def story() -> None:
        node = await opened(etcd, tmp_path / "n1", 1)
        await node.announce("h", 1, 1)
        before = node.image
        etcd.kill()
        await asyncio.sleep(0)
        assert node.image is before
        etcd.start()
        store = await EtcdStore.open(EtcdAddress(endpoints=(etcd.endpoint,)))
        entry = keys.group_config_entry("g", {"consumer.session.timeout.ms": "1"})
        await store.put(*entry)
        await store.close()
        await until(lambda: "g" in node.image.group_configs)
        assert NodeId(1) in node.image.admitted()
        await node.close()

    run(story)


def test_folders_and_their_metadata_belong_together(etcd: EtcdServer, tmp_path: Path) -> None:
    async def story() -> None:
        node = await opened(etcd, tmp_path / "n1", 1)
        await node.announce("h", 1, 1)
        await node.close()
        with pytest.raises(DataDirectoryError, match="its metadata is empty"):
            await opened(etcd, tmp_path / "n1", 1, "/another")
        with pytest.raises(DataDirectoryError, match="start it with --cluster"):
            await Node.open(broker_config({"data.dir": str(tmp_path / "n1")}))
        with pytest.raises(DataDirectoryError, match="data directory of node 1, not of node 2"):
            await opened(etcd, tmp_path / "n1", 2)

    run(story)


def test_a_single_node_becomes_the_first_of_a_cluster(etcd: EtcdServer, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    settings = {"data.dir": str(folder), "node.id": "7", "cluster": f"etcd://{etcd.endpoint}"}

    async def story() -> None:
        alone = await Node.open(broker_config({"data.dir": str(folder)}))
        await alone.announce("h", 1, 1)
        new = NewTopic(name="orders", partitions=150)
        made = await BrokerService(alone).topics.create(ANYONE, new)
        assert await write(alone, 149) == 0
        await alone.close()
        assert await adopt_folder(broker_config(settings)) == 1
        with pytest.raises(DataDirectoryError, match="not empty"):
            await adopt_folder(broker_config(settings))
        with pytest.raises(DataDirectoryError, match="start it with --cluster"):
            await Node.open(broker_config({"data.dir": str(folder)}))
        node = await Node.open(broker_config(settings))
        await node.announce("h", 1, 1)
        assert node.topic("orders").id == made.topic.id
        assert node.cluster_id == alone.cluster_id
        await until(lambda: all(p.leader == 7 for p in node.topic("orders").partitions))
        assert await write(node, 149) == 1
        await node.close()

    run(story)


async def write(node: Node, partition: int) -> int:
    """A message to the topic; returns its offset."""
    (stored,) = await publish(node, "orders", [NewRecord(value=b"v")], partition=partition)
    return stored.offset


def test_a_node_of_one_loads_nothing_of_a_cluster(tmp_path: Path) -> None:
    script = f"""
import asyncio, sys
from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config

async def story():
    node = await Node.open(broker_config({{"data.dir": {str(tmp_path / "d")!r}}}))
    await node.announce("h", 1, 1)
    await node.close()

asyncio.run(story())
print([m for m in sys.modules if m.startswith(("grpc", "goqueue.metadata.etcd"))])
print([m for m in sys.modules if m.startswith(("goqueue.broker.cluster", "goqueue.broker.contr"))])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "[]\n[]\n"
