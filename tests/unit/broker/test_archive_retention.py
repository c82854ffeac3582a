"""Retention that waits for a consumer group to have committed."""

import asyncio
import logging
from contextlib import suppress

import pytest

from goqueue.broker.node import Node
from goqueue.broker.partitions.retention import apply_retention
from goqueue.model.errors import BrokerUnreachable, NotLeader
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.unit.broker.conftest import OpenBroker
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes

LONG_AGO_MS = 1_600_000_000_000


async def _topic_of_old_segments(broker: Node, **config: str) -> None:
    settings = {"segment.bytes": "200", "retention.ms": "1000", "retention.archive.group": "arch"}
    await BrokerService(broker).topics.create(
        ANYONE, NewTopic(name="orders", partitions=1, config=settings | config)
    )
    for _ in range(4):
        record = NewRecord(value=b"x" * 100, timestamp_ms=LONG_AGO_MS)
        await publish(broker, "orders", [record])


def test_only_what_the_group_committed_goes(open_broker: OpenBroker) -> None:
    async def scenario() -> list[int]:
        async with open_broker() as broker:
            await _topic_of_old_segments(broker)
            partition = broker.partition("orders", 0)
            starts = []
            for offset in (None, 2, 4):
                if offset is not None:
                    to_commit = OffsetToCommit(topic="orders", partition=0, offset=offset)
                    commit = OffsetCommit(group_id="arch", offsets=(to_commit,))
                    await BrokerService(broker).groups.commit(ANYONE, commit)
                await apply_retention(partition.hosted, broker.groups_anywhere)
                starts.append(partition.log_start_offset)
            return starts

    assert asyncio.run(scenario()) == [0, 2, 4]


def test_the_size_limit_wins_and_is_reported(
    open_broker: OpenBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> int:
        async with open_broker() as broker:
            await _topic_of_old_segments(broker, **{"retention.archive.max.bytes": "0"})
            partition = broker.partition("orders", 0)
            await apply_retention(partition.hosted, broker.groups_anywhere)
            return partition.log_start_offset

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(scenario()) == 4
    assert "raise the limit" in caplog.text


@with_nodes
async def test_the_coordinator_of_another_broker_is_asked(nodes: Nodes) -> None:
    all_ = await nodes.start(1, 2, 3)
    settings = {
        "segment.bytes": "200",
        "retention.ms": "1000",
        "retention.archive.group": "arch",
        "min.insync.replicas": "1",
    }
    await nodes.make_topic(3, config=settings)

    async def kept(node: RunningNode) -> int:
        """From where on, after retention."""
        replica = node.replica(node.id - 1)
        await apply_retention(replica, node.node.groups_anywhere)
        return replica.log_start_offset

    for node in all_:
        for _ in range(4):
            batch = encode_records(
                [NewRecord(value=b"x" * 100, timestamp_ms=LONG_AGO_MS)], now_ms=LONG_AGO_MS
            )
            await node.service.log.produce(
                ANYONE, TOPIC, node.id - 1, batch, acks=-1, timeout_ms=30_000
            )
        assert await kept(node) == 0
    offsets = [OffsetToCommit(topic=TOPIC, partition=index, offset=2) for index in range(3)]
    await all_[0].service.members.commit(ANYONE, "arch", offsets, member_id=None, epoch=None)
    assert [await kept(node) for node in all_] == [2, 2, 2]
    place = await all_[0].node.groups.coordinator("arch")
    lost = nodes.running[all_[0].node.calls.leader_of(place)]
    await nodes.die(lost.id)
    left = [node for node in all_ if node is not lost]
    for node in left:
        # Whoever cannot ask deletes nothing.
        with suppress(NotLeader, BrokerUnreachable):
            assert await kept(node) == 2
    await nodes.until(lambda: left[0].node.calls.leader_of(place) not in (-1, lost.id))
    offsets = [OffsetToCommit(topic=TOPIC, partition=index, offset=4) for index in range(3)]
    await left[1].service.members.commit(ANYONE, "arch", offsets, member_id=None, epoch=None)
    assert [await kept(node) for node in left] == [4, 4]
