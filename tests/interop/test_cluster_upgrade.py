"""A folder of a release that kept the queues and delays of all topics together joins a cluster."""

import asyncio
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.broker.delays import delivery as delay_delivery
from goqueue.broker.membership.adopting import adopt_folder
from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config
from goqueue.model.companions import KINDS, companion_of
from tests.busy_machine import stretched
from tests.etcd_server import EtcdServer
from tests.unit.broker.delay_bench import until
from tests.unit.broker.test_carry_over import Expected, check_delays, check_queues, on_restart
from tests.upgrades.make_earlier_data import ARCHIVE, JOBS, ORDERS


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    made = EtcdServer(tmp_path / "etcd")
    made.start()
    yield made
    made.stop()


def test_a_folder_of_an_earlier_release_is_adopted(
    etcd: EtcdServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_delivery, "FLUSH_PATIENCE_MS", 0)
    monkeypatch.setattr(delay_delivery, "SETTLE_MS", 1)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    expected: Expected = json.loads((tmp_path / "expected.json").read_text())
    config = broker_config(
        {
            "data.dir": str(tmp_path / "data"),
            "node.id": "7",
            "cluster": f"etcd://{etcd.endpoint}",
        }
    )

    async def story() -> None:
        await adopt_folder(config)
        clock = on_restart()
        node = await Node.open(config, clock_ms=clock)
        try:
            async with asyncio.timeout(stretched(60)):
                assert {*KINDS} <= node.image.topics.keys()
                await node.announce("127.0.0.1", 1, 1)
                await until(lambda: not {*KINDS} & node.image.topics.keys())
                for name in (JOBS, ORDERS):
                    owner = node.topic(name)
                    kept_in = [companion_of(kind, owner.id) for kind in KINDS]
                    for companion in filter(None, map(node.image.topics.get, kept_in)):
                        of_owner = [part.replicas for part in owner.partitions]
                        assert [part.replicas for part in companion.partitions] == of_owner
                await check_queues(node, expected)
                await check_delays(node, clock, expected)
        finally:
            await node.close()

    asyncio.run(story())
