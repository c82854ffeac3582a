"""Topics over the wire: Metadata, CreateTopics, DeleteTopics, CreatePartitions and their like."""

from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio


def new_topic(name: str, partitions: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": 1, **more}


async def create(client: WireClient, *topics: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = await client.call("create_topics", topics=topics, **more)
    return {topic.name: topic for topic in answer.topics}


# --- ApiVersions ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
async def test_versions_are_advertised_with_produce_from_0(
    client: WireClient, version: int
) -> None:
    software = {"client_software_name": "x", "client_software_version": "1"} if version > 2 else {}
    answer = await client.call("api_versions", version, **software)
    assert answer.error_code is ErrorCode.none
    ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert ranges[0] == (0, 13)
    assert ranges[1] == (4, 18)
    assert ranges[18] == (0, 4)
    assert ranges.keys().isdisjoint({71, 72}), "nobody subscribed to client metrics"
    assert ranges[88] == ranges[89] == (0, 0), "streams groups"


async def test_an_unreadable_software_name_is_refused(client: WireClient) -> None:
    answer = await client.call(
        "api_versions", client_software_name="-", client_software_version="1"
    )
    assert answer.error_code is ErrorCode.invalid_request


async def test_produce_below_version_3_closes_the_connection(client: WireClient) -> None:
    client.writer.write(bytes.fromhex("0000000a0000000200000001ffff"))
    assert await client.is_closed_by_broker()


# --- Metadata ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(14))
async def test_metadata_tells_brokers_and_topics_in_every_version(
    client: WireClient, broker: Node, version: int
) -> None:
    created = await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=2))
    answer = await client.call("metadata", version, topics=[{"name": "a"}])
    (node,) = answer.brokers
    assert (node.node_id, node.host) == (0, "127.0.0.1")
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (ErrorCode.none, "a")
    assert [p.partition_index for p in topic.partitions] == [0, 1]
    assert {(p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions} == {
        (0, (0,), (0,))
    }
    if version >= 1:
        assert answer.controller_id == 0
    if version >= 2:
        assert answer.cluster_id == broker.cluster_id
    if version >= 10:
        assert topic.topic_id == created.topic.id


@pytest.mark.parametrize(("version", "topics"), [(0, ()), (1, None), (13, None)])
async def test_all_topics(client: WireClient, broker: Node, version: int, topics: Any) -> None:
    for name in ("a", "b"):
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name=name))
    answer = await client.call("metadata", version, topics=topics)
    assert sorted(topic.name for topic in answer.topics) == ["a", "b"]


async def test_bytes_after_a_request_are_ignored(client: WireClient, broker: Node) -> None:
    """librdkafka asks for all topics with an empty list of four bytes instead of one."""
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a"))
    client.writer.write(bytes.fromhex("00000012 0003 000d 00000001 ffff 00 00000000 01 00 00"))
    assert b"a" in await client.receive_frame()


async def test_an_empty_list_asks_for_no_topic(client: WireClient, broker: Node) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a"))
    assert (await client.call("metadata", 1, topics=())).topics == ()


async def test_a_missing_topic_is_made_if_the_client_allows_it(
    client: WireClient, broker: Node
) -> None:
    answer = await client.call("metadata", topics=[{"name": "a"}], allow_auto_topic_creation=False)
    assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
    answer = await client.call("metadata", topics=[{"name": "a"}])
    assert answer.topics[0].error_code is ErrorCode.none
    assert len(answer.topics[0].partitions) == broker.config.num_partitions


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
async def test_topics_of_the_broker_are_made_by_nobody_else(client: WireClient, name: str) -> None:
    answer = await client.call("metadata", topics=[{"name": name}])
    assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
    made = await create(client, new_topic(name))
    assert made[name].error_code is ErrorCode.policy_violation


class TestWithoutAutoCreation:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"auto.create.topics.enable": "false"}

    async def test_a_missing_topic_is_not_made(self, client: WireClient) -> None:
        answer = await client.call("metadata", topics=[{"name": "a"}])
        assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "x" * 250])
@pytest.mark.parametrize("version", [0, 12])
async def test_metadata_of_a_bad_name(client: WireClient, name: str, version: int) -> None:
    answer = await client.call("metadata", version, topics=[{"name": name}])
    assert answer.topics[0].error_code is ErrorCode.invalid_topic_exception
    assert answer.topics[0].name == name


async def test_metadata_by_id(client: WireClient, broker: Node) -> None:
    created, missing = (
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a")),
        uuid4(),
    )
    answer = await client.call(
        "metadata", topics=[{"topic_id": created.topic.id, "name": None}, {"topic_id": missing}]
    )
    found, lost = answer.topics
    assert (found.name, found.topic_id) == ("a", created.topic.id)
    assert (lost.error_code, lost.name, lost.topic_id) == (
        ErrorCode.unknown_topic_id,
        None,
        missing,
    )


async def test_authorized_operations_are_told_when_asked_for(
    client: WireClient, broker: Node
) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a"))
    answer = await client.call(
        "metadata",
        8,
        topics=[{"name": "a"}],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert answer.topics[0].topic_authorized_operations == 3576
    assert answer.cluster_authorized_operations == 8096
    plain = await client.call("metadata", 8, topics=[{"name": "a"}])
    assert plain.cluster_authorized_operations == -(2**31)


# --- CreateTopics -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
async def test_topics_are_made(client: WireClient, broker: Node, version: int) -> None:
    answer = await client.call(
        "create_topics",
        version,
        topics=[new_topic("a", 4, configs=[{"name": "retention.ms", "value": "5000"}])],
    )
    assert answer.topics[0].error_code is ErrorCode.none
    topic = broker.topic("a")
    assert len(topic.partitions) == 4
    assert topic.config == {"retention.ms": "5000"}
    if version >= 5:
        assert answer.topics[0].num_partitions == 4
        told = {config.name: config for config in answer.topics[0].configs}
        assert (told["retention.ms"].value, told["retention.ms"].config_source) == ("5000", 1)
    if version >= 7:
        assert answer.topics[0].topic_id == topic.id


async def test_defaults_are_the_brokers(client: WireClient, broker: Node) -> None:
    made = await create(client, new_topic("a", -1, replication_factor=-1))
    assert made["a"].num_partitions == broker.config.num_partitions


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (new_topic("../x"), ErrorCode.invalid_topic_exception),
        (new_topic(""), ErrorCode.invalid_topic_exception),
        (new_topic("taken"), ErrorCode.topic_already_exists),
        (new_topic("a", 0), ErrorCode.invalid_partitions),
        (new_topic("a", -2), ErrorCode.invalid_partitions),
        (new_topic("a", 10_001), ErrorCode.invalid_partitions),
        (new_topic("a", replication_factor=0), ErrorCode.invalid_replication_factor),
        (new_topic("a", replication_factor=3), ErrorCode.invalid_replication_factor),
        (
            new_topic("a", configs=[{"name": "retention.ms", "value": "soon"}]),
            ErrorCode.invalid_config,
        ),
        (new_topic("a", configs=[{"name": "nope", "value": "1"}]), ErrorCode.invalid_config),
        (
            new_topic("a", configs=[{"name": "retention.ms", "value": None}]),
            ErrorCode.invalid_config,
        ),
        (
            new_topic("a", assignments=[{"partition_index": 0, "broker_ids": (0,)}]),
            ErrorCode.invalid_request,
        ),
        (
            new_topic(
                "a",
                -1,
                replication_factor=-1,
                assignments=[{"partition_index": 0, "broker_ids": (7,)}],
            ),
            ErrorCode.invalid_replica_assignment,
        ),
        (
            new_topic(
                "a",
                -1,
                replication_factor=-1,
                assignments=[{"partition_index": 1, "broker_ids": (0,)}],
            ),
            ErrorCode.invalid_replica_assignment,
        ),
        (
            new_topic(
                "a",
                -1,
                replication_factor=-1,
                assignments=[{"partition_index": 0, "broker_ids": (0,)}] * 2,
            ),
            ErrorCode.invalid_replica_assignment,
        ),
    ],
)
async def test_what_cannot_be_made_is_refused_by_its_code(
    client: WireClient, broker: Node, topic: dict[str, Any], code: ErrorCode
) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="taken"))
    refused = (await create(client, topic))[topic["name"]]
    assert refused.error_code is code
    assert refused.error_message
    assert list(broker.image.topics) == ["taken"]


async def test_a_topic_asked_for_twice_is_refused_and_others_are_made(
    client: WireClient, broker: Node
) -> None:
    made = await create(client, new_topic("a"), new_topic("b"), new_topic("a"))
    assert made["a"].error_code is ErrorCode.invalid_request
    assert made["b"].error_code is ErrorCode.none
    assert list(broker.image.topics) == ["b"]


async def test_validation_alone_makes_nothing(client: WireClient, broker: Node) -> None:
    made = await create(client, new_topic("a", 3), validate_only=True)
    assert (made["a"].error_code, made["a"].num_partitions) == (ErrorCode.none, 3)
    assert not broker.image.topics


async def test_replicas_can_be_assigned_by_hand(client: WireClient, broker: Node) -> None:
    assignments = [{"partition_index": index, "broker_ids": (0,)} for index in (0, 1)]
    made = await create(client, new_topic("a", -1, replication_factor=-1, assignments=assignments))
    assert made["a"].error_code is ErrorCode.none
    assert len(broker.topic("a").partitions) == 2


# --- DeleteTopics -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 7))
async def test_topics_are_deleted_by_name(client: WireClient, broker: Node, version: int) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a"))
    names = {"topics": [{"name": "a"}]} if version == 6 else {"topic_names": ["a"]}
    answer = await client.call("delete_topics", version, **names)
    assert answer.responses[0].error_code is ErrorCode.none
    assert not broker.image.topics
    answer = await client.call("delete_topics", version, **names)
    assert answer.responses[0].error_code is ErrorCode.unknown_topic_or_partition


async def test_topics_are_deleted_by_id(client: WireClient, broker: Node) -> None:
    topic = await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a"))
    by_id = [{"name": None, "topic_id": topic.topic.id}]
    (deleted,) = (await client.call("delete_topics", topics=by_id)).responses
    assert (deleted.error_code, deleted.name) == (ErrorCode.none, "a")
    (missing,) = (await client.call("delete_topics", topics=by_id)).responses
    assert (missing.error_code, missing.name) == (ErrorCode.unknown_topic_id, None)


async def test_ambiguous_deletions_are_refused(client: WireClient, broker: Node) -> None:
    a, b, c = [
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name=name)) for name in "abc"
    ]
    answer = await client.call(
        "delete_topics",
        topics=[
            {"name": "a", "topic_id": a.topic.id},
            {"name": None, "topic_id": None},
            {"name": "b"},
            {"name": "b"},
            {"name": "c"},
            {"name": None, "topic_id": c.topic.id},
        ],
    )
    codes = [topic.error_code for topic in answer.responses]
    assert codes[:4] == [ErrorCode.invalid_request] * 4
    assert {"a", "b"} <= set(broker.image.topics)
    assert b.topic.name == "b"


# --- CreatePartitions -------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added(client: WireClient, broker: Node, version: int) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=1))
    answer = await client.call(
        "create_partitions", version, topics=[{"name": "a", "count": 3, "assignments": None}]
    )
    assert answer.results[0].error_code is ErrorCode.none
    assert len(broker.topic("a").partitions) == 3


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"name": "a", "count": 2}, ErrorCode.invalid_partitions),
        ({"name": "a", "count": 1}, ErrorCode.invalid_partitions),
        ({"name": "a", "count": 99_999}, ErrorCode.invalid_partitions),
        ({"name": "b", "count": 3}, ErrorCode.unknown_topic_or_partition),
        (
            {"name": "a", "count": 4, "assignments": [{"broker_ids": (0,)}]},
            ErrorCode.invalid_replica_assignment,
        ),
        (
            {"name": "a", "count": 3, "assignments": [{"broker_ids": (9,)}]},
            ErrorCode.invalid_replica_assignment,
        ),
    ],
)
async def test_partitions_that_cannot_be_added(
    client: WireClient, broker: Node, asked: dict[str, Any], code: ErrorCode
) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=2))
    answer = await client.call("create_partitions", topics=[{"assignments": None, **asked}])
    assert answer.results[0].error_code is code
    assert len(broker.topic("a").partitions) == 2


# --- DescribeCluster, DescribeTopicPartitions -------------------------------------------------


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described(client: WireClient, broker: Node, version: int) -> None:
    answer = await client.call("describe_cluster", version)
    assert (answer.cluster_id, answer.controller_id) == (broker.cluster_id, 0)
    assert [node.broker_id for node in answer.brokers] == [0]


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.mismatched_endpoint_type), (9, ErrorCode.unsupported_endpoint_type)],
)
async def test_other_endpoints_are_not_here(
    client: WireClient, endpoint_type: int, code: ErrorCode
) -> None:
    answer = await client.call("describe_cluster", endpoint_type=endpoint_type)
    assert answer.error_code is code


async def test_partitions_are_described_page_by_page(client: WireClient, broker: Node) -> None:
    for name, partitions in (("b", 3), ("a", 2), ("c", 1)):
        await BrokerService(broker).topics.create(
            ANYONE, NewTopic(name=name, partitions=partitions)
        )
    cursor = None
    pages = []
    while True:
        answer = await client.call(
            "describe_topic_partitions", response_partition_limit=2, cursor=cursor
        )
        pages.append([(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics])
        if answer.next_cursor is None:
            break
        cursor = {
            "topic_name": answer.next_cursor.topic_name,
            "partition_index": answer.next_cursor.partition_index,
        }
    assert pages == [[("a", [0, 1])], [("b", [0, 1])], [("b", [2]), ("c", [0])]]


async def test_described_topics_may_be_missing(client: WireClient, broker: Node) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=1))
    answer = await client.call(
        "describe_topic_partitions", topics=[{"name": "z"}, {"name": "a"}, {"name": "/"}]
    )
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("/", ErrorCode.invalid_topic_exception),
        ("a", ErrorCode.none),
        ("z", ErrorCode.unknown_topic_or_partition),
    ]
