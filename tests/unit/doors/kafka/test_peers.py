"""What brokers of a cluster ask each other, asked of a broker by itself through its own door."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponse

from goqueue.broker.node import Node
from goqueue.broker.peers import connections
from goqueue.broker.peers.connections import Peers
from goqueue.client.connection import Connection
from goqueue.client.questions import metadata_request
from goqueue.model.client_security import ClientSecurity
from goqueue.model.errors import BrokerUnreachable
from goqueue.model.names import NodeId, TopicPartition
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.group_member import until
from tests.unit.doors.kafka.test_transaction_handlers import (
    TransactionalProducer,
    committed,
    values,
)
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

AWAY = NodeId(7)


@pytest.fixture(autouse=True)
async def topics(broker: Node) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=2))


class Elsewhere:
    """Lets the broker believe that others lead what it leads."""

    def __init__(self, broker: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self.leader: NodeId | None = broker.node_id
        self.asked_for: set[str] = set()
        monkeypatch.setattr(broker.transactions._peers, "leader_elsewhere", self._leader)

    def _leader(self, place: TopicPartition) -> NodeId | None:
        self.asked_for.add(place.topic)
        return self.leader


@pytest.mark.parametrize("newest", [True, False])
async def test_a_transaction_whose_parts_are_on_other_brokers(
    client: WireClient, broker: Node, monkeypatch: pytest.MonkeyPatch, newest: bool
) -> None:
    elsewhere = Elsewhere(broker, monkeypatch)
    producer = TransactionalProducer(client, newest=newest)
    await broker.groups.state.shard_for("g")
    for commit in (True, False, True):
        assert await producer.begin_id() is ErrorCode.none
        if not newest:
            assert await producer.add([0]) == [ErrorCode.none]
            answer = await client.call("add_offsets_to_txn", 3, **producer.owner, group_id="g")
            assert answer.error_code is ErrorCode.none
        assert await producer.send(b"%d" % commit) is ErrorCode.none
        assert await producer.commit_offset(5 if commit else 9) is ErrorCode.none
        assert await producer.end(commit=commit) is ErrorCode.none

    async def is_whole() -> bool:
        return await values(broker) == [b"1", b"1"] and (await committed(client))[0] == 5

    await until(is_whole)
    assert elsewhere.asked_for == {"a", "__consumer_offsets", "__transaction_state"}


async def test_a_batch_without_its_transaction_is_refused_by_a_coordinator_elsewhere(
    client: WireClient, broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    Elsewhere(broker, monkeypatch)
    producer = TransactionalProducer(client, newest=False)
    assert await producer.begin_id() is ErrorCode.none
    assert await producer.send(b"late") is ErrorCode.transaction_abortable


async def test_a_broker_that_is_away_is_asked_again(
    client: WireClient, broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Elsewhere(broker, monkeypatch)
    producer = TransactionalProducer(client)
    assert await producer.begin_id() is ErrorCode.none
    elsewhere.leader = AWAY
    assert await producer.send(b"x") is ErrorCode.not_enough_replicas
    assert await producer.commit_offset(5) is ErrorCode.coordinator_load_in_progress
    elsewhere.leader = None
    assert await producer.send(b"x") is ErrorCode.none
    elsewhere.leader = AWAY
    assert await producer.end(commit=True) is ErrorCode.none
    assert await values(broker) == []
    elsewhere.leader = broker.node_id

    async def is_there() -> bool:
        return await values(broker) == [b"x"]

    await until(is_there)


async def test_calls_share_connections_and_a_lost_one_is_made_anew(
    client: WireClient, broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Connection] = []
    connect = connections._connect

    async def counted(address: connections.Address, security: ClientSecurity) -> Connection:
        opened.append(await connect(address, security))
        return opened[-1]

    monkeypatch.setattr(connections, "_connect", counted)
    peers = Peers(broker.node_id, lambda: broker.image)
    request = metadata_request([])
    me = broker.node_id
    for _ in range(3):
        answer = await peers.call(me, request, MetadataResponse)
        assert [int(each.node_id) for each in answer.brokers] == [me]
    assert len(opened) == 1
    await asyncio.gather(*(peers.call(me, request, MetadataResponse) for _ in range(50)))
    assert len(opened) <= connections.CONNECTIONS_MAX
    assert sum(map(len, peers._idle.values())) == len(opened)
    count = len(opened)
    for connection in opened:
        connection.drop()
    await peers.call(me, request, MetadataResponse)
    assert len(opened) == count + 1
    with pytest.raises(BrokerUnreachable):
        await peers.call(AWAY, request, MetadataResponse)
    peers.close()
    assert not peers._idle
