"""Retention that waits for a consumer group to have committed."""

import asyncio
import logging

import pytest

from goqueue.broker.node import Node
from goqueue.broker.partitions.retention import apply_retention
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.unit.broker.conftest import OpenBroker

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
                await apply_retention(partition.hosted, broker.groups)
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
            await apply_retention(partition.hosted, broker.groups)
            return partition.log_start_offset

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(scenario()) == 4
    assert "raise the limit" in caplog.text
