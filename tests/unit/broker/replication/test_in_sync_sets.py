"""Who leaves the in-sync set, who comes back, and what a lost answer of the store does."""

from collections.abc import Sequence

from goqueue.metadata.store import Compare, Op, Put, TxnResult
from goqueue.model.errors import MetadataUnavailable
from tests.unit.broker.replication.nodes import Nodes, RunningNode, SharedStore, with_nodes

SHORT_LAG_MS = "500"


async def stop_copying(node: RunningNode) -> None:
    """The broker is there, and hangs as far as its leaders can tell."""
    replication = node.node.replication
    assert replication is not None
    await replication.close()


@with_nodes
async def test_a_follower_that_hangs_leaves_and_comes_back(nodes: Nodes) -> None:
    one, _, three = await nodes.start(1, 2, 3, replica__lag__time__max__ms=SHORT_LAG_MS)
    await nodes.make_topic()
    await one.produce(b"by all")
    await stop_copying(three)
    # It is acknowledged when nobody waits for the third any more.
    await one.produce(b"by two")
    await nodes.until_in_sync(1, 2)
    await nodes.die(3)
    await nodes.start(3, replica__lag__time__max__ms=SHORT_LAG_MS)
    # Without anything appended.
    await nodes.until_in_sync(1, 2, 3)
    assert nodes.running[3].replica().log_end_offset == 2


@with_nodes
async def test_a_follower_with_nothing_to_copy_stays(nodes: Nodes) -> None:
    # Less than a fetch waits for something to copy (500 ms).
    one, *_ = await nodes.start(1, 2, 3, replica__lag__time__max__ms="400")
    await nodes.make_topic()
    await nodes.until_in_sync(1, 2, 3)
    assert one.node.replication is not None
    proposals = one.node.replication.proposals
    looks = proposals.looks
    await nodes.until(lambda: proposals.looks > looks + 8)
    assert proposals.shrunk == 0


class ForgetfulStore(SharedStore):
    """Carries out changes of partitions and then loses its answer, so many times."""

    losses_left = 0

    async def transact(
        self,
        compares: Sequence[Compare],
        success_ops: Sequence[Op],
        failure_ops: Sequence[Op] = (),
    ) -> TxnResult:
        done = await super().transact(compares, success_ops, failure_ops)
        changes = [op for op in success_ops if isinstance(op, Put) and "/partitions/" in op.key]
        if changes and self.losses_left:
            self.losses_left -= 1
            raise MetadataUnavailable("the answer got lost")
        return done


@with_nodes(store=ForgetfulStore)
async def test_a_change_whose_answer_was_lost_counts_when_it_is_seen(nodes: Nodes) -> None:
    one, _, three = await nodes.start(1, 2, 3, replica__lag__time__max__ms=SHORT_LAG_MS)
    await nodes.make_topic()
    await one.produce(b"by all")
    assert isinstance(nodes.store, ForgetfulStore)
    nodes.store.losses_left = 3
    await stop_copying(three)
    await one.produce(b"by two")
    await nodes.until_in_sync(1, 2)
    assert await one.read_all() == [b"by all", b"by two"]


async def lose_session(nodes: Nodes, node_id: int) -> None:
    membership = nodes.running[node_id].membership
    epoch = membership.epoch
    await nodes.store.revoke(membership.lease)
    await nodes.until(lambda: membership.me is not None and membership.epoch > epoch)


@with_nodes
async def test_a_broker_that_registers_anew_goes_on(nodes: Nodes) -> None:
    """Its session ran out while it was paused: it is another member than before."""
    await nodes.start(1, 2, 3)
    await nodes.make_topic(partitions=3)
    sent: list[bytes] = []
    for round_number, node_id in enumerate((1, 2, 3)):
        await lose_session(nodes, node_id)
        for index in range(3):
            await nodes.until_in_sync(1, 2, 3, index=index)
            leader = nodes.leader(index)
            assert leader is not None
            await leader.produce(b"%d" % round_number, index=index)
        sent.append(b"%d" % round_number)
    for index in range(3):
        leader = nodes.leader(index)
        assert leader is not None
        assert await leader.read_all(index) == sent
