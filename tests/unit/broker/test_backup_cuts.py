"""What a broker says of its logs for a backup, and what it puts off meanwhile."""

import asyncio

import pytest

from goqueue.broker.node import Node
from goqueue.broker.partitions.partition import Partition
from goqueue.model.errors import UnknownBackup
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.model.transactions.messages import EndTransaction, InitProducerId, ProducerIdentity
from goqueue.service.broker_service import BrokerService
from goqueue.state import metadata_keys as keys
from tests.callers import ANYONE
from tests.publishing import publish
from tests.unit.broker.conftest import OpenBroker
from tests.unit.broker.test_compaction import SELDOM, in_loop, make_topic
from tests.unit.broker.test_compaction import publish as publish_prices

TTL_MS = 60_000


@in_loop
async def test_a_cut_is_of_one_moment(open_broker: OpenBroker) -> None:
    async with open_broker() as broker:
        service = BrokerService(broker)
        made = await service.topics.create(ANYONE, NewTopic(name="orders", partitions=2))
        await publish(broker, "orders", [NewRecord(value=b"a")] * 3, partition=1)
        name = await service.backups.begin(ANYONE, TTL_MS)
        asked = asyncio.create_task(service.backups.cut(ANYONE, name, with_metadata=True))
        await asyncio.sleep(0)
        await publish(broker, "orders", [NewRecord(value=b"later")], partition=1)
        await service.topics.create(ANYONE, NewTopic(name="later", partitions=1))
        cut = await asked
        found = {(each.topic, each.partition): each for each in cut.partitions}
        assert {key: (each.start, each.end) for key, each in found.items()} == {
            ("orders", 0): (0, 0),
            ("orders", 1): (0, 3),
        }
        assert {each.topic_id for each in cut.partitions} == {made.topic.id}
        assert cut.metadata is not None
        topics = [key for key in cut.metadata if key.startswith(keys.TOPICS_PREFIX)]
        assert topics == [keys.topic_key("orders")]
        assert not cut.is_cluster
        await service.backups.end(ANYONE, name)
        with pytest.raises(UnknownBackup):
            await service.backups.cut(ANYONE, name, with_metadata=False)


@in_loop
async def test_nothing_is_compacted_while_it_is_copied(open_broker: OpenBroker) -> None:
    async with open_broker(**SELDOM) as broker:
        service = BrokerService(broker)
        await make_topic(broker)
        for number in range(60):
            await publish_prices(broker, (f"k{number % 5}", f"v{number}"))
        name = await service.backups.begin(ANYONE, TTL_MS)
        assert not await broker.compactor.compact_dirtiest()
        await service.backups.end(ANYONE, name)
        assert await broker.compactor.compact_dirtiest()


@in_loop
async def test_transactions_wait_while_cuts_are_taken_and_then_go_on(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as broker:
        service = BrokerService(broker)
        await service.topics.create(ANYONE, NewTopic(name="orders", partitions=1))
        init = InitProducerId(transactional_id="shop", timeout_ms=60_000)
        made = await service.producers.init(ANYONE, init)
        identity = ProducerIdentity("shop", made.producer_id, made.producer_epoch)
        await service.producers.begin(ANYONE, identity)
        name = await service.backups.begin(ANYONE, TTL_MS)
        await service.backups.pause_transactions(ANYONE, name, 5_000)
        partition = _coordinator(broker)
        end = partition.log_end_offset
        ending = asyncio.create_task(_end(service, identity))
        await asyncio.sleep(0.1)
        assert not ending.done()
        assert partition.log_end_offset == end
        await service.backups.pause_transactions(ANYONE, name, 0)
        await asyncio.wait_for(ending, 30)
        assert partition.log_end_offset > end


def _coordinator(broker: Node) -> Partition:
    state = broker.transactions.state
    return broker.partition(state.name, state.partition_for("shop"))


async def _end(service: BrokerService, identity: ProducerIdentity) -> None:
    request = EndTransaction(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        commit=True,
        bumps_epoch=True,
    )
    await service.transactions.end(ANYONE, request)
