"""Three brokers in one process: what is acknowledged is on all of them, and outlives each."""

import asyncio
import contextlib
import errno

import pytest
from kio.schema.metadata.v12.response import MetadataResponse

from goqueue.broker.partitions.ready_list import ReadyList
from goqueue.broker.replication.resigning import LOOK_S
from goqueue.client.connection import Connection
from goqueue.client.questions import metadata_request
from goqueue.model.errors import GoQueueError, PartitionOffline, StaleBrokerEpoch
from goqueue.model.log import FetchedPart, FetchPart
from goqueue.model.names import NodeId
from goqueue.model.replication import Member
from goqueue.state import metadata_keys as keys
from goqueue.state.replication.in_sync import without
from tests.callers import ANYONE
from tests.unit.broker.replication.nodes import TOPIC, Nodes, with_nodes


@with_nodes
async def test_what_is_acknowledged_is_copied(nodes: Nodes) -> None:
    await nodes.start(1, 2, 3)
    await nodes.make_topic()
    await nodes.until_in_sync(1, 2, 3)
    leader = nodes.leader()
    assert leader is not None
    assert leader.id == 1
    for count in range(20):
        assert await leader.produce(b"%d" % count) == count
        assert all(node.replica().log_end_offset == count + 1 for node in nodes.running.values())
    await nodes.until(
        lambda: all(node.replica().high_watermark == 20 for node in nodes.running.values())
    )
    assert await leader.read_all() == [b"%d" % count for count in range(20)]


@with_nodes
async def test_one_that_stops_still_hears_of_partitions(nodes: Nodes) -> None:
    """Of thousands, not all may have gone when its time to hand them over is up."""
    _, two, _ = await nodes.start(1, 2, 3)
    await nodes.make_topic()
    await nodes.until_in_sync(1, 2, 3)
    replication, image = two.node.replication, two.node.image
    assert replication is not None
    replication.leave()
    await replication.close()
    state = without(image.topics[TOPIC].partitions[0].state, {NodeId(2)})
    entry = keys.partition_entry(*two.replica().name, state)
    later, changes = image.apply(image.revision + 1, [(*entry, image.revision + 1)])
    await replication.prepare(changes, later)
    await nodes.stop(2)
    await nodes.until_in_sync(1, 3)


@with_nodes
async def test_another_leads_on_with_everything_acknowledged(nodes: Nodes) -> None:
    await nodes.start(1, 2, 3)
    await nodes.make_topic(partitions=6)
    sent: dict[int, list[bytes]] = {index: [] for index in range(6)}
    for victim in (1, 2, 3):
        for count in range(5):
            for index in sent:
                value = b"%d %d" % (victim, count)
                leader = nodes.leader(index)
                assert leader is not None
                await leader.produce(value, index=index)
                sent[index].append(value)
        await nodes.die(victim)
        await nodes.until(lambda: all(nodes.leader(index) for index in sent))
        for index, values in sent.items():
            leader = nodes.leader(index)
            assert leader is not None
            value = b"without %d" % victim
            await leader.produce(value, index=index)
            values.append(value)
            assert await leader.read_all(index) == values
        await nodes.start(victim)
        for index in sent:
            await nodes.until_in_sync(1, 2, 3, index=index)
    for index, values in sent.items():
        ends = {node.replica(index).log_end_offset for node in nodes.running.values()}
        assert ends == {len(values)}


@with_nodes
async def test_a_deposed_leader_cuts_what_nobody_else_has(nodes: Nodes) -> None:
    one, *_ = await nodes.start(1, 2, 3)
    await nodes.make_topic()
    await one.produce(b"kept")
    # What comes now stays with the leader.
    for node in (2, 3):
        replication = nodes.running[node].node.replication
        assert replication is not None
        await replication.close()
    await one.produce(b"lost", acks=1)
    assert one.replica().log_end_offset == 2
    await nodes.die(2)
    await nodes.die(3)
    await nodes.die(1)
    await nodes.start(2, 3)
    await nodes.until_in_sync(2, 3)
    leader = nodes.leader()
    assert leader is not None
    await leader.produce(b"instead")
    await nodes.start(1)
    await nodes.until_in_sync(1, 2, 3)
    await leader.produce(b"last")
    expected = [b"kept", b"instead", b"last"]
    assert await leader.read_all() == expected
    # Its own log says so, too. One alone commits nothing: it must have heard how far it goes.
    await nodes.until(lambda: nodes.running[1].replica().high_watermark == 3)
    await nodes.stop(2)
    await nodes.stop(3)
    await nodes.until(lambda: nodes.running[1].leads())
    assert await nodes.running[1].read_all() == expected


@with_nodes
async def test_what_is_followed_anew_is_asked_for_at_once(nodes: Nodes) -> None:
    """Also while the leader keeps the last request waiting."""
    await nodes.start(1, 2, 3, replica__fetch__wait__max__ms="60000")
    await nodes.make_topic(partitions=3)
    for index in range(3):
        leader = nodes.leader(index)
        assert leader is not None
        await leader.produce(b"first", index=index)
    # Its followers go to leaders that they wait for already.
    await nodes.die(1)
    await nodes.until(lambda: all(nodes.leader(index) for index in range(3)))
    for index in range(3):
        leader = nodes.leader(index)
        assert leader is not None
        await leader.produce(b"second", index=index)
        assert await leader.read_all(index) == [b"first", b"second"]


@with_nodes
async def test_copies_of_a_topic_that_flushes_every_append(nodes: Nodes) -> None:
    await nodes.start(1, 2, 3)
    await nodes.make_topic(partitions=3, config={"fsync.policy": "always"})
    for count in range(5):
        for index in range(3):
            leader = nodes.leader(index)
            assert leader is not None
            await leader.produce(b"%d" % count, index=index)
    for node in nodes.running.values():
        assert all(node.replica(index).log.flushed_offset == 5 for index in range(3))


@with_nodes
async def test_a_deleted_topic_is_not_followed_any_more(nodes: Nodes) -> None:
    one, *_ = await nodes.start(1, 2, 3)
    await nodes.make_topic()
    await one.produce(b"x")
    await one.service.topics.delete(ANYONE, TOPIC)
    await nodes.until(
        lambda: all(TOPIC not in node.node.image.topics for node in nodes.running.values())
    )
    await nodes.make_topic()
    await nodes.until_in_sync(1, 2, 3)
    assert await one.produce(b"anew") == 0
    assert await one.read_all() == [b"anew"]


@with_nodes
async def test_a_leader_whose_disk_failed_lets_another_lead(nodes: Nodes) -> None:
    one, two, _ = await nodes.start(1, 2, 3)
    await nodes.make_topic()
    await one.produce(b"kept")
    one.replica().give_up("its disk is full")
    await nodes.until(lambda: two.leads())
    await two.produce(b"more")
    assert await two.read_all() == [b"kept", b"more"]
    assert set(two.view().isr) == {2, 3}
    # Nobody else has this one: there is nobody to give it up to.
    await nodes.die(3)
    await nodes.until(lambda: set(two.view().isr) == {2})
    two.replica().give_up("its disk is full, too")
    await asyncio.sleep(3 * LOOK_S)
    assert two.view().leader == 2


@with_nodes
async def test_a_follower_whose_disk_failed_is_counted_on_no_more(nodes: Nodes) -> None:
    one, two, _ = await nodes.start(1, 2, 3)
    await nodes.make_topic()
    await nodes.until_in_sync(1, 2, 3)
    two.disk.inject("fdatasync", errno.EIO, path_contains=f"/{TOPIC}-0/", times=1)
    await one.produce(b"kept")
    two.replica().flushes.start()
    # The leader does not miss it, for nothing more is appended.
    await nodes.until(lambda: set(one.view().isr) == {1, 3})
    await nodes.until(lambda: two.identity.identity.is_harmed)
    await nodes.die(2)
    [again] = await nodes.start(2)
    await nodes.until_in_sync(1, 2, 3)
    await nodes.until(lambda: again.replica().log_end_offset == 1)
    assert not again.identity.identity.is_harmed


@with_nodes
async def test_a_leader_whose_disk_is_full_lets_another_lead_until_it_has_room(
    nodes: Nodes,
) -> None:
    one, two, _ = await nodes.start(1, 2, 3)
    await nodes.make_topic()
    await nodes.until_in_sync(1, 2, 3)
    await one.produce(b"before")
    one.disk.inject("pwrite", errno.ENOSPC, path_contains=f"/{TOPIC}-0/")
    with pytest.raises(PartitionOffline, match="No space left"):
        await one.produce(b"refused")
    await asyncio.sleep(3 * LOOK_S)
    assert one.leads(), "once may have passed"
    while not two.leads():
        with contextlib.suppress(GoQueueError):
            await one.produce(b"refused")
        await asyncio.sleep(0.05)
    await two.produce(b"meanwhile")
    # Its leader knows it before the image says so.
    await nodes.until(lambda: set(two.view().isr) == {2, 3})
    one.disk.heal()
    await nodes.until_in_sync(1, 2, 3)
    await nodes.until(lambda: one.replica().log_end_offset == 2)
    assert await two.read_all() == [b"before", b"meanwhile"]


@with_nodes
async def test_a_follower_whose_disk_is_full_does_not_hold_up_the_others(nodes: Nodes) -> None:
    one, two, _ = await nodes.start(1, 2, 3)
    await nodes.make_topic()
    await nodes.until_in_sync(1, 2, 3)
    two.disk.inject("pwrite", errno.ENOSPC, path_contains=f"/{TOPIC}-0/")
    await one.produce(b"not for two")
    await nodes.until(lambda: set(one.view().isr) == {1, 3})
    two.disk.heal()
    await nodes.until_in_sync(1, 2, 3)
    assert two.replica().log_end_offset == 1


@with_nodes
async def test_a_full_disk_does_not_make_too_few_of_enough(nodes: Nodes) -> None:
    """Nothing would be won: the other one must not append alone, and this one has everything."""
    one, _, _ = await nodes.start(1, 2, 3)
    await nodes.make_topic()
    await nodes.until_in_sync(1, 2, 3)
    await nodes.die(3)
    await nodes.until(lambda: set(one.view().isr) == {1, 2})
    one.disk.inject("pwrite", errno.ENOSPC, path_contains=f"/{TOPIC}-0/")
    for _ in range(20):
        with pytest.raises(PartitionOffline):
            await one.produce(b"refused")
        await asyncio.sleep(LOOK_S / 5)
    assert one.leads()
    assert set(one.view().isr) == {1, 2}
    one.disk.heal()
    await one.produce(b"taken")
    assert await one.read_all() == [b"taken"]


@with_nodes
async def test_nobody_speaks_for_a_follower_under_an_epoch_that_it_does_not_have(
    nodes: Nodes,
) -> None:
    one, two, _ = await nodes.start(1, 2, 3)
    await nodes.make_topic()
    await nodes.until_in_sync(1, 2, 3)
    assert two.membership.me is not None
    epoch = two.membership.me.broker_epoch

    async def fetch(member: Member) -> FetchedPart:
        ready = ReadyList()
        ready.add(0)
        part = FetchPart(TOPIC, 0, 0, 1_000, topic_id=one.node.image.topics[TOPIC].id)
        found = await one.service.replication.fetch(
            ANYONE,
            member,
            ready,
            {0: part},
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1_000,
            looks_at_all=True,
        )
        return found[0]

    for stranger in (Member(NodeId(2), epoch - 1), Member(NodeId(2), 2**60)):
        assert isinstance((await fetch(stranger)).error, StaleBrokerEpoch)
    # The real one is not taken for an earlier one now.
    assert (await fetch(two.membership.me)).error is None
    await one.produce(b"copied by all")


@with_nodes
async def test_clients_are_still_told_of_a_broker_that_is_gone(nodes: Nodes) -> None:
    one, *_ = await nodes.start(1, 2, 3)
    gone = one.node.image.brokers[NodeId(2)]
    await nodes.die(2)
    await nodes.until(lambda: NodeId(2) not in one.node.image.brokers)
    host, port = one.node.image.brokers[NodeId(1)][1:3]
    connection = await Connection.open(host, port)
    told = await connection.call(metadata_request(()), MetadataResponse)
    assert {(each.node_id, each.port) for each in told.brokers} >= {(2, gone.kafka_port)}
    described = one.service.administration.cluster
    assert 2 not in {each.node_id for each in described.brokers}
    connection.drop()
