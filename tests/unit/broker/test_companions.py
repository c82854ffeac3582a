"""State that is kept with the topic it belongs to."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.broker.own_grants import own_state
from goqueue.model.broker_config import broker_config
from goqueue.model.companions import DELAYED, KINDS, QUEUE_STATE, companion_of, kind_and_owner
from goqueue.model.configs import ConfigChange, ConfigResource, ConfigResourceKind
from goqueue.model.errors import (
    PolicyViolation,
    UnknownDelayedMessage,
    UnknownQueue,
    UnknownTopicId,
)
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.receipts import Receipt
from goqueue.model.queues.settling import Settlement
from goqueue.model.topics import NewTopic, is_internal
from goqueue.service.broker_service import BrokerService
from goqueue.storage.disk import Disk
from tests.callers import ANYONE
from tests.unit.broker import delay_bench
from tests.unit.broker.conftest import OpenBroker
from tests.unit.broker.test_queues import acknowledge, make_topic, publish, receive, values


def test_names_of_companions_are_internal_and_say_to_whom_they_belong(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            topic_id = broker.topic("t").id
            for kind in KINDS:
                name = companion_of(kind, topic_id)
                assert kind_and_owner(name) == (kind, topic_id)
                assert is_internal(name)
                with pytest.raises(PolicyViolation):
                    await BrokerService(broker).topics.create(ANYONE, NewTopic(name=name))
            for other in ("t", QUEUE_STATE, f"{QUEUE_STATE}.t", f"x{name}", f"{name}0"):
                assert kind_and_owner(other) is None

    asyncio.run(scenario())


def test_a_companion_grows_and_goes_with_its_topic(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, partitions=2)
            name = companion_of(QUEUE_STATE, broker.topic("t").id)

            async def ensure() -> int:
                owner = broker.topic("t")
                await broker.topics.ensure_companion(own_state(name), owner, config={})
                return len(broker.topic(name).partitions)

            assert [await ensure(), await ensure()] == [2, 2]
            topics = BrokerService(broker).topics
            await topics.create_partitions(ANYONE, "t", 4)
            assert await ensure() == 4
            await topics.delete(ANYONE, "t")
            assert not broker.image.topics.keys() & {"t", name}

    asyncio.run(scenario())


def test_queues_are_kept_with_their_topic(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, partitions=2)
            await publish(broker, b"one", b"two", b"three")
            first, *others = await receive(broker)
            assert len(others) == 2
            await acknowledge(broker, first, AckAction.ACCEPT)
            kept = companion_of(QUEUE_STATE, broker.topic("t").id)
            assert QUEUE_STATE not in broker.image.topics
            partitions = [broker.partition(kept, index) for index in range(2)]
            assert all(partition.log_end_offset for partition in partitions)
        async with open_broker() as broker:
            assert sorted(filter(None, values(await receive(broker)))) == sorted(
                delivery.record.value or b"" for delivery in others
            )
            await BrokerService(broker).topics.delete(ANYONE, "t")
            assert broker.queues.registry.list_queues() == []

    asyncio.run(scenario())


def test_who_only_looks_makes_no_companion(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, partitions=2)
            service = BrokerService(broker)
            described = await service.queues.describe(ANYONE, "g", "t")
            assert [each.error for each in described] == [QueueError.UNKNOWN_QUEUE] * 2
            receipt = Receipt("t", 0, 0, 1, 1)
            wanted = [Settlement(receipt, AckAction.ACCEPT, None)]
            [refused] = await service.queues.settle(ANYONE, "g", wanted)
            assert isinstance(refused, UnknownQueue)
            assert (await service.delays.list_pending(ANYONE, "t")).messages == []
            with pytest.raises(UnknownDelayedMessage):
                await service.delays.cancel(ANYONE, "t", "5-0-0")
            assert set(broker.image.topics) == {"t"}

    asyncio.run(scenario())


def test_a_companion_of_a_topic_that_is_gone_is_not_made(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            owner = broker.topic("t")
            name = companion_of(QUEUE_STATE, owner.id)
            await BrokerService(broker).topics.delete(ANYONE, "t")
            with pytest.raises(UnknownTopicId):
                await broker.topics.ensure_companion(own_state(name), owner, config={})
            # Of the same name, but another one.
            await make_topic(broker)
            with pytest.raises(UnknownTopicId):
                await broker.topics.ensure_companion(own_state(name), owner, config={})
            assert set(broker.image.topics) == {"t"}

    asyncio.run(scenario())


def test_companions_take_no_room_of_other_topics(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(max__partitions__per__broker="2") as broker:
            await make_topic(broker, partitions=1)
            await publish(broker, b"one")
            assert values(await receive(broker)) == [b"one"]
            topics = BrokerService(broker).topics
            await topics.create(ANYONE, NewTopic(name="u", partitions=1))
            with pytest.raises(PolicyViolation, match="2 there are"):
                await topics.create(ANYONE, NewTopic(name="v", partitions=1))

    asyncio.run(scenario())


def test_delayed_messages_wait_with_the_topic_they_go_to(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = delay_bench.Clock()
        topic = delay_bench.TOPIC
        async with delay_bench.running(tmp_path, clock) as broker:
            await delay_bench.with_topic(broker, partitions=2)
            due = clock.now_ms + 1_000
            for index in range(2):
                record = delay_bench.message(b"%d" % index)
                await delay_bench.schedule(broker, topic, index, [(record, due)])
            cancelled = delay_bench.message(b"never")
            [message] = await delay_bench.schedule(broker, topic, 1, [(cancelled, due)])
            assert message.shard == 1
            assert len((await delay_bench.list_pending(broker, topic)).messages) == 3
            await delay_bench.cancel(broker, topic, str(message))
            assert DELAYED not in broker.image.topics
            kept = companion_of(DELAYED, broker.topic(topic).id)
            assert [p.index for p in broker.topic(kept).partitions] == [0, 1]
        async with delay_bench.running(tmp_path, clock) as broker:
            assert len((await delay_bench.list_pending(broker, topic)).messages) == 2
            await delay_bench.advance(broker, clock, 2_000)
            for index in range(2):
                await delay_bench.until_end(broker, 1, index)
                assert await delay_bench.values(broker, index) == [b"%d" % index]
            await BrokerService(broker).topics.delete(ANYONE, topic)
            assert list(broker.delays.shards.running()) == []

    asyncio.run(scenario())


def test_commits_of_a_companion_are_as_safe_as_those_of_its_topic(
    open_broker: OpenBroker,
) -> None:
    def topic(name: str) -> ConfigResource:
        return ConfigResource(ConfigResourceKind.TOPIC, name)

    def policies(broker: Node) -> set[tuple[str, int]]:
        names = [companion_of(QUEUE_STATE, broker.topic("t").id), "t"]
        configs = [broker.partition(name, 0).config for name in names]
        return {(config.fsync_policy, config.flush_ms) for config in configs}

    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, fsync_policy="always")
            await publish(broker, b"one")
            assert values(await receive(broker)) == [b"one"]
            administration = BrokerService(broker).administration

            async def change(name: str, **texts: str) -> None:
                changes = [
                    ConfigChange(name=setting.replace("_", "."), value=text)
                    for setting, text in texts.items()
                ]
                await administration.alter_config(ANYONE, topic(name), changes)

            assert policies(broker) == {("always", 1_000)}
            await change("t", fsync_policy="interval", flush_ms="77")
            assert policies(broker) == {("interval", 77)}
            await administration.replace_config(ANYONE, topic("t"), {"fsync.policy": "never"})
            assert policies(broker) == {("never", 1_000)}
            name = companion_of(QUEUE_STATE, broker.topic("t").id)
            entries = {
                each.name: each for each in administration.describe_config(ANYONE, topic(name))
            }
            assert entries["fsync.policy"].value == "never"
            assert entries["cleanup.policy"].value == "compact"
            with pytest.raises(PolicyViolation, match="belongs to"):
                await change(name, fsync_policy="always")
            await change(name, segment_bytes="1000000")
            await change("t", fsync_policy="always")
        async with open_broker() as broker:
            assert policies(broker) == {("always", 1_000)}

    asyncio.run(scenario())


class SyncingDisk(Disk):
    """Knows how much of each file was synced."""

    def __init__(self) -> None:
        super().__init__()
        self.synced_bytes: dict[str, int] = {}

    def fdatasync(self, fd: int) -> None:
        size_bytes = os.fstat(fd).st_size
        super().fdatasync(fd)
        self.synced_bytes[str(Path(f"/proc/self/fd/{fd}").readlink())] = size_bytes

    def cut_power(self, folder: Path, left: Path) -> None:
        """What a cut may leave: of logs what was synced, and no more."""
        shutil.copytree(folder, left)
        for file in left.rglob("*.log"):
            was = folder / file.relative_to(left)
            os.truncate(file, min(self.synced_bytes.get(str(was), 0), file.stat().st_size))


def test_what_was_acknowledged_stays_so_in_a_power_cut(tmp_path: Path) -> None:
    async def opened(folder: Path, disk: Disk) -> Node:
        broker = await Node.open(broker_config({"data.dir": str(folder)}), disk=disk)
        await broker.announce("127.0.0.1", 9092, 8080)
        return broker

    async def scenario() -> None:
        disk = SyncingDisk()
        broker = await opened(tmp_path / "data", disk)
        try:
            await make_topic(broker, fsync_policy="always")
            await publish(broker, b"done", b"not done")
            first, _ = await receive(broker)
            assert await acknowledge(broker, first, AckAction.ACCEPT) is QueueError.NONE
            disk.cut_power(tmp_path / "data", tmp_path / "left")
        finally:
            await broker.close()
        broker = await opened(tmp_path / "left", Disk())
        try:
            assert values(await receive(broker)) == [b"not done"]
        finally:
            await broker.close()

    asyncio.run(scenario())
