"""A decided group is committed, though the broker goes down before it could tell any partition."""

import asyncio

import pytest

from goqueue.broker.node import Node
from goqueue.broker.transactions import transactions
from goqueue.model.log import Isolation
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.model.transactions.group_messages import (
    CommitGroup,
    GroupMember,
    GroupOutcome,
)
from goqueue.model.transactions.group_names import member_id
from goqueue.model.transactions.messages import InitProducerId, ProducerIdentity, WriteMarkers
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.stored_records import read_records
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio
READ_SECONDS = 60


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def write(broker: Node, task: int, value: bytes) -> GroupMember:
    producers = BrokerService(broker).producers
    name = member_id("copy", str(task))
    made = await producers.init(ANYONE, InitProducerId(transactional_id=name, timeout_ms=60_000))
    identity = ProducerIdentity(name, made.producer_id, made.producer_epoch)
    await producers.begin(ANYONE, identity)
    records = [NewRecord(value=value)]
    await producers.publish(ANYONE, identity, "orders", records, [task], sequence=None)
    return GroupMember(*identity)


async def read(broker: Node, partition: int) -> list[bytes | None]:
    page = await read_records(
        broker,
        "orders",
        partition,
        0,
        limit=10,
        max_bytes=10_000,
        isolation=Isolation.READ_COMMITTED,
    )
    return [record.value for record in page.records]


async def test_markers_are_made_up_for(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go_down_first(_self: object, _index: int, _effect: WriteMarkers) -> None:
        await asyncio.Event().wait()

    async with open_broker() as broker:
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name="orders", partitions=3))
        members = (await write(broker, 0, b"a"), await write(broker, 1, b"b"))
        await write(broker, 2, b"from an attempt that nobody waits for")
        monkeypatch.setattr(transactions.Transactions, "_write_markers", go_down_first)
        monkeypatch.setattr(transactions, "END_WAIT_SECONDS", 0.0)
        request = CommitGroup(group_id="copy", sequence=4, members=members)
        answer = await BrokerService(broker).transactions.commit_group(ANYONE, request)
        assert answer.outcome is GroupOutcome.COMMITTED
        assert [await read(broker, partition) for partition in range(3)] == [[], [], []]

    monkeypatch.undo()
    async with open_broker() as broker, asyncio.timeout(READ_SECONDS):
        service = BrokerService(broker).transactions
        while (found := await service.describe_group(ANYONE, "copy")).open_members:
            await asyncio.sleep(0.01)
        assert found.last_sequence == 4
        assert [await read(broker, partition) for partition in range(3)] == [[b"a"], [b"b"], []]
        again = await BrokerService(broker).transactions.commit_group(ANYONE, request)
        assert again.outcome is GroupOutcome.ALREADY_COMMITTED
