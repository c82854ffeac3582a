"""What members of classic groups say and are assigned is bounded, by member and by group."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import JoinGroup, JoinGroupResult, MemberProtocol, SyncGroup
from goqueue.service.broker_service import BrokerService
from goqueue.service.groups import GroupService
from tests.callers import ANYONE

pytestmark = pytest.mark.anyio

TOO_LARGE = GroupError.GROUP_MAX_SIZE_REACHED


@pytest.fixture
async def groups(tmp_path: Path) -> AsyncIterator[GroupService]:
    texts = {
        "data.dir": str(tmp_path / "data"),
        "group.initial.rebalance.delay.ms": "0",
        "group.member.max.bytes": "2000",
        "group.max.bytes": "3000",
    }
    node = await Node.open(broker_config(texts))
    yield BrokerService(node).groups
    await node.close()


async def join(
    groups: GroupService, size: int, member_id: str = "", instance: str | None = None
) -> JoinGroupResult:
    half = size // 2 - len("range")
    request = JoinGroup(
        group_id="g",
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
