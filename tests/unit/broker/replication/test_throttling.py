"""Followers that catch up are held to a rate; those in sync are not."""

from typing import cast

from goqueue.broker.partitions.stored import PartitionCounts, StoredPartition
from goqueue.broker.replication.throttling import WINDOW_S, Growth, Throttle
from goqueue.model.names import NodeId
from goqueue.model.replication import Member
from goqueue.model.replication_config import FOLLOWER_RATE, LEADER_RATE, UNLIMITED
from goqueue.state import metadata_keys as keys
from tests.unit.broker.replication.nodes import Nodes, with_nodes

# Two fit into what is fetched of a partition at once.
LARGE = b"x" * 400_000


def test_a_rate_is_kept_on_average() -> None:
    now_s, rate = 0.0, 100
    throttle = Throttle(lambda: rate, lambda: now_s)
    now_s = 0.5
    assert not throttle.is_exceeded
    # One answer may go beyond, and is paid back.
    throttle.note(250)
    assert throttle.is_exceeded
    now_s = 2.4
    assert throttle.is_exceeded
    now_s = 2.6
    assert not throttle.is_exceeded
    # What nobody used is not kept for long.
    now_s = 1_000.0
    assert not throttle.is_exceeded
    throttle.note(101)
    assert throttle.is_exceeded
    rate = UNLIMITED
    assert not throttle.is_exceeded
    assert not throttle.is_limited
    # What was copied without a limit is not owed when one is set.
    for _ in range(10):
        throttle.note(1_000_000)
        assert not throttle.is_exceeded
    rate, now_s = 100, 1_000.5
    assert not throttle.is_exceeded
    # On top of the rate: what is written meanwhile.
    throttle.note(250)
    throttle.allow(150)
    assert throttle.is_exceeded
    throttle.allow(51)
    assert not throttle.is_exceeded
    # It counts also where the rate is not used up, and does not pile up.
    now_s = 2_000.0
    for _ in range(10):
        assert not throttle.is_exceeded
        throttle.allow(50)
    throttle.note(149)
    assert not throttle.is_exceeded
    throttle.note(1)
    assert throttle.is_exceeded


def test_what_is_written_between_two_requests_is_on_top() -> None:
    now_s = 0.0
    growth = Growth(lambda: now_s)
    partition = cast(StoredPartition, Written())
    four, five = Member(NodeId(4), 7), Member(NodeId(5), 7)

    def write(size_bytes: int) -> None:
        partition.counts.bytes_in += size_bytes

    write(1_000_000)
    # What was there before is what the rate is for.
    assert growth.since_last(partition, four) == 0
    write(300)
    now_s += 0.5
    assert growth.since_last(partition, four) == 300
    assert growth.since_last(partition, four) == 0
    assert growth.since_last(partition, five) == 0
    write(200)
    assert (growth.since_last(partition, four), growth.since_last(partition, five)) == (200, 200)
    # A pause of 100 seconds: what was written in one of them.
    write(100_000)
    now_s += 100 * WINDOW_S
    assert growth.since_last(partition, four) == 1_000
    # It has restarted, and says nothing of what it was told before.
    assert growth.since_last(partition, four._replace(broker_epoch=8)) == 0


class Written:
    """All that it is asked for."""

    def __init__(self) -> None:
        self.counts = PartitionCounts()


async def hold_back(nodes: Nodes, rate: str, config: dict[str, str]) -> None:
    async def set_rates(**rates: str) -> None:
        await nodes.store.put(*keys.broker_config_entry(None, rates))

    await nodes.start(1, 2, 3)
    await nodes.make_topic(config=config)
    await nodes.until_in_sync(1, 2, 3)
    await nodes.die(3)
    await nodes.until_in_sync(1, 2)
    leader = nodes.leader()
    assert leader is not None
    for _ in range(5):
        await leader.produce(LARGE)
    await set_rates(**{rate: "1"})
    await nodes.start(3)
    three = nodes.running[3]
    await nodes.until(lambda: three.replica().log_end_offset == 2)
    # Others are in sync, and as fast as ever.
    for _ in range(3):
        await leader.produce(LARGE)
    assert three.replica().log_end_offset == 2
    await set_rates()
    await nodes.until_in_sync(1, 2, 3)
    assert three.replica().log_end_offset == 8


@with_nodes
async def test_a_leader_holds_back_who_catches_up(nodes: Nodes) -> None:
    await hold_back(nodes, LEADER_RATE, {"leader.replication.throttled.replicas": "*"})


@with_nodes
async def test_a_follower_holds_itself_back_while_it_catches_up(nodes: Nodes) -> None:
    await hold_back(nodes, FOLLOWER_RATE, {"follower.replication.throttled.replicas": "0:3"})
