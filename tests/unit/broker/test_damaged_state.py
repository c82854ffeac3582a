"""One flipped bit in an internal topic takes one shard offline, and nothing else."""

import asyncio
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.model.companions import DELAYED, companion_of
from goqueue.model.errors import GoQueueError, PartitionOffline
from goqueue.model.groups.messages import ListGroups, OffsetCommit, OffsetFetch, OffsetToCommit
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.storage.disk import Disk
from goqueue.storage.mending.checking import DamagedLog, check_folder
from goqueue.storage.mending.mending import mend
from tests.callers import ANYONE
from tests.publishing import publish
from tests.unit.broker.conftest import OpenBroker

GROUPS = [f"group-{number}" for number in range(12)]
PARTITIONS = 4
SETTINGS = {
    "offsets__topic__num__partitions": str(PARTITIONS),
}


def _damage(folder: Path) -> None:
    """In the first batch, with others behind it."""
    [log] = folder.glob("*.log")
    content = bytearray(log.read_bytes())
    content[90] ^= 4
    log.write_bytes(content)


def _remove_index(folder: Path) -> None:
    """It would spare the broker the reading."""
    for path in folder.iterdir():
        if path.suffix not in (".log", ".json"):
            path.unlink()


async def _commit(broker: Node, group: str, offset: int) -> None:
    wanted = OffsetToCommit(topic="t", partition=0, offset=offset)
    service = BrokerService(broker)
    await service.groups.commit(ANYONE, OffsetCommit(group_id=group, offsets=(wanted,)))


async def _committed(broker: Node, group: str) -> int:
    request = OffsetFetch(group_id=group, topics={"t": [0]})
    fetched = await BrokerService(broker).groups.fetch_offsets(ANYONE, request)
    return fetched.offsets[0].offset


@pytest.mark.parametrize("is_clean", [True, False])
def test_groups_of_other_shards_go_on(
    open_broker: OpenBroker, tmp_path: Path, is_clean: bool
) -> None:
    async def scenario() -> None:
        async with open_broker(**SETTINGS) as broker:
            service = BrokerService(broker)
            await service.topics.create(ANYONE, NewTopic(name="t", partitions=1))
            await publish(broker, "t", [NewRecord(value=b"x")])
            for offset in (0, 1):
                for group in GROUPS:
                    await _commit(broker, group, offset)
            shards = {group: broker.groups.state.partition_for(group) for group in GROUPS}
        broken = shards[GROUPS[0]]
        lost = [group for group in GROUPS if shards[group] == broken]
        kept = [group for group in GROUPS if shards[group] != broken]
        assert kept
        folder = tmp_path / "data" / "logs" / f"__consumer_offsets-{broken}"
        _damage(folder)
        if not is_clean:
            (tmp_path / "data" / "clean-shutdown").unlink()

        async with open_broker(**SETTINGS) as broker:
            [offline] = broker.hosted.offline.items()
            assert offline[0] == ("__consumer_offsets", broken)
            assert "goqueue data check" in offline[1]
            for group in lost:
                with pytest.raises(PartitionOffline, match="its state cannot be read"):
                    await _commit(broker, group, 1)
            for group in kept:
                assert await _committed(broker, group) == 1
                await _commit(broker, group, 0)
            listed = await BrokerService(broker).groups.list(ANYONE, ListGroups())
            assert sorted(each.group_id for each in listed) == sorted(kept)
            # Messages have nothing to do with it.
            await publish(broker, "t", [NewRecord(value=b"y")])

        disk = Disk()
        [found] = check_folder(disk, folder, None)
        assert isinstance(found, DamagedLog)
        mend(disk, found)
        async with open_broker(**SETTINGS) as broker:
            assert not broker.hosted.offline
            for group in lost:
                assert await _committed(broker, group) == 1

    asyncio.run(scenario())


def test_delayed_messages_of_other_shards_go_on(open_broker: OpenBroker, tmp_path: Path) -> None:
    async def schedule(broker: Node, partition: int) -> None:
        due_ms = broker.clock_ms() + 3_600_000
        [outcome] = await BrokerService(broker).publishing.publish(
            ANYONE, "t", [NewRecord(value=b"x")], [due_ms], partitions=[partition]
        )
        if isinstance(outcome, GoQueueError):
            raise outcome

    async def scenario() -> None:
        partitions = 8
        async with open_broker(**SETTINGS) as broker:
            await BrokerService(broker).topics.create(
                ANYONE, NewTopic(name="t", partitions=partitions)
            )
            for _ in range(2):
                for index in range(partitions):
                    await schedule(broker, index)
            kept_in = companion_of(DELAYED, broker.topic("t").id)
        broken = 3
        folder = tmp_path / "data" / "logs" / f"{kept_in}-{broken}"
        _damage(folder)
        _remove_index(folder)
        async with open_broker(**SETTINGS) as broker:
            assert list(broker.hosted.offline) == [(kept_in, broken)]
            listed = await BrokerService(broker).delays.list_pending(ANYONE, "t")
            assert len(listed.messages) == 2 * (partitions - 1)
            for index in range(partitions):
                if index == broken:
                    with pytest.raises(PartitionOffline):
                        await schedule(broker, index)
                else:
                    await schedule(broker, index)

    asyncio.run(scenario())


@pytest.mark.parametrize("nonsense", [b"\x01", b"\xff" * 9, b""])
def test_records_of_another_release_take_one_shard_offline(
    open_broker: OpenBroker, tmp_path: Path, nonsense: bytes
) -> None:
    """Their checksums are right: it is what was written, and nobody knows what it means."""

    async def scenario() -> None:
        async with open_broker(**SETTINGS) as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t", partitions=1))
            for group in GROUPS:
                await _commit(broker, group, 0)
            await BrokerService(broker).publishing.publish(
                ANYONE, "t", [NewRecord(value=b"x")], [broker.clock_ms() + 3_600_000]
            )
            broken = broker.groups.state.partition_for(GROUPS[0])
            kept = [each for each in GROUPS if broker.groups.state.partition_for(each) != broken]
            waiting = companion_of(DELAYED, broker.topic("t").id)
            for topic, index in (("__consumer_offsets", broken), (waiting, 0)):
                record = NewRecord(key=nonsense, value=nonsense)
                broker.partition(topic, index).append_own(encode_records([record], now_ms=1))
        _remove_index(tmp_path / "data" / "logs" / f"{waiting}-0")

        async with open_broker(**SETTINGS) as broker:
            offline = broker.hosted.offline
            assert set(offline) == {("__consumer_offsets", broken), (waiting, 0)}
            assert all("a record makes no sense" in reason for reason in offline.values())
            for group in kept:
                assert await _committed(broker, group) == 0
            await publish(broker, "t", [NewRecord(value=b"y")])

    asyncio.run(scenario())
