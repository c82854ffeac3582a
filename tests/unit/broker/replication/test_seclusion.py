"""A broker that is cut off from the metadata store: alone, and together with all others."""

import asyncio

import pytest

from goqueue.broker.membership.seclusion import Seclusion
from goqueue.model.errors import NotLeader
from tests.unit.broker.replication.nodes import Nodes, RunningNode, with_nodes


def seclusion_of(node: RunningNode) -> Seclusion:
    assert node.node.cluster is not None
    return node.node.cluster.seclusion


async def led_by_the_first(nodes: Nodes) -> list[RunningNode]:
    started = await nodes.start(1, 2, 3)
    await nodes.make_topic(replicas=(1, 2, 3))
    await nodes.until_in_sync(1, 2, 3)
    await nodes.until(lambda: nodes.leader() is started[0])
    return started


@with_nodes
async def test_who_is_cut_off_alone_steps_down_and_comes_back(nodes: Nodes) -> None:
    one, two, three = await led_by_the_first(nodes)
    assert await one.produce(b"before") == 0
    host, port = one.door.address
    reader, writer = await asyncio.open_connection(host, port)
    nodes.lines[1].cut()
    await nodes.store.revoke(one.membership.lease)
    await nodes.until(lambda: two.leads() or three.leads())
    # To itself, nothing has happened.
    assert one.leads()
    assert one.node.serving_failure is None
    await seclusion_of(one).look()
    assert one.membership.me is None
    assert not one.leads()
    assert one.replica().following is None
    with pytest.raises(NotLeader):
        await one.produce(b"nowhere")
    assert set(one.node.image.brokers) == {2, 3}
    assert one.id in one.view().offline
    assert "the others go on without it" in (one.node.serving_failure or "")
    # Its clients are sent away.
    assert await reader.read() == b""
    writer.close()
    nodes.lines[1].heal()
    await nodes.until(lambda: one.membership.me is not None)
    assert one.node.serving_failure is None
    await nodes.until_in_sync(1, 2, 3)
    assert await (two if two.leads() else three).produce(b"after") == 1


@with_nodes
async def test_while_nobody_has_the_store_everybody_goes_on(nodes: Nodes) -> None:
    started = await led_by_the_first(nodes)
    for line in nodes.lines.values():
        line.cut()
    for node in started:
        # Also where registrations have ended: nobody knows of it.
        await nodes.store.revoke(node.membership.lease)
    for node in started:
        await seclusion_of(node).look()
        assert node.membership.me is not None
    assert await started[0].produce(b"still here") == 0
    for line in nodes.lines.values():
        line.heal()
    await nodes.until_in_sync(1, 2, 3)


@with_nodes
async def test_who_is_cut_off_but_registered_goes_on(nodes: Nodes) -> None:
    one, two, _ = await led_by_the_first(nodes)
    nodes.lines[1].cut()
    # The others know more than this one, but not that.
    revision = await nodes.store.put("/doors/any/thing", b"")
    await nodes.until(lambda: two.node.image.revision >= revision)
    await seclusion_of(one).look()
    assert one.leads()


@with_nodes
async def test_a_lease_that_must_have_run_out_makes_a_broker_ask(nodes: Nodes) -> None:
    await nodes.start(1, 2)
    (three,) = await nodes.start(3, broker__session__timeout__ms="1000")
    nodes.lines[3].cut()
    await nodes.until(lambda: three.membership.stepped_down)
    nodes.lines[3].heal()
    await nodes.until(lambda: three.membership.me is not None)
    assert three.membership.stepped_down is None
