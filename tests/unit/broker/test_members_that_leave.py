"""A share group's member that leaves: what it had is for others, and nobody else waits for it."""

import asyncio

import pytest

from goqueue.broker.runtime.shard import StateShard
from goqueue.model.queues.share import ShareMember, SharePart
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.queues import open_queues, share_fetch
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

MANY = 40


async def test_only_queues_of_its_group_are_asked(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    execute = StateShard.execute

    async def counted(shard: StateShard, command: object) -> object:  # type: ignore[type-arg]
        nonlocal asked
        asked += 1
        return await execute(shard, command)  # type: ignore[arg-type]

    async with open_broker() as broker:
        service = BrokerService(broker)
        for number in range(MANY):
            await service.topics.create(ANYONE, NewTopic(name=f"t{number}", partitions=1))
            await open_queues(broker, "others", f"t{number}")
        await open_queues(broker, "g", "t7")
        await publish(broker, "t7", [NewRecord(value=b"x")])
        wanted = share_fetch(SharePart(broker.topic("t7").id, 0), max_wait_ms=0)
        leaving, staying = ShareMember("g", "m"), ShareMember("g", "n")
        (had,) = await service.share_groups.fetch(ANYONE, leaving, wanted)
        assert had.acquired
        monkeypatch.setattr(StateShard, "execute", counted)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        monkeypatch.setattr("goqueue.pace.SLICE_SECONDS", 0.0)
        watching = asyncio.create_task(others())
        await broker.queues.registry.member_left("g", "m")
        watching.cancel()
        assert asked == 1
        assert turns >= MANY, "others have their turns between any two"
        (again,) = await service.share_groups.fetch(ANYONE, staying, wanted)
        assert again.acquired
