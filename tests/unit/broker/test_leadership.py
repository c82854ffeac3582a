"""What rooms of the broker do when this node leads a partition, and when it no longer does."""

import asyncio
from pathlib import Path

import pytest

from goqueue.broker.calls.calls import Untouched
from goqueue.broker.leadership import Leadership
from goqueue.broker.node import Node
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.runtime import topic as runtime
from goqueue.model.companions import DELAYED, QUEUE_STATE, companion_of
from goqueue.model.errors import NotLeader, StateLoading
from goqueue.model.groups.messages import JoinGroup, MemberProtocol
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.queues.messages import AckAction
from goqueue.service.broker_service import BrokerService
from goqueue.state.machine import Outcome
from tests.callers import ANYONE
from tests.unit.broker import delay_bench
from tests.unit.broker.conftest import OpenBroker
from tests.unit.broker.test_queues import acknowledge, make_topic, publish, receive, values
from tests.unit.broker.test_schemas import AGE_OR_0, NAME, record
from tests.unit.broker.test_state_shard import TOPIC, Bench


async def lose(broker: Node, topic: str, index: int) -> HostedPartition:
    hosted = broker.partition(topic, index).hosted
    await hosted.stand_by(hosted.leader_epoch + 1)
    broker.leadership.lost(hosted.name)
    return hosted


def gain(broker: Node, hosted: HostedPartition) -> None:
    hosted.lead_alone(hosted.leader_epoch + 1)
    broker.leadership.gained(hosted.name)


class Rooms:
    """What rooms for partitions of any topic hear."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def partition_led(self, _place: TopicPartition) -> None:
        self.heard.append("led")

    def partition_lost(self, _place: TopicPartition) -> None:
        self.heard.append("lost")


class Led:
    """Nobody but its replica knows it: it is gone when that does not lead any more."""

    def __init__(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch


class Replica:
    name = topic_partition("t", 0)
    following = None

    def __init__(self) -> None:
        self.led: Led | None = None


def test_rooms_hear_of_each_leadership_and_of_its_end() -> None:
    rooms, replica = Rooms(), Replica()
    leadership = Leadership({}, [rooms])

    def change(led: Led | None) -> list[str]:
        rooms.heard.clear()
        replica.led = led
        leadership.role_changed(replica)  # type: ignore[arg-type]
        return list(rooms.heard)

    assert change(None) == []
    assert change(Led(1)) == ["led"]
    assert change(replica.led) == []
    assert change(None) == ["lost"]
    assert change(None) == []
    assert change(Led(3)) == ["led"]
    # Others may have led under epoch 4, of which this node heard nothing.
    assert change(Led(5)) == ["lost", "led"]


def test_a_shard_lives_as_long_as_its_partition_is_led(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            bench = Bench(broker)
            await bench.add(b"a", 2)
            index = bench.topic.partition_for("a")
            shard = await bench.topic.shard(index)
            never: asyncio.Task[int] = asyncio.create_task(shard.execute(lambda *_: Outcome()))
            await asyncio.sleep(0)
            hosted = broker.partition(TOPIC, index).hosted
            await hosted.stand_by(hosted.leader_epoch + 1)
            bench.topic.no_longer_led(bench.topic.place(index))
            with pytest.raises(NotLeader):
                await never
            with pytest.raises(NotLeader):
                await bench.get(b"a")
            # Also through what somebody still holds in the hand.
            with pytest.raises(NotLeader):
                await shard.execute(lambda machine, ticket, _: machine.get(b"a", ticket))
            assert shard not in await bench.topic.all_shards()
            hosted.lead_alone(hosted.leader_epoch + 1)
            bench.topic.led(bench.topic.place(index))
            assert await bench.get(b"a") == 2
            assert await bench.topic.shard(index) is not shard
            bench.topic.close()

    asyncio.run(scenario())


def test_a_new_leader_shows_nothing_before_what_it_found_is_committed(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LOAD_PATIENCE_S", 0.01)

    async def scenario() -> None:
        async with open_broker() as broker:
            bench = Bench(broker)
            await bench.add(b"a", 2)
            await bench.add(b"a", 3)
            index = bench.topic.partition_for("a")
            partition = broker.partition(TOPIC, index)
            end = partition.high_watermark
            partition._high_watermark = end - 1
            bench.topic.led(bench.topic.place(index))
            with pytest.raises(StateLoading):
                await bench.get(b"a")
            partition._advance(0)
            monkeypatch.setattr(runtime, "LOAD_PATIENCE_S", 60)
            assert await bench.get(b"a") == 5
            bench.topic.close()

    asyncio.run(scenario())


def test_who_waits_for_a_load_hears_that_the_leadership_is_gone(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            bench = Bench(broker)
            await bench.add(b"a", 2)
            index = bench.topic.partition_for("a")
            partition = broker.partition(TOPIC, index)
            partition._high_watermark = 0
            bench.topic.led(bench.topic.place(index))
            waiting = asyncio.create_task(bench.get(b"a"))
            await asyncio.sleep(0.01)
            await partition.hosted.stand_by(partition.leader_epoch + 1)
            bench.topic.no_longer_led(bench.topic.place(index))
            with pytest.raises(NotLeader):
                await waiting
            bench.topic.close()

    asyncio.run(scenario())


def test_members_that_wait_for_a_group_look_for_its_new_coordinator(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker(group__initial__rebalance__delay__ms="60000") as broker:
            groups = BrokerService(broker).groups
            request = JoinGroup(
                group_id="g",
                session_timeout_ms=30_000,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=(MemberProtocol(name="range", metadata=b""),),
                requires_known_member_id=False,
            )
            joining = asyncio.create_task(groups.join(ANYONE, request))
            place = broker.groups.offsets_partition("g")
            await delay_bench.until(
                lambda: any(
                    shard.machine.has_group("g") for shard in broker.groups.state.loaded_shards()
                )
            )
            await lose(broker, *place)
            with pytest.raises(NotLeader):
                await joining

    asyncio.run(scenario())


def test_a_queue_goes_on_where_its_last_leader_left_it(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"one", b"two")
            first, _ = await receive(broker)
            await acknowledge(broker, first, AckAction.ACCEPT)
            state = await lose(broker, companion_of(QUEUE_STATE, broker.topic("t").id), 0)
            with pytest.raises(NotLeader):
                await receive(broker)
            gain(broker, state)
            # What was out and is not settled is ready again.
            assert values(await receive(broker)) == [b"two"]

    asyncio.run(scenario())


def test_delayed_messages_are_delivered_by_whoever_leads_their_shard(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = delay_bench.Clock()
        async with delay_bench.running(tmp_path, clock) as broker:
            await delay_bench.with_topic(broker)
            due = clock.now_ms + 1_000
            record = delay_bench.message(b"later")
            await delay_bench.schedule(broker, delay_bench.TOPIC, 0, [(record, due)])
            kept_in = companion_of(DELAYED, broker.topic(delay_bench.TOPIC).id)
            shard = await lose(broker, kept_in, 0)
            with pytest.raises(Untouched):
                await delay_bench.schedule(broker, delay_bench.TOPIC, 0, [(record, due)])
            assert delay_bench.shards(broker) == []
            gain(broker, shard)
            await delay_bench.until(lambda: bool(delay_bench.shards(broker)))
            await delay_bench.advance(broker, clock, 2_000)
            await delay_bench.until_end(broker, 1)
            assert await delay_bench.values(broker) == [b"later"]

    asyncio.run(scenario())


def test_a_registry_that_was_led_before_goes_on_with_what_was_committed(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            schemas = BrokerService(broker).schemas
            await schemas.register(ANYONE, "users", record(NAME))
            await schemas.register(ANYONE, "users", record(NAME, AGE_OR_0))
            hosted = await lose(broker, "_schemas", 0)
            # The second was not committed, and is not what the next leader has.
            hosted.log.truncate_to(hosted.log.log_end_offset - 1)
            gain(broker, hosted)
            assert await versions(broker) == [1]

    asyncio.run(scenario())


async def versions(broker: Node) -> list[int]:
    return [
        version.number for version in (await broker.schemas.catalogues.loaded()).versions("users")
    ]
