"""A leader that was just elected does not know all that the one before it committed (KIP-207)."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from goqueue.broker.partitions.partition import Partition
from goqueue.model.errors import OffsetNotAvailable
from goqueue.model.header_names import DEAD_LETTER_TOPIC
from goqueue.model.queues.dead_letters import Redriven, dead_letter_topic
from goqueue.model.queues.messages import Start
from goqueue.model.queues.receiving import Receive
from goqueue.model.records import NewRecord
from goqueue.model.rights import DeletableTopic, ReadableGroup
from goqueue.model.topics import NewTopic
from tests.callers import ANYONE
from tests.publishing import publish
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes

# Long enough for whoever would go on too early.
A_WHILE_S = 0.3
HOUR_MS = 3_600_000


async def values(at: RunningNode, group: str, start: Start) -> list[bytes | None]:
    request = Receive(max_messages=10, start=start)
    found = await at.service.queues.receive(ANYONE, group, TOPIC, request)
    return [each.record.value for each in found]


async def with_young_leader(nodes: Nodes) -> tuple[list[RunningNode], Partition]:
    """Three messages are committed; of two of them the leader does not know that yet."""
    brokers = await nodes.start(1, 2, 3)
    await nodes.make_topic(replicas=(1, 2))
    assert await values(brokers[0], "old", "earliest") == []
    records = [NewRecord(value=b"%d" % at) for at in range(3)]
    await publish(brokers[0].node, TOPIC, records, partition=0)
    return brokers, made_young(brokers[0].node.partition(TOPIC, 0))


def made_young(led: Partition) -> Partition:
    leading = led.leading
    assert leading is not None
    leading._advance = lambda: None  # type: ignore[method-assign]
    leading.epoch_start = led.log_end_offset
    leading.high_watermark = led._high_watermark = 1
    assert not led.knows_its_end
    return led


async def once_known(work: Callable[[], Coroutine[Any, Any, object]], led: Partition) -> None:
    """It waits, or is refused for now; nothing is done before the leader knows its end."""
    doing = asyncio.create_task(work())
    await asyncio.wait((doing,), timeout=A_WHILE_S)
    assert not doing.done() or isinstance(doing.exception(), OffsetNotAvailable)
    leading = led.leading
    assert leading is not None
    del leading._advance
    led._advance(0)
    assert led.knows_its_end
    await (work() if doing.done() else doing)


@with_nodes
async def test_a_purge_takes_all_that_was_committed(nodes: Nodes) -> None:
    brokers, led = await with_young_leader(nodes)
    group, topic = ReadableGroup("old"), DeletableTopic(TOPIC)
    await once_known(lambda: brokers[2].node.queues.purge(group, topic), led)
    assert await values(brokers[1], "old", "earliest") == []


@pytest.mark.parametrize("start", ["latest", HOUR_MS])
def test_a_group_that_begins_at_the_end_gets_nothing_older(start: Start, tmp_path: Path) -> None:
    @with_nodes
    async def scenario(nodes: Nodes) -> None:
        brokers, led = await with_young_leader(nodes)
        begins = brokers[0].node.clock_ms() + start if isinstance(start, int) else start
        await once_known(lambda: values(brokers[2], "new", begins), led)
        await publish(brokers[2].node, TOPIC, [NewRecord(value=b"new")], partition=0)
        assert await values(brokers[1], "new", begins) == [b"new"]

    scenario(tmp_path)


@with_nodes
async def test_all_dead_letters_that_were_committed_are_sent_back(nodes: Nodes) -> None:
    one, _, three = await nodes.start(1, 2, 3)
    await nodes.make_topic(replicas=(1, 2))
    letters = dead_letter_topic(TOPIC)
    await one.service.topics.create(ANYONE, NewTopic(name=letters, assignments={0: (1, 2)}))
    await nodes.until(lambda: one.node.partition(letters, 0))
    dead = NewRecord(value=b"x", headers=((DEAD_LETTER_TOPIC, TOPIC.encode()),))
    await publish(one.node, letters, [dead] * 3, partition=0)
    sent_back: list[Redriven] = []

    async def redrive() -> None:
        sent_back.append(await three.service.queues.redrive(ANYONE, TOPIC))

    await once_known(redrive, made_young(one.node.partition(letters, 0)))
    assert sent_back == [Redriven(3, 0)]
