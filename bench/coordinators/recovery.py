"""A million offset commits: how long a start takes with and without a snapshot."""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.bars import MET, NOT_MET, Bar
from bench.rounds import say
from goqueue.broker.groups.groups import Groups
from goqueue.broker.node import Node
from goqueue.model.broker_config import BrokerConfig, broker_config
from goqueue.model.caller import ANONYMOUS, Caller, Door
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit
from goqueue.model.topics import OFFSETS_TOPIC, NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.storage.snapshot_files import STATE

COMMITS: Final = 1_000_000
GROUPS: Final = 10
PARTITIONS: Final = 100
MIN_SPEEDUP: Final = 20.0


def measure_recovery() -> list[Bar]:
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> list[Bar]:
    config = broker_config({"data.dir": str(folder / "data"), "offsets.topic.num.partitions": "1"})
    await _commit(config)
    for snapshot in config.data_dir.rglob(f"*{STATE.suffix}"):
        snapshot.unlink()
    without_s = await _load_seconds(config, then_snapshot=True)
    with_s = await _load_seconds(config, then_snapshot=False)
    speedup = without_s / with_s
    say(f"    {without_s:.2f} s from the log, {with_s * 1000:.1f} ms from a snapshot")
    return [
        Bar(
            f"recovery of {COMMITS:,} offset commits ({GROUPS * PARTITIONS:,} offsets)",
            f"{MIN_SPEEDUP:.0f} times faster with a snapshot",
            f"{speedup:.0f} times ({without_s:.2f} s, {with_s * 1000:.1f} ms)",
            MET if speedup >= MIN_SPEEDUP else NOT_MET,
        )
    ]


_CLIENT: Final = Caller(principal=ANONYMOUS, door=Door.KAFKA)


async def _commit(config: BrokerConfig) -> None:
    broker = await Node.open(config)
    service = BrokerService(broker)
    try:
        await BrokerService(broker).topics.create(
            _CLIENT, NewTopic(name="read", partitions=PARTITIONS)
        )
        started = time.perf_counter()
        for offset in range(COMMITS // (GROUPS * PARTITIONS)):
            offsets = tuple(
                OffsetToCommit(topic="read", partition=partition, offset=offset)
                for partition in range(PARTITIONS)
            )
            for group in range(GROUPS):
                request = OffsetCommit(group_id=f"group-{group}", offsets=offsets)
                await service.groups.commit(_CLIENT, request)
        say(f"    {COMMITS / (time.perf_counter() - started):,.0f} commits/s in one process")
    finally:
        await broker.close()


async def _load_seconds(config: BrokerConfig, *, then_snapshot: bool) -> float:
    """From nothing to a group coordinator that answers."""
    broker = await Node.open(config)
    try:
        # A second coordinator on the open log: opening the log is not what is measured.
        groups = Groups(broker, config)
        started = time.perf_counter()
        await groups.state.start()
        took_s = time.perf_counter() - started
        if then_snapshot:
            await (await groups.state.shard(0)).snapshots.write()
        groups.state.close()
        assert broker.partition(OFFSETS_TOPIC, 0).log_end_offset >= COMMITS
        return took_s
    finally:
        await broker.close()
