"""Streams groups over the wire (KIP-1071), with the topics that the broker makes for them."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.client.admin import KafkaAdmin
from goqueue.client.groups import GroupAdmin
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.configs import ConfigChange, ConfigResource, ConfigResourceKind
from goqueue.model.groups.rebalances import RebalanceReason
from goqueue.model.groups.streams_messages import StatusCode
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

CHANGELOG = {
    "name": "g-counts-changelog",
    "partitions": 0,
    "replication_factor": 1,
    "topic_configs": [{"key": "cleanup.policy", "value": "compact"}],
}
REPARTITION = {
    "name": "g-words-repartition",
    "partitions": 0,
    "replication_factor": -1,
    "topic_configs": [
        {"key": "cleanup.policy", "value": "delete"},
        {"key": "retention.ms", "value": "-1"},
        {"key": "segment.bytes", "value": "52428800"},
    ],
}
WORDS = {
    "epoch": 0,
    "subtopologies": [
        {
            "subtopology_id": "0",
            "source_topics": ["in"],
            "repartition_sink_topics": ["g-words-repartition"],
        },
        {
            "subtopology_id": "1",
            "repartition_source_topics": [REPARTITION],
            "state_changelog_topics": [CHANGELOG],
            "copartition_groups": [{"repartition_source_topics": [0]}],
        },
    ],
}
NOTHING: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


class StreamsThread:
    """A thread of an application: it does as it is told at once."""

    def __init__(self, client: WireClient, name: str, group_id: str = "g") -> None:
        self.client = client
        self.name = name
        self.group_id = group_id
        self.epoch = 0
        self.owned: dict[str, Any] = NOTHING

    async def beat(self, **fields: Any) -> Any:
        answer = await self.client.call(
            "streams_group_heartbeat",
            **{
                "group_id": self.group_id,
                "member_id": self.name,
                "member_epoch": self.epoch,
                "endpoint_information_epoch": -1,
                "active_tasks": None,
                "standby_tasks": None,
                "warmup_tasks": None,
                "client_tags": None,
                "task_offsets": None,
                "task_end_offsets": None,
                **fields,
            },
        )
        if answer.error_code is ErrorCode.none:
            self.epoch = answer.member_epoch
            if answer.active_tasks is not None:
                self.owned = {
                    role: [
                        {"subtopology_id": task.subtopology_id, "partitions": list(task.partitions)}
                        for task in getattr(answer, role)
                    ]
                    for role in NOTHING
                }
        return answer

    async def join(self, topology: Any = WORDS, **fields: Any) -> Any:
        self.epoch = 0
        return await self.beat(
            **{
                "topology": topology,
                "process_id": f"process-{self.name}",
                "rebalance_timeout": 60_000,
                **NOTHING,
                **fields,
            }
        )

    @property
    def active(self) -> dict[str, list[int]]:
        return {task["subtopology_id"]: task["partitions"] for task in self.owned["active_tasks"]}


@pytest.fixture
async def topic(broker: Node) -> str:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="in", partitions=3))
    return "in"


def codes(answer: Any) -> list[StatusCode]:
    return [StatusCode(status.status_code) for status in answer.status]


async def test_the_broker_makes_internal_topics_and_gives_out_tasks(
    client: WireClient, broker: Node, topic: str
) -> None:
    thread = StreamsThread(client, "one")
    joined = await thread.join()
    assert joined.error_code is ErrorCode.none, joined
    assert codes(joined) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert joined.active_tasks == ()
    assert joined.heartbeat_interval.total_seconds() == 0.5
    for name in ("g-counts-changelog", "g-words-repartition"):
        assert len(broker.topic(name).partitions) == 3
    config = {
        entry.name: entry.value
        for entry in BrokerService(broker).administration.describe_config(
            ANYONE, ConfigResource(ConfigResourceKind.TOPIC, "g-counts-changelog")
        )
    }
    assert config["cleanup.policy"] == "compact"
    ready = await thread.beat()
    assert ready.status == ()
    assert thread.active == {"0": [0, 1, 2], "1": [0, 1, 2]}
    assert ready.warmup_tasks == ()
    quiet = await thread.beat(endpoint_information_epoch=0)
    assert (quiet.active_tasks, quiet.partitions_by_user_endpoint) == (None, None)


async def test_tasks_move_between_threads(client: WireClient, broker: Node, topic: str) -> None:
    resource = ConfigResource(ConfigResourceKind.GROUP, "g")
    changes = [ConfigChange(name="streams.num.standby.replicas", value="1")]
    await BrokerService(broker).administration.alter_config(ANYONE, resource, changes)
    one, two = StreamsThread(client, "one"), StreamsThread(client, "two")
    await one.join(user_endpoint={"host": "here", "port": 8_000})
    await one.beat()
    await two.join(user_endpoint={"host": "there", "port": 65_535})
    for _ in range(3):
        for thread in (one, two):
            await thread.beat(**thread.owned)
    active = sorted((s, n) for each in (one, two) for s, ns in each.active.items() for n in ns)
    assert active == [("0", 0), ("0", 1), ("0", 2), ("1", 0), ("1", 1), ("1", 2)]
    standbys = [task for each in (one, two) for task in each.owned["standby_tasks"]]
    assert sorted(n for task in standbys for n in task["partitions"]) == [0, 1, 2]
    state, rebalances = await BrokerService(broker).groups.rebalances(ANYONE, "g")
    assert state == "Stable"
    assert rebalances.by_reason[RebalanceReason.MEMBER_JOINED] == 2
    # All six when the first had its topics, and three when the second had come.
    assert rebalances.partitions_moved == 9
    told = await one.beat()
    by_host = {each.user_endpoint.host: each for each in told.partitions_by_user_endpoint}
    assert by_host["there"].user_endpoint.port == 65_535
    reads = [
        (part.topic, number)
        for each in by_host.values()
        for part in each.active_partitions
        for number in part.partitions
    ]
    assert sorted(reads) == [(t, n) for t in ("g-words-repartition", "in") for n in range(3)]
    left = await two.beat(member_epoch=-1)
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, -1)
    # A standby is closed before it is opened as an active task.
    await one.beat()
    assert one.active == {"0": [0, 1], "1": [0]}
    assert one.owned["standby_tasks"] == []
    await one.beat(**one.owned)
    assert one.active == {"0": [0, 1, 2], "1": [0, 1, 2]}


async def test_missing_source_topics_are_told(client: WireClient, broker: Node) -> None:
    thread = StreamsThread(client, "one")
    answer = await thread.join()
    assert answer.error_code is ErrorCode.none
    assert codes(answer) == [StatusCode.MISSING_SOURCE_TOPICS]
    assert "g-counts-changelog" not in broker.image.topics


async def test_what_cannot_be_made_is_told(client: WireClient, broker: Node, topic: str) -> None:
    wrong = {**CHANGELOG, "topic_configs": [{"key": "cleanup.policy", "value": "shred"}]}
    subtopology = {
        "subtopology_id": "0",
        "source_topics": ["in"],
        "state_changelog_topics": [wrong],
    }
    answer = await StreamsThread(client, "one").join({"epoch": 0, "subtopologies": [subtopology]})
    assert codes(answer) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert "not made: g-counts-changelog: " in answer.status[0].status_detail


async def test_errors_have_kafkas_codes(client: WireClient, topic: str) -> None:
    thread = StreamsThread(client, "one")
    assert (await thread.beat(member_epoch=4)).error_code is ErrorCode.group_id_not_found
    twice = {"epoch": 0, "subtopologies": [WORDS["subtopologies"][0]] * 2}  # type: ignore[index]
    assert (await thread.join(twice)).error_code is ErrorCode.streams_invalid_topology
    regex = {"subtopology_id": "0", "source_topic_regex": ["i.*"]}
    refused = await thread.join({"epoch": 0, "subtopologies": [regex]})
    assert refused.error_code is ErrorCode.invalid_request
    assert refused.error_message is not None
    await thread.join()
    assert (await thread.beat(member_epoch=9)).error_code is ErrorCode.fenced_member_epoch
    stranger = StreamsThread(client, "stranger")
    assert (await stranger.beat(member_epoch=1)).error_code is ErrorCode.unknown_member_id


async def test_groups_are_described_listed_and_deleted(
    client: WireClient, door: KafkaDoor, topic: str
) -> None:
    thread = StreamsThread(client, "one")
    await thread.join(
        client_tags=[{"key": "zone", "value": "z1"}], user_endpoint={"host": "h", "port": 1}
    )
    await thread.beat()
    described = await client.call("streams_group_describe", group_ids=["g", "nobody"])
    found, missing = described.groups
    assert missing.error_code is ErrorCode.group_id_not_found
    assert missing.topology is None
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 2, 2)
    assert [each.subtopology_id for each in found.topology.subtopologies] == ["0", "1"]
    (log,) = found.topology.subtopologies[1].state_changelog_topics
    assert (log.name, log.partitions) == ("g-counts-changelog", 3)
    (member,) = found.members
    assert (member.member_id, member.process_id) == ("one", "process-one")
    assert [(tag.key, tag.value) for tag in member.client_tags] == [("zone", "z1")]
    assert member.assignment == member.target_assignment
    assert [task.subtopology_id for task in member.assignment.active_tasks] == ["0", "1"]
    listed = await client.call("list_groups", types_filter=["streams"])
    assert [(g.group_id, g.group_type, g.protocol_type) for g in listed.groups] == [
        ("g", "Streams", "streams")
    ]
    host, port = door.address
    async with KafkaAdmin(f"{host}:{port}") as admin:
        facts = await GroupAdmin(admin).describe("g")
        assert await GroupAdmin(admin).describe("nobody") is None
    assert facts is not None
    assert (facts.type, facts.state, facts.assignor) == ("streams", "Stable", "sticky")
    assert facts.members[0].partitions == tuple(
        (name, n) for name in ("in", "g-words-repartition") for n in range(3)
    )
    deleted = await client.call("delete_groups", groups_names=["g"])
    assert deleted.results[0].error_code is ErrorCode.non_empty_group
    await thread.beat(member_epoch=-1)
    deleted = await client.call("delete_groups", groups_names=["g"])
    assert deleted.results[0].error_code is ErrorCode.none


async def test_members_commit_with_their_epoch(client: WireClient, topic: str) -> None:
    thread = StreamsThread(client, "one")
    await thread.join()
    await thread.beat()

    async def code(epoch: int, version: int = 9) -> ErrorCode:
        partition = {"partition_index": 0, "committed_offset": 0}
        answer = await client.call(
            "offset_commit",
            version,
            group_id="g",
            generation_id_or_member_epoch=epoch,
            member_id="one",
            topics=[{"name": "in", "partitions": [partition]}],
        )
        found: ErrorCode = answer.topics[0].partitions[0].error_code
        return found

    assert await code(thread.epoch) is ErrorCode.none
    assert await code(thread.epoch - 1) is ErrorCode.stale_member_epoch


async def test_an_overview_shows_what_active_tasks_read(
    client: WireClient, broker: Node, topic: str
) -> None:
    thread = StreamsThread(client, "one")
    await thread.join()
    await thread.beat()
    seen = await BrokerService(broker).groups.overview(ANYONE, "g")
    assert (seen.kind.value, seen.state) == ("Streams", "Stable")
    assert [str(place) for place in seen.members[0].held] == [
        f"{name}-{n}" for name in ("in", "g-words-repartition") for n in range(3)
    ]
    assert seen.members[0].topics == ("in",)
