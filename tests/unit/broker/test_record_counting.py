"""Counts of large logs: in steps, with an end in time, and in turn with others."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from goqueue.broker.partitions import counting
from goqueue.broker.partitions.counting import RecordCounting
from goqueue.broker.partitions.partition import Partition
from goqueue.model.errors import Overloaded
from goqueue.model.log import CountRequest
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.storage import record_counts
from tests.callers import ANYONE
from tests.publishing import publish
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

EVERYTHING = CountRequest()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def partition(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Partition]:
    """Ten batches of two records, of which a step counts two batches."""
    monkeypatch.setattr(record_counts, "STEP_HEADERS_MAX", 2)
    async with open_broker() as broker:
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name="orders", partitions=1))
        for _ in range(10):
            await publish(broker, "orders", [NewRecord(value=b"a"), NewRecord(value=b"b")])
        yield broker.partition("orders", 0)


async def test_an_answer_says_how_far_it_came_and_the_next_goes_on(partition: Partition) -> None:
    hasty = RecordCounting(seconds_max=0)
    found = []
    offset = 0
    while offset < 20:
        counted = await hasty.count(partition, CountRequest(first_offset=offset), asker="a")
        found.append((counted.records, counted.next_offset, counted.end_offset))
        offset = counted.next_offset
    assert found == [(4, 4, 20), (4, 8, 20), (4, 12, 20), (4, 16, 20), (4, 20, 20)]

    # By now all of it is known.
    assert (await hasty.count(partition, EVERYTHING, asker="a")).records == 20


async def test_askers_take_turns_between_steps(partition: Partition) -> None:
    line = RecordCounting()
    order: list[str] = []

    async def ask(name: str, first_offset: int) -> None:
        wanted = CountRequest(first_offset=first_offset)
        counted = await line.count(partition, wanted, asker=name)
        assert counted.records == 20 - first_offset
        order.append(name)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(20):
            tasks.create_task(ask("greedy", 1))
        tasks.create_task(ask("modest", 17))
    # It needs one step, and the first of the others needs five.
    assert order[0] == "modest"


async def test_one_asker_can_only_have_so_many_waiting(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "WAITING_MAX", 3)
    line = RecordCounting()
    asked = [line.count(partition, EVERYTHING, asker="greedy") for _ in range(5)]
    answers = await asyncio.gather(
        *asked, line.count(partition, EVERYTHING, asker="other"), return_exceptions=True
    )
    refused = [answer for answer in answers if isinstance(answer, Overloaded)]
    assert len(refused) == 1
    assert "3 counts wait" in str(refused[0])
    assert not isinstance(answers[-1], BaseException)
    assert answers[-1].records == 20


async def test_who_goes_away_lets_the_others_go_on(partition: Partition) -> None:
    line = RecordCounting()
    leaving = asyncio.create_task(line.count(partition, EVERYTHING, asker="a"))
    staying = asyncio.create_task(line.count(partition, EVERYTHING, asker="b"))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).records == 20
