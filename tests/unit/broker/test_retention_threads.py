"""Where the work of retention is done that waits for the disk."""

import asyncio
import random
import threading
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.broker.partitions.retention import apply_retention
from goqueue.model.aborted import AbortedTransaction
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
        self.syncing: list[int] = []

    def fdatasync(self, fd: int) -> None:
        self.syncing.append(threading.get_ident())
        super().fdatasync(fd)

    def fsync_dir(self, path: Path) -> None:
        self.syncing.append(threading.get_ident())
        super().fsync_dir(path)

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
        await apply_retention(partition.hosted, broker.groups_anywhere)
        await partition.hosted.purge_deleted()
        deleted, disk.unlinking = disk.unlinking, []
        assert partition.log_start_offset == 4
        assert deleted
        assert threading.get_ident() not in deleted
        await broker.close()

    asyncio.run(scenario())


def test_the_loop_does_not_wait_for_syncs_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.storage.aborted.REWRITE_AT_LEAST", 1)
    disk = DiskThatNotesThreads()
    settings = {"segment.bytes": "200", "retention.ms": "1000", "fsync.policy": "never"}

    async def scenario() -> None:
        broker = await Node.open(broker_config({"data.dir": str(tmp_path / "data")}), disk=disk)
        service = BrokerService(broker)
        topic = NewTopic(name="orders", partitions=1, config=settings)
        await service.topics.create(ANYONE, topic)
        partition = broker.partition("orders", 0)
        for number in range(6):
            await publish(broker, "orders", [NewRecord(value=b"x" * 100, timestamp_ms=1)])
            partition.ledger.aborted.append(AbortedTransaction(number, number, number, number))
            partition.log.epochs.assign(10 + number, number + 1)
        disk.syncing.clear()
        await service.log.delete_records(ANYONE, "orders", 0, 2)
        assert disk.syncing
        await apply_retention(partition.hosted, broker.groups_anywhere)
        await partition.hosted.purge_deleted()
        assert partition.log_start_offset == 6
        assert len(partition.ledger.aborted) == 0
        assert partition.log.epochs.entries[0].start_offset == 6
        assert threading.get_ident() not in disk.syncing
        await broker.close()

    asyncio.run(scenario())


def test_records_are_deleted_up_to_the_highest_of_several_offsets(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = broker_config({"data.dir": str(tmp_path / "data")})
        broker = await Node.open(config)
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name="orders", partitions=1))
        for _ in range(20):
            await publish(broker, "orders", [NewRecord(value=b"x")])
        delete = broker.partition("orders", 0).delete_records
        offsets = random.Random(1).sample(range(1, 20), 15)
        starts = await asyncio.gather(*(delete(offset) for offset in offsets))
        assert all(start >= offset for start, offset in zip(starts, offsets, strict=True))
        assert broker.partition("orders", 0).log_start_offset == max(offsets)
        await broker.close()
        broker = await Node.open(config)
        assert broker.partition("orders", 0).log_start_offset == max(offsets)
        await broker.close()

    asyncio.run(scenario())
