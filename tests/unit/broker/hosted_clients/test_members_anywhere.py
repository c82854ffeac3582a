"""Members of groups that HTTP clients have at any broker: they live at the coordinator."""

import asyncio
from typing import Any

import pytest

from goqueue.broker.groups.anywhere import LIST
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.hosted_members import (
    ClassicJoin,
    CooperativeJoin,
    HostedMemberView,
    MemberPoll,
    OffsetReset,
)
from goqueue.model.groups.messages import Client, ListGroups, OffsetToCommit
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.names import NodeId
from goqueue.model.topics import OFFSETS_TOPIC
from tests.callers import ANYONE
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes

GROUP = "g"
CLIENT = Client(client_id="c", host="h")


async def started(nodes: Nodes, **settings: str) -> list[RunningNode]:
    """Each broker leads one of three partitions."""
    all_ = await nodes.start(1, 2, 3, **settings)
    await nodes.make_topic(3, config={"min.insync.replicas": "1"})
    for index in range(3):
        await nodes.until_in_sync(1, 2, 3, index=index)
    return all_


async def join(
    node: RunningNode, member_id: str = "", *, auto_commit: bool = False
) -> HostedMemberView:
    wanted = ClassicJoin(
        group_id=GROUP,
        topics=(TOPIC,),
        member_id=member_id,
        offset_reset=OffsetReset.EARLIEST,
        auto_commit=auto_commit,
        client=CLIENT,
    )
    return await node.service.members.join(ANYONE, wanted)


async def poll(
    node: RunningNode,
    member: HostedMemberView,
    *,
    after: int | None = None,
    timeout_ms: int = 0,
    max_records: int = 100,
) -> MemberPoll:
    return await node.service.members.poll(
        ANYONE,
        GROUP,
        member.member_id,
        max_records=max_records,
        timeout_ms=timeout_ms,
        after=after,
    )


def values(polled: MemberPoll) -> list[bytes]:
    return sorted((each.record.value or b"") for each in polled.records)


async def commit(node: RunningNode, member: HostedMemberView) -> None:
    done = await node.service.members.commit(
        ANYONE, GROUP, None, member_id=member.member_id, epoch=None
    )
    assert {each.error for each in done} <= {GroupError.NONE}


async def until_coordinated(nodes: Nodes, *, without: int) -> RunningNode:
    found: list[RunningNode] = []

    def has_leader() -> bool:
        found[:] = [
            node
            for node in nodes.running.values()
            if (hosted := node.node.hosted.get(OFFSETS_TOPIC, 0)) is not None
            and hosted.led is not None
            and node.id != without
        ]
        return bool(found)

    await nodes.until(has_leader)
    return found[0]


def waiters(node: RunningNode, index: int) -> int:
    led = node.replica(index).led
    assert led is not None
    return len(led.waiters)


@with_nodes
async def test_a_member_speaks_to_whichever_broker(nodes: Nodes) -> None:
    one, two, three = all_ = await started(nodes)
    for index, node in enumerate(all_):
        await node.produce(b"%d" % index, index=index)
    member = await join(one)
    assert len(member.assigned) == 3
    assert values(await poll(two, member)) == [b"0", b"1", b"2"]
    await commit(three, member)
    for node in all_:
        assert (await node.service.members.heartbeat(ANYONE, GROUP, member.member_id, None)).epoch
        seen = await node.service.groups.overview(ANYONE, GROUP)
        assert [each.member_id for each in seen.members] == [member.member_id]
        found = await node.service.groups.positions(ANYONE, seen)
        assert [(each.committed_offset, each.high_watermark, each.lag) for each in found] == [
            (1, 1, 0)
        ] * 3
        assert (await node.service.groups.rebalances(ANYONE, GROUP)).state == "Stable"
    await two.service.members.leave(ANYONE, GROUP, member.member_id, None)
    await three.service.groups.find_and_delete(ANYONE, GROUP)
    with pytest.raises(GroupRefused) as refused:
        await one.service.groups.overview(ANYONE, GROUP)
    assert refused.value.error is GroupError.GROUP_ID_NOT_FOUND


@with_nodes
async def test_cooperative_members_speak_to_whichever_broker(nodes: Nodes) -> None:
    one, two, three = await started(nodes)
    wanted = CooperativeJoin(
        group_id=GROUP, topics=(TOPIC,), offset_reset=OffsetReset.EARLIEST, client=CLIENT
    )
    first = await one.service.members.join_cooperative(ANYONE, wanted)
    second = await two.service.members.join_cooperative(ANYONE, wanted)
    assert (len(first.assigned), len(second.assigned)) == (3, 0)
    told = await three.service.members.heartbeat_cooperative(ANYONE, GROUP, first.member_id, None)
    assert told.to_revoke
    await two.service.members.revoke(ANYONE, GROUP, first.member_id, None, None)
    told = await one.service.members.heartbeat_cooperative(ANYONE, GROUP, second.member_id, None)
    assert len(told.assigned) in (1, 2)
    await three.service.members.leave_cooperative(
        ANYONE, GROUP, second.member_id, keeps_place=False
    )
    described = await two.service.groups.find_consumer(ANYONE, GROUP)
    assert [each.member_id for each in described.members] == [first.member_id]


@with_nodes
async def test_a_poll_waits_at_all_leaders_and_takes_no_more_than_asked_for(nodes: Nodes) -> None:
    one, two, three = await started(nodes)
    member = await join(one)
    for index, node in ((1, two), (2, three), (0, one)):
        waiting = asyncio.create_task(poll(one, member, timeout_ms=30_000))
        await nodes.until(lambda: all(waiters(n, i) for i, n in enumerate((one, two, three))))
        await node.produce(b"%d" % index, index=index)
        assert values(await waiting) == [b"%d" % index]
    for index, node in enumerate((one, two, three)):
        await node.produce(b"a", b"b", index=index)
    got: list[bytes] = []
    for _ in range(6):
        polled = await poll(two, member, max_records=1)
        got += values(polled)
        assert len(polled.records) == 1
    assert sorted(got) == [b"a"] * 3 + [b"b"] * 3
    assert values(await poll(two, member)) == []


@with_nodes
async def test_an_answer_that_was_lost_is_given_again(nodes: Nodes) -> None:
    one, two, three = await started(nodes)
    await one.produce(b"a")
    member = await join(two)
    lost = await poll(three, member, after=member.answer)
    again = await poll(one, member, after=member.answer)
    assert values(lost) == values(again) == [b"a"]
    assert again.member.answer != lost.member.answer
    await one.produce(b"b")
    # Neither has arrived: what comes is all of it, and what is committed is none of it.
    lost = await poll(one, member, after=again.member.answer)
    assert values(lost) == [b"b"]
    await two.service.members.commit(
        ANYONE,
        GROUP,
        None,
        member_id=member.member_id,
        epoch=None,
        after=again.member.answer,
    )
    seen = await one.service.groups.overview(ANYONE, GROUP)
    positions = await one.service.groups.positions(ANYONE, seen)
    assert positions[0].committed_offset == 1
    assert values(await poll(two, member)) == [b"b"]
    # Who does not say what it has is taken to have everything.
    assert values(await poll(two, member)) == []


@with_nodes
async def test_a_client_that_hangs_up_does_not_keep_its_member_busy(nodes: Nodes) -> None:
    one, two, three = await started(nodes)
    member = await join(one)
    coordinator = await until_coordinated(nodes, without=0)
    others = [node for node in (one, two, three) if node is not coordinator]
    waiting = asyncio.create_task(poll(others[0], member, timeout_ms=30_000))
    await nodes.until(lambda: waiters(one, 0))
    waiting.cancel()
    await one.produce(b"a")
    assert values(await poll(others[1], member)) == [b"a"]


@with_nodes
async def test_sessions_end_with_the_coordinator_and_offsets_stay(nodes: Nodes) -> None:
    all_ = await started(nodes)
    await all_[0].produce(b"a", b"b")
    member = await join(all_[0], auto_commit=True)
    assert values(await poll(all_[0], member, max_records=1)) == [b"a"]
    await commit(all_[1], member)
    before = await until_coordinated(nodes, without=0)
    await nodes.die(before.id)
    left = [node for node in all_ if node is not before]
    with pytest.raises(GroupRefused) as refused:
        await poll(left[0], member)
    assert refused.value.error is GroupError.UNKNOWN_MEMBER_ID
    again = await join(left[1], member.member_id)
    assert again.member_id == member.member_id
    assert values(await poll(left[0], again, timeout_ms=30_000)) == [b"b"]


@with_nodes
async def test_a_coordinator_that_was_deposed_knows_nothing_of_its_members(nodes: Nodes) -> None:
    all_ = await started(nodes)
    await all_[0].produce(b"a", b"b")
    member = await join(all_[0])
    assert values(await poll(all_[0], member)) == [b"a", b"b"]
    node = await until_coordinated(nodes, without=0)
    place = node.node.groups.state.place(0)
    node.node.groups.no_longer_led(place)
    node.node.groups.led(place)
    # Somebody else may have committed other offsets meanwhile.
    with pytest.raises(GroupRefused) as refused:
        await commit(node, member)
    assert refused.value.error is GroupError.UNKNOWN_MEMBER_ID


@with_nodes
async def test_a_poll_goes_on_with_the_next_leader_of_a_partition(nodes: Nodes) -> None:
    one, two, three = await started(nodes)
    member = await join(one)
    coordinator = await until_coordinated(nodes, without=0)
    [lost, *_] = [node for node in (one, two, three) if node is not coordinator]
    index = lost.id - 1
    waiting = asyncio.create_task(poll(coordinator, member, timeout_ms=30_000))
    await nodes.until(lambda: waiters(lost, index))
    await nodes.die(lost.id)
    await nodes.until(lambda: nodes.leader(index))
    leader = nodes.leader(index)
    assert leader is not None
    await leader.produce(b"x", index=index, acks=1)
    assert values(await waiting) == [b"x"]


@with_nodes
async def test_groups_of_all_brokers_are_listed(nodes: Nodes) -> None:
    one, _, three = all_ = await started(nodes, offsets__topic__num__partitions="6")
    names = [f"g{number}" for number in range(12)]
    offset = OffsetToCommit(topic=TOPIC, partition=0, offset=0)
    for name in names:
        await three.service.members.commit(ANYONE, name, [offset], member_id=None, epoch=None)
    for node in all_:
        listed = await node.service.groups.list_all(ANYONE, ListGroups())
        assert [each.group_id for each in listed.groups] == sorted(names)
        assert listed.unanswered == []
        # As Kafka's clients ask, who ask all brokers.
        assert 0 < len(await node.service.groups.list(ANYONE, ListGroups())) < 12
    assert (await three.service.groups.all_rebalances(ANYONE)).tally.completed == 0
    await join(three)
    for node in all_:
        found = await node.service.groups.all_rebalances(ANYONE)
        assert found.tally.by_reason == {"member_joined": 1}
        assert (found.tally.completed, found.unanswered) == (1, [])

    async def fail(_: object) -> Any:
        raise GoQueueError("not today")

    one.node.calls.serve(LIST, fail)
    listed = await three.service.groups.list_all(ANYONE, ListGroups())
    assert listed.unanswered == [(NodeId(1), "not today")]
    assert 0 < len(listed.groups) < 12
