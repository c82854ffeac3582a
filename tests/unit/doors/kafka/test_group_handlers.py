"""Classic groups over the wire: finding the coordinator, joining, syncing, leaving, describing."""

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.group_member import ClassicMember, until
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings() -> dict[str, str]:
    return {"group.initial.rebalance.delay.ms": "0", "group.max.size": "2"}


@pytest.fixture
async def member(door: KafkaDoor) -> ClassicMember:
    return await ClassicMember.connect(door, "g")


# --- ApiVersions: features --------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 4])
async def test_features_are_finalized(client: WireClient, version: int) -> None:
    answer = await client.call(
        "api_versions", version, client_software_name="x", client_software_version="1"
    )
    assert answer.finalized_features_epoch >= 0
    finalized = {
        f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features
    }
    assert finalized == {
        "group.version": (1, 1),
        "share.version": (1, 1),
        "streams.version": (1, 1),
        "transaction.version": (2, 2),
    }
    supported = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
    expected = {
        "group.version": (0, 1),
        "share.version": (0, 1),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
    }
    assert supported == (expected if version >= 4 else {}), "KIP-1022: none with 0 before version 4"


# --- FindCoordinator --------------------------------------------------------------------------


@pytest.mark.parametrize("key_type", [0, 1])
@pytest.mark.parametrize("version", range(7))
async def test_the_coordinator_is_found(
    client: WireClient, door: KafkaDoor, version: int, key_type: int
) -> None:
    kind = {"key_type": key_type} if version >= 1 else {}
    if version >= 4:
        answer = await client.call("find_coordinator", version, coordinator_keys=["a", "b"], **kind)
        assert [found.key for found in answer.coordinators] == ["a", "b"]
        found = answer.coordinators[0]
    else:
        found = await client.call("find_coordinator", version, key="a", **kind)
    assert found.error_code is ErrorCode.none
    assert (found.node_id, (found.host, found.port)) == (0, door.address)


@pytest.mark.parametrize(("key_type", "key"), [(2, "a"), (7, "a"), (-1, "a"), (1, "")])
@pytest.mark.parametrize("version", [1, 3, 4, 6])
async def test_what_has_no_coordinator_is_refused(
    client: WireClient, version: int, key_type: int, key: str
) -> None:
    if version >= 4:
        answer = await client.call(
            "find_coordinator", version, key_type=key_type, coordinator_keys=[key]
        )
        found = answer.coordinators[0]
    else:
        found = await client.call("find_coordinator", version, key_type=key_type, key=key)
    assert found.error_code is ErrorCode.invalid_request
    assert (found.node_id, found.host, found.port) == (-1, "", -1)


# --- JoinGroup, SyncGroup ---------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
async def test_a_member_joins(member: ClassicMember, version: int) -> None:
    joined = await member.join(version)
    assert joined.error_code is ErrorCode.none
    assert joined.generation_id == 1
    assert joined.protocol_name == "range"
    assert joined.leader == joined.member_id == member.member_id
    assert member.member_id.startswith("test-")
    (listed,) = joined.members
    assert (listed.member_id, bytes(listed.metadata)) == (member.member_id, b"mine")
    if version >= 7:
        assert joined.protocol_type == "consumer"


@pytest.mark.parametrize("version", range(4, 10))
async def test_a_new_member_is_told_its_id_first(client: WireClient, version: int) -> None:
    answer = await client.call(
        "join_group",
        version,
        group_id="g",
        session_timeout=10_000,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    assert answer.error_code is ErrorCode.member_id_required
    assert answer.member_id


@pytest.mark.parametrize("version", range(6))
async def test_the_assignment_is_brought_and_fetched(member: ClassicMember, version: int) -> None:
    await member.join()
    synced = await member.sync({member.member_id: b"assigned"}, version)
    assert synced.error_code is ErrorCode.none
    assert bytes(synced.assignment) == b"assigned"
    if version >= 5:
        assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize("version", [0, 4, 5, 6, 7, 9])
@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"session_timeout": 1}, ErrorCode.invalid_session_timeout),
        ({"session_timeout": 2**31 - 1}, ErrorCode.invalid_session_timeout),
        ({"protocols": []}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": ""}, ErrorCode.inconsistent_group_protocol),
        ({"member_id": "nobody"}, ErrorCode.unknown_member_id),
    ],
)
async def test_bad_joins_are_refused_and_leave_no_group(
    client: WireClient, broker: Node, version: int, changed: dict[str, Any], code: ErrorCode
) -> None:
    fields: dict[str, Any] = {
        "group_id": "g",
        "session_timeout": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    answer = await client.call("join_group", version, **{**fields, **changed})
    assert answer.error_code is code
    assert (answer.generation_id, answer.members) == (-1, ())
    listed = await client.call("list_groups")
    assert listed.groups == ()


@pytest.mark.parametrize("version", [0, 3, 5])
@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"group_id": "other"}, ErrorCode.unknown_member_id),
        ({"member_id": "nobody"}, ErrorCode.unknown_member_id),
        ({"generation_id": 2}, ErrorCode.illegal_generation),
        ({"generation_id": 0}, ErrorCode.illegal_generation),
    ],
)
async def test_bad_syncs_are_refused(
    member: ClassicMember, version: int, changed: dict[str, Any], code: ErrorCode
) -> None:
    await member.join()
    fields = {"group_id": "g", "member_id": member.member_id, "generation_id": 1, **changed}
    answer = await member.client.call("sync_group", version, **fields)
    assert (answer.error_code, answer.assignment) == (code, b"")
    assert await member.heartbeat() is ErrorCode.none


async def test_another_protocol_than_the_groups_is_refused(member: ClassicMember) -> None:
    await member.join()
    answer = await member.sync(protocol_type="connect", protocol_name="range")
    assert answer.error_code is ErrorCode.inconsistent_group_protocol
    answer = await member.sync(protocol_type="consumer", protocol_name="sticky")
    assert answer.error_code is ErrorCode.inconsistent_group_protocol


async def test_two_members_rebalance_and_a_third_is_too_many(door: KafkaDoor) -> None:
    first, second, third = [await ClassicMember.connect(door, "g") for _ in range(3)]
    await first.settle()
    joining = asyncio.create_task(second.join())

    async def told() -> bool:
        return await first.heartbeat() is ErrorCode.rebalance_in_progress

    await until(told)
    await first.join()
    await joining
    assert first.generation_id == second.generation_id == 2
    waiting = asyncio.create_task(second.sync())
    mine = await first.sync({first.member_id: b"1", second.member_id: b"2"})
    assert (bytes(mine.assignment), bytes((await waiting).assignment)) == (b"1", b"2")
    refused = await third.join()
    assert refused.error_code is ErrorCode.group_max_size_reached


async def test_a_leader_that_went_away_while_it_waited_leaves_a_usable_group(
    door: KafkaDoor,
) -> None:
    fields = {"session_timeout": 6_000}
    first, second = [await ClassicMember.connect(door, "g", **fields) for _ in range(2)]
    await first.settle()
    joining = asyncio.create_task(second.join())

    async def told() -> bool:
        return await first.heartbeat() is ErrorCode.rebalance_in_progress

    await until(told)
    joining.cancel()
    second.client.close()
    await first.join()
    synced = await first.sync({first.member_id: b"all"})
    assert synced.error_code is ErrorCode.none


# --- Heartbeat, LeaveGroup --------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
async def test_heartbeats(member: ClassicMember, version: int) -> None:
    await member.settle()
    assert await member.heartbeat(version) is ErrorCode.none
    assert await member.heartbeat(version, generation_id=7) is ErrorCode.illegal_generation
    assert await member.heartbeat(version, member_id="nobody") is ErrorCode.unknown_member_id
    answer = await member.client.call("heartbeat", version, group_id="", member_id="x")
    assert answer.error_code is ErrorCode.invalid_group_id
    while True:
        answer = await member.client.call("heartbeat", version, group_id="no group", member_id="x")
        # It belongs to another partition of the offsets, which may not be loaded yet.
        if answer.error_code is not ErrorCode.coordinator_load_in_progress:
            break
    assert answer.error_code is ErrorCode.unknown_member_id
    assert await member.heartbeat(version) is ErrorCode.none


@pytest.mark.parametrize("version", range(3))
async def test_one_member_leaves(member: ClassicMember, version: int) -> None:
    await member.settle()

    async def leave(group_id: str, member_id: str) -> ErrorCode:
        answer = await member.client.call(
            "leave_group", version, group_id=group_id, member_id=member_id
        )
        code: ErrorCode = answer.error_code
        return code

    assert await leave("", member.member_id) is ErrorCode.invalid_group_id
    assert await leave("g", "nobody") is ErrorCode.unknown_member_id
    assert await leave("g", member.member_id) is ErrorCode.none
    assert await leave("g", member.member_id) is ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", range(3, 6))
async def test_members_leave_by_id_and_by_instance(door: KafkaDoor, version: int) -> None:
    static = await ClassicMember.connect(door, "g", group_instance_id="instance")
    await static.settle()
    answer = await static.client.call(
        "leave_group",
        version,
        group_id="g",
        members=[
            {"member_id": "nobody"},
            {"member_id": "nobody", "group_instance_id": "instance"},
            {"member_id": "", "group_instance_id": "instance"},
        ],
    )
    assert answer.error_code is ErrorCode.none
    assert [m.error_code for m in answer.members] == [
        ErrorCode.unknown_member_id,
        ErrorCode.fenced_instance_id,
        ErrorCode.none,
    ]
    refused = await static.client.call("leave_group", version, group_id="none", members=())
    assert refused.error_code is ErrorCode.unknown_member_id


async def test_a_static_member_comes_back_without_a_rebalance(door: KafkaDoor) -> None:
    before = await ClassicMember.connect(door, "g", group_instance_id="instance")
    await before.settle()
    after = await ClassicMember.connect(door, "g", group_instance_id="instance")
    joined = await after.join()
    assert (joined.error_code, joined.generation_id) == (ErrorCode.none, 1)
    assert joined.skip_assignment
    assert bytes((await after.sync()).assignment) == b"all"
    code = await before.heartbeat(group_instance_id="instance")
    assert code is ErrorCode.fenced_instance_id


# --- DescribeGroups, ListGroups, DeleteGroups -------------------------------------------------


@pytest.mark.parametrize("version", range(7))
async def test_groups_are_described(member: ClassicMember, version: int) -> None:
    await member.settle()
    asks = {"include_authorized_operations": True} if version >= 3 else {}
    answer = await member.client.call("describe_groups", version, groups=["g", "none"], **asks)
    group, missing = answer.groups
    assert (group.error_code, group.group_state) == (ErrorCode.none, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (described,) = group.members
    assert described.member_id == member.member_id
    assert (described.client_id, described.client_host) == ("test", "/127.0.0.1")
    assert bytes(described.member_metadata) == b"mine"
    assert bytes(described.member_assignment) == b"all"
    assert (missing.group_state, missing.members) == ("Dead", ())
    found = ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none
    assert missing.error_code is found
    if version >= 3:
        assert group.authorized_operations > 0


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed(member: ClassicMember, version: int) -> None:
    await member.settle()
    answer = await member.client.call("list_groups", version)
    while answer.error_code is ErrorCode.coordinator_load_in_progress:
        # Other parts of the groups' topic than that of this group.
        answer = await member.client.call("list_groups", version)
    assert answer.error_code is ErrorCode.none
    (listed,) = answer.groups
    assert (listed.group_id, listed.protocol_type) == ("g", "consumer")
    if version >= 4:
        assert listed.group_state == "Stable"
        none = await member.client.call("list_groups", version, states_filter=["Empty"])
        some = await member.client.call("list_groups", version, states_filter=["stable", "Dead"])
        assert (len(none.groups), len(some.groups)) == (0, 1)
    if version >= 5:
        assert listed.group_type.lower() == "classic"
        none = await member.client.call("list_groups", version, types_filter=["consumer"])
        some = await member.client.call("list_groups", version, types_filter=["classic"])
        assert (len(none.groups), len(some.groups)) == (0, 1)


@pytest.mark.parametrize("version", range(3))
async def test_empty_groups_are_deleted(member: ClassicMember, version: int) -> None:
    await member.settle()
    client = member.client
    answer = await client.call("delete_groups", version, groups_names=["g", "none", ""])
    assert [r.error_code for r in answer.results] == [
        ErrorCode.non_empty_group,
        ErrorCode.group_id_not_found,
        ErrorCode.group_id_not_found,
    ]
    await client.call("leave_group", 2, group_id="g", member_id=member.member_id)
    answer = await client.call("delete_groups", version, groups_names=["g"])
    assert answer.results[0].error_code is ErrorCode.none
    assert (await client.call("list_groups")).groups == ()


async def test_groups_survive_a_restart(door: KafkaDoor, broker: Node) -> None:
    member = await ClassicMember.connect(door, "g")
    await member.settle()
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=1))
    await door.stop()
    await broker.close()
    again = await Node.open(broker.config)
    reopened = KafkaDoor(BrokerService(again), again.config)
    try:
        await again.announce(*await reopened.start(), 0)
        member.client = await WireClient.connect(*reopened.address)
        assert await member.heartbeat() is ErrorCode.none
        answer = await member.client.call("describe_groups", groups=["g"])
        assert bytes(answer.groups[0].members[0].member_assignment) == b"all"
    finally:
        await reopened.stop()
        await again.close()
