"""Groups of the consumer protocol (KIP-848) over the wire."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.model.topics import NewTopic
from goqueue.pace import Pace
from goqueue.service.broker_service import BrokerService
from goqueue.state.groups.topic_regex import TopicRegex
from tests.callers import ANYONE
from tests.unit.doors.kafka.group_member import until
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def topic_id(broker: Node) -> UUID:
    new = NewTopic(name="a", partitions=4, config={"partition.growth": "plain"})
    created = await BrokerService(broker).topics.create(ANYONE, new)
    return created.topic.id


async def beat(client: WireClient, version: int = 1, **fields: Any) -> Any:
    unchanged = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
    return await client.call(
        "consumer_group_heartbeat", version, **{"group_id": "g", **unchanged, **fields}
    )


def joining(member_id: str, **more: Any) -> dict[str, Any]:
    return {
        "member_id": member_id,
        "member_epoch": 0,
        "rebalance_timeout": 10_000,
        "subscribed_topic_names": ["a"],
        "topic_partitions": [],
        **more,
    }


def partitions(answer: Any) -> dict[UUID, tuple[int, ...]]:
    return {t.topic_id: t.partitions for t in answer.assignment.topic_partitions}


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_joins_stays_and_leaves(
    client: WireClient, topic_id: UUID, version: int
) -> None:
    # Version 1 members bring their id; those of version 0 are given one.
    joined = await beat(client, version, **joining("me" if version else ""))
    assert (joined.error_code, joined.member_epoch) == (ErrorCode.none, 1)
    assert joined.member_id == "me" if version else joined.member_id
    assert partitions(joined) == {topic_id: (0, 1, 2, 3)}
    # Few members: heard from more often than `group.consumer.heartbeat.interval.ms` says.
    assert joined.heartbeat_interval.total_seconds() == 0.5
    me = {"member_id": joined.member_id}
    owned = [{"topic_id": topic_id, "partitions": [0, 1, 2, 3]}]
    again = await beat(client, version, **me, member_epoch=1, topic_partitions=owned)
    assert (again.error_code, again.member_epoch, again.assignment) == (ErrorCode.none, 1, None)
    left = await beat(client, version, **me, member_epoch=-1)
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, -1)
    gone = await beat(client, version, **me, member_epoch=1)
    assert gone.error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_request),
        ({"member_id": ""}, ErrorCode.invalid_request),
        ({"member_epoch": -3}, ErrorCode.invalid_request),
        ({"instance_id": ""}, ErrorCode.invalid_request),
        ({"rack_id": ""}, ErrorCode.invalid_request),
        ({"rebalance_timeout": -1}, ErrorCode.invalid_request),
        ({"topic_partitions": None}, ErrorCode.invalid_request),
        ({"subscribed_topic_names": None}, ErrorCode.invalid_request),
        ({"server_assignor": "none"}, ErrorCode.unsupported_assignor),
        ({"subscribed_topic_regex": "("}, ErrorCode.invalid_regular_expression),
        ({"member_epoch": 3}, ErrorCode.group_id_not_found),
    ],
)
async def test_bad_heartbeats_are_refused_and_leave_no_group(
    client: WireClient, changed: dict[str, Any], code: ErrorCode
) -> None:
    answer = await beat(client, **{**joining("me"), **changed})
    assert answer.error_code is code
    assert answer.error_message
    assert (await client.call("list_groups")).groups == ()


async def test_stale_and_foreign_epochs_are_fenced(client: WireClient) -> None:
    await beat(client, **joining("me"))
    stale = await beat(client, member_id="me", member_epoch=7)
    assert stale.error_code is ErrorCode.fenced_member_epoch
    nobody = await beat(client, member_id="nobody", member_epoch=1)
    assert nobody.error_code is ErrorCode.unknown_member_id


async def test_an_instance_has_one_member(client: WireClient, topic_id: UUID) -> None:
    await beat(client, **joining("me", instance_id="i"))
    second = await beat(client, **joining("you", instance_id="i"))
    assert second.error_code is ErrorCode.unreleased_instance_id
    await beat(client, member_id="me", member_epoch=-2, instance_id="i")
    second = await beat(client, **joining("you", instance_id="i"))
    assert second.error_code is ErrorCode.none
    assert partitions(second) == {topic_id: (0, 1, 2, 3)}


@pytest.mark.parametrize("assignor", ["uniform", "range"])
async def test_partitions_move_only_when_given_up(
    client: WireClient, topic_id: UUID, assignor: str
) -> None:
    await beat(client, **joining("first", server_assignor=assignor))
    second = await beat(client, **joining("second", server_assignor=assignor))
    assert partitions(second) == {}
    told = await beat(client, member_id="first", member_epoch=1)
    (kept,) = partitions(told).values()
    assert len(kept) == 2
    second = await beat(client, member_id="second", member_epoch=2)
    assert second.assignment is None, "nothing is given up yet"
    owned = [{"topic_id": topic_id, "partitions": kept}]
    await beat(client, member_id="first", member_epoch=1, topic_partitions=owned)
    second = await beat(client, member_id="second", member_epoch=2)
    (given,) = partitions(second).values()
    assert sorted(kept + given) == [0, 1, 2, 3]


async def test_new_partitions_and_topics_reach_members(client: WireClient, broker: Node) -> None:
    await beat(client, **joining("me", subscribed_topic_names=None, subscribed_topic_regex="a.*"))
    await BrokerService(broker).topics.create_partitions(ANYONE, "a", 5)
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="ab", partitions=1))

    async def has_all() -> bool:
        answer = await beat(
            client,
            **joining("me", subscribed_topic_names=None, subscribed_topic_regex="a.*"),
        )
        return sorted(partitions(answer).values()) == [(0,), (0, 1, 2, 3, 4)]

    await until(has_all)


async def test_a_pattern_is_held_against_topics_in_slices(
    client: WireClient, broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each name is a slice here: nothing is left for the machine's own step."""
    for name in ("ab", "ac", "b"):
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name=name, partitions=1))
    monkeypatch.setattr(Pace, "is_over", True)
    rests: list[int] = []
    matched: list[str] = []
    rest, matches = Pace.rest, TopicRegex.matches

    async def rested(pace: Pace) -> None:
        rests.append(len(matched))
        await rest(pace)

    def counted(regex: TopicRegex, name: str) -> bool:
        matched.append(name)
        return matches(regex, name)

    monkeypatch.setattr(Pace, "rest", rested)
    monkeypatch.setattr(TopicRegex, "matches", counted)
    subscribed = {"subscribed_topic_names": None, "subscribed_topic_regex": "a.*"}
    answer = await beat(client, **joining("me", **subscribed))
    assert sorted(partitions(answer).values()) == [(0,), (0,), (0, 1, 2, 3)]
    assert sorted(matched) == ["a", "ab", "ac", "b"]
    assert [number for number in rests if number] == [1, 2, 3, 4]


@pytest.mark.parametrize("version", [0, 1])
async def test_groups_are_described(client: WireClient, topic_id: UUID, version: int) -> None:
    await beat(client, **joining("me", rack_id="r", subscribed_topic_regex="x.*"))
    answer = await client.call(
        "consumer_group_describe",
        version,
        group_ids=["g", "none"],
        include_authorized_operations=True,
    )
    group, missing = answer.groups
    assert missing.error_code is ErrorCode.group_id_not_found
    assert (group.error_code, group.group_state) == (ErrorCode.none, "Stable")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (1, 1, "uniform")
    assert group.authorized_operations > 0
    (member,) = group.members
    assert (member.member_id, member.rack_id, member.member_epoch) == ("me", "r", 1)
    assert (member.client_id, member.client_host) == ("test", "/127.0.0.1")
    assert member.subscribed_topic_names == ("a",)
    assert member.subscribed_topic_regex == "x.*"
    for assigned in (member.assignment, member.target_assignment):
        (topic,) = assigned.topic_partitions
        assert (topic.topic_id, topic.topic_name) == (topic_id, "a")
        assert topic.partitions == (0, 1, 2, 3)
    if version >= 1:
        assert member.member_type == 1


async def test_each_kind_of_group_has_its_own_description(client: WireClient) -> None:
    await beat(client, **joining("me"))
    classic = await client.call("describe_groups", groups=["g"])
    assert classic.groups[0].error_code is ErrorCode.group_id_not_found
    listed = await client.call("list_groups", types_filter=["consumer"])
    assert [(g.group_id, g.group_state) for g in listed.groups] == [("g", "Stable")]
    refused = await client.call("delete_groups", groups_names=["g"])
    assert refused.results[0].error_code is ErrorCode.non_empty_group


async def test_unknown_owned_topics_do_no_harm(client: WireClient) -> None:
    await beat(client, **joining("me"))
    owned = [{"topic_id": uuid4(), "partitions": [0]}, {"topic_id": None, "partitions": [1]}]
    answer = await beat(client, member_id="me", member_epoch=1, topic_partitions=owned)
    assert answer.error_code is ErrorCode.none
