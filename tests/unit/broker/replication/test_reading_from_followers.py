"""Readers that say where they stand read from a replica beside them (KIP-392)."""

import asyncio

from goqueue.model.errors import NotLeader, OffsetNotAvailable
from goqueue.model.log import FetchedPart, FetchPart, Isolation
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.replication_config import RACK_AWARE
from goqueue.service.log import ReadyParts
from tests.callers import ANYONE
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes


async def fetch(
    node: RunningNode, offset: int, *, rack: str = "", max_wait_ms: int = 0
) -> FetchedPart:
    [part] = await node.service.log.fetch(
        ANYONE,
        [FetchPart(TOPIC, 0, offset, 1_000_000)],
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1_000_000,
        isolation=Isolation.READ_COMMITTED,
        rack=rack,
    )
    return part


async def in_three_racks(nodes: Nodes) -> list[RunningNode]:
    for node_id in (1, 2, 3):
        settings = {"broker__rack": f"r{node_id}", "replica__selector__class": RACK_AWARE}
        await nodes.start(node_id, **settings)
    await nodes.make_topic()
    await nodes.until_in_sync(1, 2, 3)
    return [nodes.running[node_id] for node_id in (1, 2, 3)]


@with_nodes
async def test_a_leader_sends_readers_to_the_replica_in_their_rack(nodes: Nodes) -> None:
    leader, two, three = await in_three_racks(nodes)
    await leader.produce(b"x")
    assert (await fetch(leader, 0, rack="r2")).nearest == two.id
    assert (await fetch(leader, 0, rack="r3")).nearest == three.id
    for rack in ("", "r1", "elsewhere"):
        part = await fetch(leader, 0, rack=rack)
        assert part.nearest is None
        assert part.data
    # In a session, too.
    ready, wanted = ReadyParts(), FetchPart(TOPIC, 0, 0, 1_000_000)
    ready.add(0)
    found = await leader.service.log.fetch_ready(
        ANYONE,
        ready,
        {0: wanted},
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=1_000_000,
        isolation=Isolation.READ_UNCOMMITTED,
        looks_at_all=False,
        rack="r2",
    )
    assert found[0].nearest == two.id


@with_nodes
async def test_a_follower_shows_what_is_committed_and_wakes_who_waits(nodes: Nodes) -> None:
    leader, two, _ = await in_three_racks(nodes)
    waiting = asyncio.create_task(fetch(two, 0, rack="r2", max_wait_ms=60_000))
    await leader.produce(b"x")
    part = await waiting
    assert part.error is None
    assert part.data
    assert part.high_watermark == 1
    assert isinstance((await fetch(two, 5, rack="r2")).error, OffsetNotAvailable)
    # Who does not say where it stands is not sent to followers, and is looking for the leader.
    assert isinstance((await fetch(two, 0)).error, NotLeader)


@with_nodes
async def test_the_end_of_following_ends_the_wait(nodes: Nodes) -> None:
    leader, two, _ = await in_three_racks(nodes)
    waiting = asyncio.create_task(fetch(two, 0, rack="r2", max_wait_ms=60_000))
    await asyncio.sleep(0)
    await nodes.die(leader.id)
    await nodes.until(lambda: nodes.leader())
    led_by_two = nodes.leader() is two
    new_leader = nodes.leader()
    assert new_leader is not None
    await new_leader.produce(b"x")
    part = await waiting
    # It went on with what this broker became, or says that it reads from another leader's copy now.
    assert part.data or isinstance(part.error, NotLeader), (led_by_two, part.error)


@with_nodes
async def test_followers_tell_who_writes(nodes: Nodes) -> None:
    leader, two, _ = await in_three_racks(nodes)
    batch = encode_records(
        [NewRecord(value=b"x")], now_ms=1_000, producer_id=7, producer_epoch=3, base_sequence=0
    )
    await leader.service.log.produce(ANYONE, TOPIC, 0, batch, acks=-1, timeout_ms=30_000)
    for node in (leader, two):
        [producer] = node.service.log.producers(ANYONE, TOPIC, 0)
        assert (producer.producer_id, producer.producer_epoch) == (7, 3)
