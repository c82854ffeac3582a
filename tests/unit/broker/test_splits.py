"""Topics that are split on a broker with real logs: what is stored, who is refused, who waits."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from goqueue.broker.node import Node
from goqueue.broker.topics.parent_ends import end_of_messages
from goqueue.metadata.store import Op, Put
from goqueue.model.configs import ConfigResource, ConfigResourceKind
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import Conflict, InvalidPartitions, LayoutChanged, UnknownPartition
from goqueue.model.layouts import LAYOUT_SETTING, splits_in
from goqueue.model.partitioner import partition_for_key
from goqueue.model.queues.messages import AckAction, Start
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import settle_all
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.rights import DeletableGroup
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.state import metadata_keys as keys
from tests.callers import ANYONE
from tests.publishing import publish
from tests.queues import open_queues
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

SHORT = {"scale__drain__ms": "100"}
LONG = {"scale__drain__ms": "3600000"}
WAIT_S = 20.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Client:
    """Stands for a connection."""


def moving_key(before: int, after: int) -> bytes:
    """One that another partition gets by the split."""
    return next(
        key
        for key in (b"key-%d" % number for number in range(1_000))
        if partition_for_key(key, before) != partition_for_key(key, after)
    )


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0.01)


def is_settled(broker: Node) -> bool:
    return not broker.topic("t").splits[-1].is_draining


async def make(broker: Node, partitions: int = 1, **config: str) -> BrokerService:
    service = BrokerService(broker)
    texts = {name.replace("_", "."): text for name, text in config.items()}
    await service.topics.create(ANYONE, NewTopic(name="t", partitions=partitions, config=texts))
    return service


async def test_a_topic_is_split_and_its_parents_end(open_broker: OpenBroker) -> None:
    async with open_broker(**SHORT) as broker:
        service = await make(broker, partitions=2)
        for number in range(20):
            await publish(broker, "t", [NewRecord(key=b"%d" % number, value=b"before")])
        ends = {index: broker.partition("t", index).log_end_offset for index in range(2)}
        split = await service.topics.split(ANYONE, "t", 6)
        assert len(split.partitions) == 6
        assert split.splits[-1].is_draining
        with pytest.raises(Conflict, match="being split into 6"):
            await service.topics.split(ANYONE, "t", 12)
        await until(lambda: is_settled(broker))
        assert broker.topic("t").splits[-1].ends == ends
        for number in range(20):
            key = b"%d" % number
            [stored] = await publish(broker, "t", [NewRecord(key=key, value=b"after")])
            assert stored.partition % 2 == partition_for_key(key, 2)
        described = service.administration.describe_config(
            ANYONE, ConfigResource(ConfigResourceKind.TOPIC, "t")
        )
        [layout] = [entry for entry in described if entry.name == LAYOUT_SETTING]
        assert splits_in(layout.value) == broker.topic("t").splits
        assert layout.read_only


async def test_other_counts_are_for_those_who_say_so(open_broker: OpenBroker) -> None:
    async with open_broker(**SHORT) as broker:
        service = await make(broker, partitions=2)
        with pytest.raises(InvalidPartitions, match="such as 4"):
            await service.topics.create_partitions(ANYONE, "t", 3)
        with pytest.raises(InvalidPartitions, match="such as 4"):
            await service.topics.create_partitions(ANYONE, "t", 3, validate_only=True)
        await service.topics.create(
            ANYONE, NewTopic(name="plain", partitions=2, config={"partition.growth": "plain"})
        )
        await service.topics.create_partitions(ANYONE, "plain", 3)
        assert broker.topic("plain").splits == ()
        await service.topics.split(ANYONE, "plain", 6)
        assert broker.topic("plain").splits[-1].is_draining


async def test_settings_that_are_changed_keep_the_layout(open_broker: OpenBroker) -> None:
    async with open_broker(**SHORT) as broker:
        service = await make(broker)
        await service.topics.split(ANYONE, "t", 2)
        await until(lambda: is_settled(broker))
        await service.administration.replace_config(
            ANYONE, ConfigResource(ConfigResourceKind.TOPIC, "t"), {"retention.ms": "77"}
        )
        assert broker.topic("t").splits[-1].ends == {0: 0}


async def test_a_split_that_was_not_over_goes_on_after_a_restart(open_broker: OpenBroker) -> None:
    async with open_broker(**LONG) as broker:
        service = await make(broker)
        await publish(broker, "t", [NewRecord(value=b"x")])
        split = await service.topics.split(ANYONE, "t", 2)
    async with open_broker(**LONG) as broker:
        # How long it takes was said when it began.
        assert broker.topic("t").splits == split.splits
        assert len(broker.topic("t").partitions) == 2
        with pytest.raises(Conflict):
            await BrokerService(broker).topics.split(ANYONE, "t", 4)


async def test_each_connection_is_refused_for_a_moment(open_broker: OpenBroker) -> None:
    async with open_broker(**LONG) as broker:
        service = await make(broker)

        async def produce(client: Client | None, acks: int = 1) -> None:
            records = encode_records([NewRecord(value=b"x")], now_ms=broker.clock_ms())
            await service.log.produce(
                ANYONE, "t", 0, records, acks=acks, timeout_ms=1_000, connection=client
            )

        old, new = Client(), Client()
        await produce(old)
        await service.topics.split(ANYONE, "t", 2)
        # Not before all brokers should have heard of it.
        await produce(old)
        await asyncio.sleep(1.1)
        for client in (old, new):
            with pytest.raises(LayoutChanged, match="was split"):
                await produce(client)
        # Who could not be told is not refused, nor who asks the broker for the partition.
        await produce(Client(), acks=0)
        await produce(None)

        async def taken() -> None:
            while True:
                try:
                    return await produce(old)
                except LayoutChanged:
                    await asyncio.sleep(0.01)

        await asyncio.wait_for(taken(), WAIT_S)
        await produce(old)


async def test_what_was_sent_behind_a_refused_batch_does_not_overtake_it(
    open_broker: OpenBroker,
) -> None:
    """However late it comes: nobody knows the producer here, and it may begin with any number. Its
    client would take the refused batch for stored."""
    async with open_broker(**LONG) as broker:
        service = await make(broker)
        client = Client()

        async def produce(index: int, sequence: int) -> None:
            records = encode_records(
                [NewRecord(value=b"%d" % sequence)],
                now_ms=broker.clock_ms(),
                producer_id=7,
                producer_epoch=0,
                base_sequence=sequence,
            )
            await service.log.produce(
                ANYONE, "t", index, records, acks=1, timeout_ms=1_000, connection=client
            )

        await service.topics.split(ANYONE, "t", 2)
        await asyncio.sleep(1.1)
        with pytest.raises(LayoutChanged, match="was split"):
            await produce(0, 0)
        await asyncio.sleep(0.1)
        with pytest.raises(LayoutChanged, match="sent sequence 1 behind 0"):
            await produce(0, 1)
        for sequence in range(3):
            await produce(0, sequence)
        assert broker.partition("t", 0).log_end_offset == 3


async def test_nor_a_batch_that_came_before_its_partition(open_broker: OpenBroker) -> None:
    """A client may hear of a split before the leader of a child does."""
    async with open_broker(**LONG) as broker:
        service = await make(broker)

        async def produce(sequence: int) -> None:
            records = encode_records(
                [NewRecord(value=b"%d" % sequence)],
                now_ms=broker.clock_ms(),
                producer_id=7,
                producer_epoch=0,
                base_sequence=sequence,
            )
            await service.log.produce(ANYONE, "t", 1, records, acks=1, timeout_ms=1_000)

        with pytest.raises(UnknownPartition):
            await produce(0)
        await service.topics.split(ANYONE, "t", 2)
        with pytest.raises(UnknownPartition, match="sent sequence 1 behind 0"):
            await produce(1)
        for sequence in range(3):
            await produce(sequence)
        assert broker.partition("t", 1).log_end_offset == 3


async def test_who_writes_to_a_child_is_not_refused(open_broker: OpenBroker) -> None:
    async with open_broker(**LONG) as broker:
        service = await make(broker)
        await service.topics.split(ANYONE, "t", 2)
        await asyncio.sleep(1.1)
        client = Client()
        records = encode_records([NewRecord(value=b"x")], now_ms=broker.clock_ms())
        for index in (1, 0):
            await service.log.produce(
                ANYONE, "t", index, bytes(records), acks=1, timeout_ms=1_000, connection=client
            )


async def test_a_parent_ends_behind_its_last_message(open_broker: OpenBroker) -> None:
    """Readers commit no further, whatever markers of transactions stand behind it."""
    async with open_broker(**SHORT) as broker:
        await make(broker)
        log = broker.partition("t", 0).log
        assert end_of_messages(log, log.log_end_offset) == 0
        await publish(broker, "t", [NewRecord(value=b"x")] * 3)
        for epoch in range(100):
            broker.partition("t", 0).append_marker(
                Marker(MarkerType.ABORT, 0),
                producer_id=7,
                producer_epoch=epoch,
                bumps_epoch=True,
            )
        assert log.log_end_offset == 103
        assert end_of_messages(log, 103) == 3
        assert end_of_messages(log, 2) == 2


async def test_readers_do_not_wait_for_what_was_aborted_after_the_split(
    open_broker: OpenBroker,
) -> None:
    """Nor for anything else that they never see, and so never commit."""
    async with open_broker(**SHORT) as broker:
        service = await make(broker)
        await publish(broker, "t", [NewRecord(value=b"x")] * 2)
        partition = broker.partition("t", 0)
        partition.append_own(
            encode_records(
                [NewRecord(value=b"void")] * 3,
                now_ms=broker.clock_ms(),
                is_transactional=True,
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
            )
        )
        await service.topics.split(ANYONE, "t", 2)
        await until(lambda: is_settled(broker))
        await broker.draining.ends.look_again()
        assert broker.topic("t").splits[-1].ends == {0: 5}, "it may be committed"
        partition.append_marker(
            Marker(MarkerType.ABORT, 0), producer_id=7, producer_epoch=0, bumps_epoch=False
        )
        await broker.draining.ends.look_again()
        assert broker.topic("t").splits[-1].ends == {0: 2}


async def test_readers_do_not_wait_for_what_was_deleted(open_broker: OpenBroker) -> None:
    async with open_broker(**SHORT) as broker:
        service = await make(broker)
        await publish(broker, "t", [NewRecord(value=b"x")] * 3)
        await service.topics.split(ANYONE, "t", 2)
        await until(lambda: is_settled(broker))
        await service.log.delete_records(ANYONE, "t", 0, 2)
        await broker.draining.ends.look_again()
        assert broker.topic("t").splits[-1].ends == {0: 3}
        await service.log.delete_records(ANYONE, "t", 0, 3)
        await publish(broker, "t", [NewRecord(value=b"x")] * 3)
        await broker.draining.ends.look_again()
        assert broker.topic("t").splits[-1].ends == {0: 0}


async def test_readers_do_not_wait_for_what_a_power_cut_took(open_broker: OpenBroker) -> None:
    """The metadata are always on disk, the last messages need not be."""
    async with open_broker(**SHORT) as broker:
        service = await make(broker)
        await publish(broker, "t", [NewRecord(value=b"x")] * 3)
        await service.topics.split(ANYONE, "t", 2)
        await until(lambda: is_settled(broker))
        key = keys.topic_key("t")

        def beyond_the_log(found: bytes | None) -> list[Op]:
            assert found is not None
            value = keys.decode_value(key, found, keys.TopicValue)
            splits = tuple(replace(split, ends={0: 9}) for split in value.splits)
            return [Put(*keys.topic_entry("t", keys.with_splits(value, splits)))]

        await broker.changes.change(key, beyond_the_log)
        assert broker.topic("t").splits[-1].ends == {0: 9}
        await broker.draining.ends.look_again()
        assert broker.topic("t").splits[-1].ends == {0: 3}


# --- queues -------------------------------------------------------------------------------


async def received(service: BrokerService, group: str = "g", wait_ms: int = 0) -> list[bytes]:
    request = Receive(max_messages=10, wait_ms=wait_ms)
    found = await service.queues.receive(ANYONE, group, "t", request)
    return [each.record.value or b"" for each in found]


@pytest.mark.parametrize("start", ["earliest", "latest"])
async def test_a_queue_of_a_child_waits_for_its_parent(
    open_broker: OpenBroker, start: Start
) -> None:
    async with open_broker(**SHORT) as broker:
        service = await make(broker)
        key = moving_key(1, 2)
        await open_queues(broker, "g", "t", start=start)
        await publish(broker, "t", [NewRecord(key=key, value=b"%d" % n) for n in range(2)])
        await service.topics.split(ANYONE, "t", 2)
        await until(lambda: is_settled(broker))
        await publish(broker, "t", [NewRecord(key=key, value=b"2")])
        assert broker.partition("t", 1).log_end_offset == 1
        await open_queues(broker, "g", "t", start=start)
        request = Receive(max_messages=10)
        found = await service.queues.receive(ANYONE, "g", "t", request)
        assert [each.record.value for each in found] == [b"0", b"1"]
        for _ in range(5):
            assert await received(service) == []
            await asyncio.sleep(0.05)
        waiting = asyncio.create_task(received(service, wait_ms=10_000))
        receipts = [each.receipt for each in found]
        for receipt in receipts:
            assert not waiting.done()
            await service.queues.settle(ANYONE, "g", settle_all([receipt], AckAction.ACCEPT))
        assert await waiting == [b"2"]


async def test_a_group_that_begins_later_begins_where_it_wants(open_broker: OpenBroker) -> None:
    async with open_broker(**SHORT) as broker:
        service = await make(broker)
        key = moving_key(1, 2)
        await publish(broker, "t", [NewRecord(key=key, value=b"old")])
        await service.topics.split(ANYONE, "t", 2)
        await until(lambda: is_settled(broker))
        await publish(broker, "t", [NewRecord(key=key, value=b"newer")])
        await open_queues(broker, "g", "t", start="latest")
        await publish(broker, "t", [NewRecord(key=key, value=b"newest")])
        assert await received(service, wait_ms=10_000) == [b"newest"]


async def test_a_group_that_is_deleted_begins_with_parents_again(open_broker: OpenBroker) -> None:
    async with open_broker(**SHORT) as broker:
        service = await make(broker)
        key = moving_key(1, 2)
        await publish(broker, "t", [NewRecord(key=key, value=b"old")])
        await service.topics.split(ANYONE, "t", 2)
        await until(lambda: is_settled(broker))
        await publish(broker, "t", [NewRecord(key=key, value=b"new")])
        for _ in range(2):
            await open_queues(broker, "g", "t")
            found = await service.queues.receive(ANYONE, "g", "t", Receive(max_messages=10))
            assert [each.record.value for each in found] == [b"old"]
            wanted = settle_all([each.receipt for each in found], AckAction.ACCEPT)
            await service.queues.settle(ANYONE, "g", wanted)
            assert await received(service, wait_ms=10_000) == [b"new"]
            await broker.queues.delete(DeletableGroup("g"))
