"""What members say and are assigned is bounded, by member, by group and for all groups; so are the
offsets that groups commit."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    ConsumerGroupHeartbeat,
    JoinGroup,
    JoinGroupResult,
    MemberProtocol,
    OffsetCommit,
    OffsetToCommit,
    SyncGroup,
)
from goqueue.model.groups.share_messages import ShareGroupHeartbeat
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.service.groups.groups import GroupService
from tests.callers import ANYONE

pytestmark = pytest.mark.anyio

TOO_LARGE = GroupError.GROUP_MAX_SIZE_REACHED


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[BrokerService]:
    texts = {
        "data.dir": str(tmp_path / "data"),
        "group.initial.rebalance.delay.ms": "0",
        "group.member.max.bytes": "2000",
        "group.max.bytes": "3000",
        "all.groups.max.bytes": "100000",
    }
    node = await Node.open(broker_config(texts))
    yield BrokerService(node)
    await node.close()


@pytest.fixture
def groups(service: BrokerService) -> GroupService:
    return service.groups


async def join(
    groups: GroupService,
    size: int,
    member_id: str = "",
    instance: str | None = None,
    group: str = "g",
) -> JoinGroupResult:
    half = size // 2 - len("range")
    request = JoinGroup(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=tuple(
            MemberProtocol(name=name, metadata=bytes(half)) for name in ("range", "other")
        ),
        requires_known_member_id=False,
    )
    return await groups.join(ANYONE, request)


async def test_one_member(groups: GroupService) -> None:
    assert (await join(groups, 2_002)).error is TOO_LARGE
    joined = await join(groups, 2_000)
    assert joined.error is GroupError.NONE
    assert (await join(groups, 2_002, joined.member_id)).error is TOO_LARGE
    assert (await join(groups, 2_000, joined.member_id)).error is GroupError.NONE


async def test_a_group(groups: GroupService) -> None:
    """A static member that comes back takes its own place."""
    first = await join(groups, 2_000, instance="one")
    assert first.error is GroupError.NONE
    assert (await join(groups, 1_002)).error is TOO_LARGE
    assert (await join(groups, 2_000, instance="one")).error is GroupError.NONE


async def test_assignments(groups: GroupService) -> None:
    joined = await join(groups, 1_000)

    async def sync(size: int) -> GroupError:
        request = SyncGroup(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments={joined.member_id: bytes(size), "nobody": bytes(10_000)},
        )
        return (await groups.sync(ANYONE, request)).error

    assert await sync(2_001) is TOO_LARGE
    assert await sync(2_000) is GroupError.NONE


async def test_members_of_consumer_groups(groups: GroupService) -> None:
    """Names count for more than their characters: a thousand short ones are work, too."""

    async def heartbeat(member: str, topics: int) -> GroupError:
        request = ConsumerGroupHeartbeat(
            group_id="c",
            member_id=member,
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topics=tuple(str(number) for number in range(topics)),
            owned={},
        )
        return (await groups.consumer_heartbeat(ANYONE, request)).error

    assert await heartbeat("one", 1_000) is TOO_LARGE
    assert await heartbeat("one", 30) is GroupError.NONE
    assert await heartbeat("two", 30) is TOO_LARGE
    assert await heartbeat("one", 20) is GroupError.NONE
    assert await heartbeat("two", 20) is GroupError.NONE


async def test_members_of_share_groups(service: BrokerService) -> None:
    async def heartbeat(member: str, topics: int) -> GroupError:
        request = ShareGroupHeartbeat(
            group_id="s",
            member_id=member,
            member_epoch=0,
            subscribed_topics=tuple(str(number) for number in range(topics)),
        )
        return (await service.share_groups.heartbeat(ANYONE, request)).error

    assert await heartbeat("one", 1_000) is TOO_LARGE
    assert await heartbeat("one", 30) is GroupError.NONE
    assert await heartbeat("two", 60) is TOO_LARGE
    assert await heartbeat("two", 20) is GroupError.NONE


async def test_all_groups_together(groups: GroupService) -> None:
    """Those that are there go on when there is no room for more."""
    joined = [await join(groups, 2_000, group=f"g{number}") for number in range(60)]
    errors = [each.error for each in joined]
    assert set(errors) == {GroupError.NONE, TOO_LARGE}
    assert 15 < errors.index(TOO_LARGE) < 50
    member_id = joined[0].member_id
    assert (await join(groups, 2_000, member_id, group="g0")).error is GroupError.NONE
    assert (await join(groups, 2_000, "", group="another")).error is TOO_LARGE


async def test_offsets_of_all_groups_together(service: BrokerService) -> None:
    await service.topics.create(ANYONE, NewTopic(name="t", partitions=10))

    async def commit(group: str, note: int) -> list[GroupError]:
        request = OffsetCommit(
            group_id=group,
            offsets=tuple(
                OffsetToCommit(topic="t", partition=number, offset=1, metadata="n" * note)
                for number in range(10)
            ),
        )
        result = await service.groups.commit(ANYONE, request)
        return [each.error for each in result.partitions]

    for number in range(100):
        errors = await commit(f"g{number}", 1_000)
        if TOO_LARGE in errors:
            break
    assert 5 < number < 10
    assert set(await commit("g0", 1_000)) == {GroupError.NONE}
    assert set(await commit("g0", 2_000)) >= {TOO_LARGE}
    assert set(await commit("g0", 10)) == {GroupError.NONE}
