"""Offsets of groups over the wire: OffsetCommit, OffsetFetch, OffsetDelete."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.group_member import ClassicMember
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)
FIRST_VERSION_WITH_ID = 10


@pytest.fixture
def settings() -> dict[str, str]:
    return {"group.initial.rebalance.delay.ms": "0", "offset.metadata.max.bytes": "10"}


@pytest.fixture(autouse=True)
async def topic_id(broker: Node) -> UUID:
    created = await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=2))
    return created.topic.id


def named(version: int, topic_id: UUID | None) -> dict[str, Any]:
    return {"topic_id": topic_id} if version >= FIRST_VERSION_WITH_ID else {"name": "a"}


def to_commit(index: int, offset: int, metadata: str | None = "m") -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": offset,
        "committed_metadata": metadata,
    }


async def commit(
    client: WireClient,
    version: int,
    topic: dict[str, Any],
    *parts: dict[str, Any],
    group_id: str = "g",
    **more: Any,
) -> list[ErrorCode]:
    answer = await client.call(
        "offset_commit",
        version,
        group_id=group_id,
        topics=[{**topic, "partitions": parts}],
        **{"generation_id_or_member_epoch": -1, **more},
    )
    (answered,) = answer.topics
    assert [p.partition_index for p in answered.partitions] == [p["partition_index"] for p in parts]
    return [p.error_code for p in answered.partitions]


async def committed(client: WireClient, group_id: str = "g") -> dict[int, tuple[int, str]]:
    answer = await client.call("offset_fetch", 7, group_id=group_id, topics=None)
    return {
        p.partition_index: (p.committed_offset, p.metadata)
        for topic in answer.topics
        for p in topic.partitions
    }


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
async def test_offsets_are_committed(client: WireClient, topic_id: UUID, version: int) -> None:
    topic = named(version, topic_id)
    codes = await commit(client, version, topic, to_commit(0, 5), to_commit(1, 7, None))
    assert codes == [ErrorCode.none] * 2
    assert await committed(client) == {0: (5, "m"), 1: (7, "")}


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
async def test_bad_offsets_are_refused_each_for_itself(
    client: WireClient, topic_id: UUID, version: int
) -> None:
    topic = named(version, topic_id)
    parts = to_commit(0, -1), to_commit(1, 7), to_commit(2, 1), to_commit(-1, 1)
    unknown = ErrorCode.unknown_topic_or_partition
    codes = await commit(client, version, topic, *parts)
    assert codes == [ErrorCode.invalid_request, ErrorCode.none, unknown, unknown]
    codes = await commit(client, version, topic, to_commit(1, 8, "x" * 11))
    assert codes == [ErrorCode.offset_metadata_too_large]
    assert await committed(client) == {1: (7, "m")}


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
async def test_unknown_topics_are_refused(client: WireClient, version: int) -> None:
    by_id = version >= FIRST_VERSION_WITH_ID
    topics: list[dict[str, Any]] = [{"topic_id": uuid4()}, {"topic_id": None}]
    for topic in topics if by_id else [{"name": "none"}]:
        codes = await commit(client, version, topic, to_commit(0, 5))
        code = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
        assert codes == [code]
    assert await committed(client) == {}


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
async def test_only_members_of_this_generation_commit(
    door: KafkaDoor, client: WireClient, topic_id: UUID, version: int
) -> None:
    member = await ClassicMember.connect(door, "g")
    await member.settle()
    topic = named(version, topic_id)

    async def code(generation_id: int, member_id: str, group_id: str = "g") -> ErrorCode:
        (code,) = await commit(
            client,
            version,
            topic,
            to_commit(0, 5),
            group_id=group_id,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
        )
        return code

    assert await code(2, member.member_id) is ErrorCode.illegal_generation
    assert await code(0, member.member_id) is ErrorCode.illegal_generation
    assert await code(1, "nobody") is ErrorCode.unknown_member_id
    assert await code(-1, "") is ErrorCode.unknown_member_id
    missing = ErrorCode.group_id_not_found if version >= 9 else ErrorCode.illegal_generation
    assert await code(1, "nobody", "none") is missing
    assert await committed(client) == {}
    assert await code(1, member.member_id) is ErrorCode.none
    assert await committed(client) == {0: (5, "m")}


async def test_a_retention_of_the_clients_own_is_taken(client: WireClient) -> None:
    for version in (2, 3, 4):
        topic = {"name": "a"}
        codes = await commit(client, version, topic, to_commit(0, 5), retention_time=1_000)
        assert codes == [ErrorCode.none]
    assert await committed(client) == {0: (5, "m")}


async def test_offsets_may_be_kept_for_ever(client: WireClient) -> None:
    client.writer.write(
        bytes.fromhex("00000034 0008 0002 00000001 ffff")  # OffsetCommit 2
        + bytes.fromhex("0001 67 ffffffff 0000 7fffffffffffffff")  # g, no member, all the time
        + bytes.fromhex("00000001 0001 61 00000001 00000000 0000000000000005 0000")
    )
    frame = await client.receive_frame()
    assert frame[-2:] == b"\x00\x00"
    assert await committed(client) == {0: (5, "")}


@pytest.mark.parametrize("version", FETCH_VERSIONS)
async def test_offsets_are_fetched(client: WireClient, topic_id: UUID, version: int) -> None:
    await commit(client, 9, {"name": "a"}, to_commit(1, 7))
    asked = {**named(version, topic_id), "partition_indexes": [0, 1]}
    if version >= 8:
        answer = await client.call(
            "offset_fetch",
            version,
            groups=[{"group_id": "g", "topics": [asked]}, {"group_id": "other", "topics": None}],
        )
        group, other = answer.groups
        assert (other.group_id, other.error_code, other.topics) == ("other", ErrorCode.none, ())
    else:
        group = await client.call("offset_fetch", version, group_id="g", topics=[asked])
    (topic,) = group.topics
    assert [(p.committed_offset, p.metadata, p.error_code) for p in topic.partitions] == [
        (-1, "", ErrorCode.none),
        (7, "m", ErrorCode.none),
    ]


@pytest.mark.parametrize("version", range(2, 11))
async def test_all_offsets_of_a_group_are_fetched(
    client: WireClient, topic_id: UUID, version: int
) -> None:
    await commit(client, 9, {"name": "a"}, to_commit(1, 7))
    if version >= 8:
        answer = await client.call(
            "offset_fetch", version, groups=[{"group_id": "g", "topics": None}]
        )
        group = answer.groups[0]
    else:
        group = await client.call("offset_fetch", version, group_id="g", topics=None)
    (topic,) = group.topics
    assert getattr(topic, "topic_id", topic_id) == topic_id
    assert [(p.partition_index, p.committed_offset) for p in topic.partitions] == [(1, 7)]


async def test_an_unknown_topic_id_has_no_offsets(client: WireClient) -> None:
    asked = [{"topic_id": uuid4(), "partition_indexes": [0]}]
    answer = await client.call("offset_fetch", 10, groups=[{"group_id": "g", "topics": asked}])
    (part,) = answer.groups[0].topics[0].partitions
    assert (part.committed_offset, part.error_code) == (-1, ErrorCode.unknown_topic_id)


async def test_a_member_of_the_new_protocol_must_be_one(client: WireClient, topic_id: UUID) -> None:
    beat = await client.call(
        "consumer_group_heartbeat",
        group_id="new",
        member_id="m",
        member_epoch=0,
        rebalance_timeout=1_000,
        subscribed_topic_names=["a"],
        topic_partitions=[],
    )

    async def fetch(member_id: str, epoch: int) -> ErrorCode:
        group = {"group_id": "new", "member_id": member_id, "member_epoch": epoch, "topics": None}
        answer = await client.call("offset_fetch", 10, groups=[group])
        code: ErrorCode = answer.groups[0].error_code
        return code

    async def commit_as(version: int, member_id: str, epoch: int) -> ErrorCode:
        (code,) = await commit(
            client,
            version,
            named(version, topic_id),
            to_commit(0, 3),
            group_id="new",
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
        )
        return code

    epoch = beat.member_epoch
    assert await fetch("m", epoch) is ErrorCode.none
    assert await fetch("m", epoch + 1) is ErrorCode.stale_member_epoch
    assert await fetch("nobody", epoch) is ErrorCode.unknown_member_id
    assert await commit_as(8, "m", epoch) is ErrorCode.unsupported_version
    assert await commit_as(9, "m", epoch + 1) is ErrorCode.stale_member_epoch
    assert await commit_as(9, "nobody", epoch) is ErrorCode.unknown_member_id
    assert await committed(client, "new") == {}
    assert await commit_as(10, "m", epoch) is ErrorCode.none


async def delete_offsets(
    client: WireClient, group_id: str, topics: dict[str, list[int]]
) -> tuple[ErrorCode, list[ErrorCode]]:
    answer = await client.call(
        "offset_delete",
        group_id=group_id,
        topics=[
            {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
            for name, indexes in topics.items()
        ],
    )
    return answer.error_code, [p.error_code for t in answer.topics for p in t.partitions]


async def test_offsets_are_deleted(client: WireClient) -> None:
    await commit(client, 9, {"name": "a"}, to_commit(0, 5), to_commit(1, 7))
    unknown = ErrorCode.unknown_topic_or_partition
    codes = await delete_offsets(client, "g", {"a": [0, 2, -1], "none": [0]})
    assert codes == (ErrorCode.none, [ErrorCode.none, unknown, unknown, unknown])
    assert await committed(client) == {1: (7, "m")}
    assert await delete_offsets(client, "none", {"a": [0]}) == (ErrorCode.group_id_not_found, [])


async def test_offsets_of_members_are_not_deleted(door: KafkaDoor, client: WireClient) -> None:
    member = await ClassicMember.connect(door, "g", protocol_type="other")
    await member.settle()
    assert await delete_offsets(client, "g", {"a": [0]}) == (ErrorCode.non_empty_group, [])


async def test_offsets_go_with_their_topic(client: WireClient, broker: Node) -> None:
    await commit(client, 9, {"name": "a"}, to_commit(0, 5))
    await BrokerService(broker).topics.delete(ANYONE, "a")
    assert await committed(client) == {}
