"""A broker that begins anew, and producers whose time is over: as clients of version 1 of
transactions (librdkafka) have it, whose epoch stays the same from one transaction to the next."""

from collections.abc import Awaitable
from typing import TypedDict

import pytest

from goqueue.broker.node import Node
from goqueue.broker.transactions.transactions import Transactions
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import OffsetFetch, OffsetToCommit, TxnOffsetCommit
from goqueue.model.log import Isolation
from goqueue.model.names import topic_partition
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import (
    AddOffsets,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    WriteMarkers,
)
from goqueue.model.transactions.refusals import TransactionRefused, check
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.stored_records import read_records
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

ID = "copier"
UNSTABLE = GroupError.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Owner(TypedDict):
    producer_id: int
    producer_epoch: int


class Copier:
    """Copies messages to `output` in transactions with where they were read."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._sequence = 0

    @classmethod
    async def begin(cls, broker: Node) -> "Copier":
        """Whoever had the id before is fenced."""
        init = InitProducerId(transactional_id=ID, timeout_ms=60_000)
        made = await BrokerService(broker).producers.init(ANYONE, init)
        return cls({"producer_id": made.producer_id, "producer_epoch": made.producer_epoch})

    async def add(self, broker: Node) -> None:
        """Tell what the transaction is going to write to."""
        transactions = BrokerService(broker).transactions
        places = frozenset({topic_partition("output", 0)})
        add = AddPartitions(transactional_id=ID, partitions=places, **self._owner)
        for error in (await transactions.add_partitions(ANYONE, add)).errors.values():
            check(error)
        offsets = AddOffsets(transactional_id=ID, group_id="g", **self._owner)
        check((await transactions.add_offsets(ANYONE, offsets)).error)

    async def copy(self, broker: Node, value: bytes) -> None:
        batch = encode_records(
            [NewRecord(value=value)],
            now_ms=1,
            base_sequence=self._sequence,
            is_transactional=True,
            **self._owner,
        )
        await BrokerService(broker).log.produce(
            ANYONE, "output", 0, batch, acks=-1, timeout_ms=5_000, transactional_id=ID
        )
        self._sequence += 1

    async def commit_offset(self, broker: Node, offset: int) -> None:
        offsets = (OffsetToCommit(topic="input", partition=0, offset=offset),)
        commit = TxnOffsetCommit(group_id="g", offsets=offsets, **self._owner)
        service = BrokerService(broker).transactions
        answer = await service.commit_offsets(ANYONE, ID, commit, adds_offsets=False)
        assert [each.error for each in answer.partitions] == [GroupError.NONE]

    async def end(self, broker: Node) -> None:
        end = EndTransaction(transactional_id=ID, commit=True, bumps_epoch=False, **self._owner)
        check((await BrokerService(broker).transactions.end(ANYONE, end)).error)


async def make_topics(broker: Node) -> None:
    for name in ("input", "output"):
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name=name, partitions=1))


async def copied(broker: Node) -> list[bytes]:
    committed = Isolation.READ_COMMITTED
    found: list[bytes] = []
    next_offset, end_offset = 0, broker.partition("output", 0).readable_end(committed)
    while next_offset < end_offset:
        page = await read_records(broker, "output", 0, next_offset, limit=100, isolation=committed)
        found += [record.value or b"" for record in page.records]
        next_offset = page.next_offset
    return found


async def offset(broker: Node) -> int | GroupError:
    """Where the group goes on, as a member that was just given the partition asks for it."""
    fetch = OffsetFetch(group_id="g", topics={"input": [0]}, require_stable=True)
    (found,) = (await BrokerService(broker).groups.fetch_offsets(ANYONE, fetch)).offsets
    return found.offset if found.error is GroupError.NONE else found.error


async def refusal(doing: Awaitable[None]) -> TransactionError:
    with pytest.raises(TransactionRefused) as refused:
        await doing
    return refused.value.error


async def test_an_end_that_was_decided_before_a_crash_holds_for_messages_and_offsets_alike(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_yet(_self: Transactions, _index: int, _effect: WriteMarkers) -> None:
        pass

    with monkeypatch.context() as before_the_crash:
        before_the_crash.setattr(Transactions, "_write_markers", not_yet)
        async with open_broker() as broker:
            await make_topics(broker)
            copier = await Copier.begin(broker)
            await copier.add(broker)
            await copier.copy(broker, b"first")
            await copier.commit_offset(broker, 1)
            await copier.end(broker)
            assert (await copied(broker), await offset(broker)) == ([], UNSTABLE)
        # Nobody may begin anew, or go on, from the offset before.
        async with open_broker() as broker:
            assert (await copied(broker), await offset(broker)) == ([], UNSTABLE)
            assert await refusal(copier.add(broker)) is TransactionError.CONCURRENT_TRANSACTIONS
    async with open_broker() as broker:
        assert await broker.transactions.settled(ID)
        assert (await copied(broker), await offset(broker)) == ([b"first"], 1)
        # The answer to the end was lost: it is asked for again, and changes nothing.
        await copier.end(broker)
        await copier.add(broker)
        await copier.copy(broker, b"second")
        await copier.commit_offset(broker, 2)
        await copier.end(broker)
        assert await broker.transactions.settled(ID)
        assert (await copied(broker), await offset(broker)) == ([b"first", b"second"], 2)


async def test_a_producer_that_was_fenced_stays_so_after_a_restart(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as broker:
        await make_topics(broker)
        zombie = await Copier.begin(broker)
        await zombie.add(broker)
        await zombie.copy(broker, b"twice")
        await zombie.commit_offset(broker, 1)
        successor = await Copier.begin(broker)
        await successor.add(broker)
    for _ in range(2):
        async with open_broker() as broker:
            fenced = TransactionError.PRODUCER_FENCED
            assert await refusal(zombie.add(broker)) is fenced
            assert await refusal(zombie.copy(broker, b"twice")) is fenced
            assert await refusal(zombie.commit_offset(broker, 1)) is fenced
            assert await refusal(zombie.end(broker)) is fenced
            assert (await copied(broker), await offset(broker)) == ([], -1)
    async with open_broker() as broker:
        await successor.copy(broker, b"once")
        await successor.commit_offset(broker, 1)
        # It is fenced from what its successor's transaction has, too.
        assert await refusal(zombie.commit_offset(broker, 5)) is fenced
        assert await refusal(zombie.end(broker)) is fenced
        assert (await copied(broker), await offset(broker)) == ([], UNSTABLE)
        await successor.end(broker)
        assert await broker.transactions.settled(ID)
        assert (await copied(broker), await offset(broker)) == ([b"once"], 1)
