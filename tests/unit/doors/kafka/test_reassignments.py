"""Moves of partitions in Kafka's words, asked of a node of one; clusters are in `tests/interop`."""

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("version", [0, 1])
async def test_a_node_of_one_has_nowhere_to_go(
    client: WireClient, broker: Node, version: int
) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=4))
    asked = [
        {
            "name": "a",
            "partitions": [
                {"partition_index": 0, "replicas": [0]},
                {"partition_index": 1, "replicas": [1]},
                {"partition_index": 2, "replicas": []},
                {"partition_index": 3, "replicas": None},
                {"partition_index": 7, "replicas": [0]},
            ],
        },
        {"name": "b", "partitions": [{"partition_index": 0, "replicas": [0]}]},
    ]
    answer = await client.call("alter_partition_reassignments", version, topics=asked)
    assert answer.error_code is ErrorCode.none
    found = {
        (topic.name, part.partition_index): part.error_code
        for topic in answer.responses
        for part in topic.partitions
    }
    assert found == {
        ("a", 0): ErrorCode.none,
        ("a", 1): ErrorCode.invalid_replica_assignment,
        ("a", 2): ErrorCode.invalid_replica_assignment,
        ("a", 3): ErrorCode.no_reassignment_in_progress,
        ("a", 7): ErrorCode.unknown_topic_or_partition,
        ("b", 0): ErrorCode.unknown_topic_or_partition,
    }
    for topics in (None, [{"name": "a", "partition_indexes": [0, 1]}]):
        listed = await client.call("list_partition_reassignments", 0, topics=topics)
        assert (listed.error_code, listed.topics) == (ErrorCode.none, ())


async def test_a_partition_named_twice_is_not_moved(client: WireClient, broker: Node) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=1))
    part = {"partition_index": 0, "replicas": [0]}
    asked = [{"name": "a", "partitions": [part, part]}]
    answer = await client.call("alter_partition_reassignments", 1, topics=asked)
    [topic] = answer.responses
    assert [each.error_code for each in topic.partitions] == [ErrorCode.invalid_replica_assignment]
