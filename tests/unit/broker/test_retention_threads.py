"""Where the work of retention is done that waits for the disk."""

import asyncio
import threading
from pathlib import Path

from goqueue.broker.node import Node
from goqueue.broker.partitions.retention import apply_retention
from goqueue.model.broker_config import broker_config
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.storage.disk import Disk
from tests.callers import ANYONE
from tests.publishing import publish


class DiskThatNotesThreads(Disk):
    def __init__(self) -> None:
        super().__init__()
        self.unlinking: list[int] = []

    def unlink(self, path: Path) -> None:
        self.unlinking.append(threading.get_ident())
        super().unlink(path)


def test_files_are_deleted_off_the_event_loop(tmp_path: Path) -> None:
    disk = DiskThatNotesThreads()
    settings = {"segment.bytes": "200", "retention.ms": "1000", "file.delete.delay.ms": "0"}

    async def scenario() -> None:
        broker = await Node.open(broker_config({"data.dir": str(tmp_path / "data")}), disk=disk)
        topic = NewTopic(name="orders", partitions=1, config=settings)
        await BrokerService(broker).topics.create(ANYONE, topic)
        for _ in range(4):
            await publish(broker, "orders", [NewRecord(value=b"x" * 100, timestamp_ms=1)])
        partition = broker.partition("orders", 0)
        disk.unlinking.clear()
        await apply_retention(partition, broker.groups)
        await partition.purge_deleted()
        deleted, disk.unlinking = disk.unlinking, []
        assert partition.log_start_offset == 4
        assert deleted
        assert threading.get_ident() not in deleted
        await broker.close()

    asyncio.run(scenario())
